/* Proteins in FASTA:
 *
 *     >any header                     one line
 *     MKWVTFISLLFLFSSAYS              letters of the sequence on any number of lines
 *
 * The alphabet is that of the Performer paper (Choromanski et al. 2021, C): the 20 amino acids and the five letters B,
 * O, U, X, Z for rare or unknown ones. These are 25 tokens; one more separates sequences. J is not among them and is
 * read as X. Lower case (soft masking) is read as upper case. Gaps "-" and ".", blanks, and a "*" at the end or before
 * a blank are skipped. Lines that begin with ";" are comments. Anything else is refused, with its line.
 *
 * Files stay as they are. One pass checks them, counts, and leaves marks; windows are read from the letters. */
#include "base/integer.h"
#include "data/sequence/fasta.h"

#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/wrong_files.h"
#include "data/text/text_reader.h"

int ll_fasta_token(int letter) {
    if (letter >= 'a' && letter <= 'z') letter += 'A' - 'a';
    if (letter < 'A' || letter > 'Z') return 0;
    if (letter == 'J') letter = 'X';
    return letter - 'A' + 1 - (letter > 'J');
}

int ll_fasta_letter(int token) {
    if (token < 1 || token >= LL_FASTA_VOCAB) return '\n';
    return 'A' + token - 1 + (token > 9);
}

/* ---- The pass over the files ---- */

typedef struct {
    ll_text_windows text;
    ll_corpus files;
    uint8_t token[256]; /* of a byte; 0: not a letter */
} proteins;

typedef struct {
    proteins *own;
    const ll_bytes *file;
    size_t left; /* for ll_bytes_pass */
    const char *name;
    int T;
    ll_mark at;    /* the tokens, texts and rows before the next byte */
    int64_t begin; /* the first token of the last text */
    int header;    /* a header came, and no letter yet */
    int headers;   /* in this file */
    int64_t line;
} pass;

static ll_status wrong(const pass *p, int found) {
    return ll_fail(LL_EFORMAT,
                   "%s: line %lld has a byte 0x%02x, which is not a letter of a protein; is it a FASTA file?",
                   p->name, (long long)p->line, found);
}

static void end_text(pass *p) {
    if (p->at.text) p->at.row += ll_text_windows_of(p->begin, p->at.token, p->T);
}

/* A header without a sequence is skipped: a text begins with its first letter. */
static void begin_text(pass *p) {
    end_text(p);
    ll_marks_pass(&p->own->text.texts, &p->at);
    p->begin = p->at.token++;
    p->at.text++;
    p->header = 0;
}

/* A part of a line, without the line end. last: it ends the line; else another byte comes after it. */
static ll_status pass_letters(pass *p, const uint8_t *from, size_t size, int last) {
    const int64_t byte = p->at.byte;
    if (!p->header) ll_marks_pass(&p->own->text.marks, &p->at);
    for (size_t i = 0; i < size; i++) {
        if (p->own->token[from[i]]) {
            p->at.byte = byte + (int64_t)i;
            if (p->header) begin_text(p);
            p->at.token++;
        } else if (!ll_fasta_is_left_out(from[i], last && i + 1 == size ? -1 : from[i + 1])) {
            return wrong(p, from[i]);
        }
    }
    return LL_OK;
}

/* The line end, or the end of the file. A line may be as long as a chromosome. left: for ll_bytes_pass. */
static size_t end_of_line(const ll_bytes *file, size_t at, size_t *left) {
    for (size_t n; at < file->size; at += n) {
        n = ll_min_size(file->size - at, LL_PAGES_MOST);
        const uint8_t *stop = memchr(file->data + at, '\n', n);
        if (stop) return (size_t)(stop - file->data);
        ll_bytes_pass(file, at + n, left);
    }
    return at;
}

static ll_status pass_line(pass *p, const uint8_t *from, size_t size, int64_t byte) {
    size_t blank = 0;
    while (size && ll_fasta_is_blank(from[size - 1])) size--;
    while (blank < size && ll_fasta_is_blank(from[blank])) blank++;
    if (blank == size) return LL_OK;
    if (!p->headers)
        return ll_fail(LL_EFORMAT,
                       "%s: line %lld comes before any header line, which begins with '>'; it is "
                       "no FASTA file",
                       p->name, (long long)p->line);
    ll_status status = LL_OK;
    for (size_t at = 0, n; at < size && !status; at += n) {
        n = ll_min_size(size - at, LL_MARKS_SPACING);
        p->at.byte = byte + (int64_t)at;
        status = pass_letters(p, from + at, n, at + n == size);
        ll_bytes_pass(p->file, (size_t)(from - p->file->data) + at, &p->left);
    }
    return status;
}

static ll_status pass_file(pass *p, const ll_bytes *file, int64_t before) {
    const uint8_t *data = file->data;
    const int64_t texts = p->at.text;
    ll_status status = LL_OK;
    p->file = file;
    p->left = 0;
    p->header = p->headers = 0;
    p->line = 0;
    for (size_t at = ll_byte_order_mark(data, file->size), end; at < file->size && !status; at = end + 1) {
        end = end_of_line(file, at, &p->left);
        if (p->left > at) p->left = at; /* what was gone over for the line end is read now */
        p->line++;
        if (data[at] == '>')
            p->header = p->headers = 1;
        else if (data[at] != ';')
            status = pass_line(p, data + at, end - at, before + (int64_t)at);
        ll_bytes_pass(file, end, &p->left);
    }
    if (!status && p->at.text == texts)
        status = ll_fail(LL_EFORMAT, "%s: no sequence in %lld lines", p->name, (long long)p->line);
    return status;
}

