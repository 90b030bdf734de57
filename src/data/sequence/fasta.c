/* Proteins in FASTA:
 *
 *     >any header                     one line
 *     MKWVTFISLLFLFSSAYS              letters of the sequence on any number of lines
 *
 * The alphabet is that of the Performer paper (Choromanski et al. 2021, C): the 20 amino acids and the five letters B,
 * O, U, X, Z for rare or unknown ones. These are 25 tokens; one more separates sequences. J is not among them and is
 * read as X. Lower case (soft masking) is read as upper case. Gaps "-" and "." and a final "*" are skipped. Lines that
 * begin with ";" are comments. Anything else is refused, with its line. */
#include "data/sequence/fasta.h"

#include <string.h>

#include "base/memory.h"
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

static ll_status wrong(const char *name, int64_t line, int found) {
    return ll_fail(LL_EFORMAT,
                   "%s: line %lld has a byte 0x%02x, which is not a letter of a protein; is it a FASTA file?",
                   name, (long long)line, found);
}

/* The letters of one line, without the line end. */
static ll_status add_line(uint8_t *out, int64_t *n, const uint8_t *from, size_t size, const char *name, int64_t line) {
    while (size && (from[size - 1] == '\r' || from[size - 1] == ' ')) size--;
    for (size_t i = 0; i < size; i++) {
        const int token = ll_fasta_token(from[i]);
        if (token)
            out[(*n)++] = (uint8_t)token;
        else if (from[i] != '-' && from[i] != '.' && from[i] != ' ' && !(from[i] == '*' && i + 1 == size))
            return wrong(name, line, from[i]);
    }
    return LL_OK;
}

ll_status ll_fasta_parse(uint8_t *out, int64_t *tokens, int64_t *sequences, const uint8_t *data, size_t size,
                         const char *name) {
    int64_t n = 0, count = 0, line = 0;
    for (size_t at = 0, end; at < size; at = end + 1) {
        const uint8_t *stop = memchr(data + at, '\n', size - at);
        end = stop ? (size_t)(stop - data) : size;
        line++;
        if (data[at] == '>') {
            /* A header without a sequence is skipped. */
            if (count && out[n - 1] == LL_FASTA_BOUNDARY) n--, count--;
            out[n++] = LL_FASTA_BOUNDARY;
            count++;
        } else if (data[at] != ';') {
            size_t blank = at;
            while (blank < end && (data[blank] == ' ' || data[blank] == '\r')) blank++;
            if (blank == end) continue;
            if (!count)
                return ll_fail(LL_EFORMAT,
                               "%s: line %lld comes before any header line, which begins with '>'; it is "
                               "no FASTA file",
                               name, (long long)line);
            const ll_status status = add_line(out, &n, data + at, end - at, name, line);
            if (status) return status;
        }
    }
    if (count && out[n - 1] == LL_FASTA_BOUNDARY) n--, count--;
    if (!count) return ll_fail(LL_EFORMAT, "%s: no sequence in %lld lines", name, (long long)line);
    *tokens = n;
    *sequences = count;
    return LL_OK;
}

/* ---- Reader ---- */

static const size_t ANY_SIZE = SIZE_MAX / 4;

/* Reads all files. The tokens of each file first overwrite its own bytes. Then they are joined, with a boundary at the
 * end. */
static ll_status read_files(ll_bytes *all, int64_t *sequences, const char *path) {
    char **names = NULL;
    int count = 0;
    size_t size = 0;
    ll_status status = ll_files_list(&names, &count, path);
    if (status) return status;
    ll_bytes *part = ll_alloc((size_t)count, sizeof *part);
    if (!part) status = LL_ENOMEM;
    for (int i = 0; !status && i < count; i++) {
        ll_bytes file = {0};
        int64_t found = 0, tokens = 0;
        status = ll_file_read(&file, names[i], ANY_SIZE);
        if (!status && !(part[i].data = ll_alloc(file.size + 1, 1))) status = LL_ENOMEM;
        if (!status) status = ll_fasta_parse(part[i].data, &tokens, &found, file.data, file.size, names[i]);
        ll_bytes_free(&file);
        part[i].size = (size_t)tokens;
        size += part[i].size;
        *sequences += found;
    }
    if (!status && !(all->data = ll_alloc(size + 2, 1))) status = LL_ENOMEM;
    for (int i = 0; !status && i < count; i++) {
        memcpy(all->data + all->size, part[i].data, part[i].size);
        all->size += part[i].size;
    }
    if (!status) all->size++; /* the last boundary, which ll_alloc has set to zero */
    for (int i = 0; part && i < count; i++) ll_bytes_free(&part[i]);
    ll_free(part);
    ll_names_free(names, count);
    return status;
}

/* The indices at which sequences first .. first+count-1 begin, and the end of the last one. */
static ll_status find_begins(int64_t **begins, const ll_bytes *all, int64_t first, int64_t count) {
    int64_t *begin = ll_alloc((size_t)count + 1, sizeof *begin), number = 0;
    if (!begin) return LL_ENOMEM;
    for (size_t i = 0; i < all->size; i++) {
        if (all->data[i] != LL_FASTA_BOUNDARY) continue;
        if (number >= first && number <= first + count) begin[number - first] = (int64_t)i;
        number++;
    }
    *begins = begin;
    return LL_OK;
}

static ll_status open_fasta(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    int64_t sequences = 0, first = 0, count = 0, *begin = NULL;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    status = read_files(&r->file[0], &sequences, from.path);
    if (status) return ll_fail_in(status, from.key);
    ll_split_range(&first, &count, c, split, sequences);
    if (count < 1)
        return ll_fail(LL_EINVAL, "%s: no sequence of %lld is left for this split; change data.valid-fraction",
                       from.path, (long long)sequences);
    status = find_begins(&begin, &r->file[0], first, count);
    if (status) return status;
    if (c->data.joined) {
        const int64_t from_token = begin[0], size = begin[count] - begin[0] + 1;
        ll_free(begin);
        status = ll_text_use(r, c, split, from.path, r->file[0].data + from_token, size);
    } else {
        r->size = count;
        status = ll_texts_use(r, c, r->file[0].data, begin);
    }
    r->vocab = LL_FASTA_VOCAB;
    r->maskable = 1; /* a masked boundary would be easy to guess, because letters are on both sides */
    return status;
}

const ll_format ll_format_fasta = {
    "fasta", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_fasta, ll_text_fill, sizeof(ll_text_windows), ll_text_close};