static ll_status pass_files(proteins *own, int T) {
    ll_text_windows *w = &own->text;
    const ll_corpus *o = &own->files;
    const int64_t bytes = o->begin[o->files];
    pass p = {.own = own, .T = T};
    ll_wrong_files wrong = {0};
    ll_status status = ll_marks_create(&w->marks, bytes, 0);
    if (!status) status = ll_marks_create(&w->texts, bytes, 0);
    for (int i = 0; i < o->files && !status; i++) {
        p.name = o->name[i];
        status = ll_wrong_files_add(&wrong, pass_file(&p, &o->file[i], o->begin[i]), p.name);
    }
    if (!status) status = ll_wrong_files_end(&wrong);
    if (status) return status;
    end_text(&p);
    p.at.byte = bytes;
    ll_marks_end(&w->texts, &p.at);
    ll_corpus_leave(o);
    return LL_OK;
}

/* ---- Reading ---- */

/* What is read, and where to: see ll_text_windows. */
typedef struct {
    int64_t until;
    int next_text, header; /* header: one was passed */
    int *out;
} reading;

static void give(reading *w, ll_text_cursor *at, int token) {
    at->token++;
    if (w->out) *w->out++ = token;
}

/* Letters without a break. Returns how many there are. */
static size_t give_letters(const proteins *own, const uint8_t *letter, size_t most, reading *w, ll_text_cursor *at) {
    size_t n = 0;
    if ((uint64_t)(w->until - at->token) < most) most = (size_t)(w->until - at->token);
    if (w->out) {
        for (; n < most && own->token[letter[n]]; n++) w->out[n] = own->token[letter[n]];
        w->out += n;
    } else {
        while (n < most && own->token[letter[n]]) n++;
    }
    at->token += (int64_t)n;
    return n;
}

/* Reads on in one file, which has `before` bytes before it. Returns 0 at its end. */
static int scan_file(const proteins *own, const ll_bytes *file, int64_t before, ll_text_cursor *at, reading *w) {
    size_t i = (size_t)(at->byte - before), left;
    while (i < file->size) {
        const uint8_t byte = file->data[i], token = own->token[byte];
        if (byte == '>') at->begins = w->header = 1;
        if (byte == '>' || byte == ';') {
            left = i;
            i = end_of_line(file, i, &left) + 1;
        } else if (!token) {
            i++;
        } else if (at->token == w->until || (at->begins && w->header && w->next_text)) {
            break;
        } else if (at->begins) {
            give(w, at, LL_FASTA_BOUNDARY);
            at->begins = 0;
        } else {
            i += give_letters(own, file->data + i, file->size - i, w, at);
        }
    }
    if (i > file->size) i = file->size; /* the last line has no end */
    at->byte = before + (int64_t)i;
    return i < file->size;
}

/* After the last text there are boundaries. */
static void scan(const ll_reader *r, ll_text_cursor *at, int64_t until, int next_text, int *out) {
    proteins *own = r->own;
    ll_corpus *o = &own->files;
    const int64_t from = at->byte;
    reading w = {until, next_text, 0, out};
    int i = ll_corpus_file(o, from, 0);
    while (i < o->files && !scan_file(own, &o->file[i], o->begin[i], at, &w)) i++;
    ll_corpus_touch(o, (size_t)(at->byte - from));
    while (i == o->files && w.out && at->token < until) give(&w, at, LL_FASTA_BOUNDARY);
}

/* ---- Reader ---- */

static ll_status open_fasta(ll_reader *r, const ll_reader_options *c, int split) {
    proteins *own = r->own;
    ll_text_windows *w = &own->text;
    ll_source from = {0};
    for (int i = 0; i < 256; i++) own->token[i] = (uint8_t)ll_fasta_token(i);
    w->scan = scan;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (!status) status = ll_text_check_length(c);
    if (status) return status;
    status = ll_corpus_open(&own->files, from.path);
    if (!status) status = pass_files(own, c->length);
    if (status) return ll_fail_in(status, from.key);
    status = ll_texts_use(r, c, split, "sequence", from.path);
    if (status) return status;
    r->vocab = LL_FASTA_VOCAB;
    r->maskable = 1; /* a masked boundary would be easy to guess, because letters are on both sides */
    return c->data.joined ? ll_texts_join(r, c, split, from.path) : LL_OK;
}

static void close_fasta(const ll_reader *r) {
    proteins *own = r->own;
    ll_corpus_close(&own->files);
    ll_text_close(r);
}

const ll_format ll_format_fasta = {
    "fasta", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_fasta, ll_text_fill, sizeof(proteins), close_fasta,
    .unit = "residue", .cut = LL_CUT_BYTE, .baseline = 1, .input = LL_INPUT_FASTA};
