/* Pieces of words. SentencePiece trains a unigram model on the train split; the vocabulary is its model file. Decoding
 * gives the text byte for byte: the end of a line is a token, and what has no piece becomes bytes. */
#include "data/text/pieces.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/read_progress.h"
#include "base/spill.h"
#include "base/text.h"
#include "data/text/pieces_shim.h"

enum { TEXT_MOST = 4096, USUAL = 8000 };

struct ll_pieces {
    void *processor;
    char text[TEXT_MOST];
};

static int take_model(void *arg, const char *data, size_t size) {
    ll_bytes *model = arg;
    if (!(model->data = ll_alloc(size + 1, 1))) return 0;
    memcpy(model->data, data, size);
    model->size = size;
    return 1;
}

/* Every line number k * step. */
static ll_status take_lines(ll_bytes *lines, const ll_bytes *text, size_t step) {
    ll_spill some = {.name = "the text of pieces"};
    const char *const data = (const char *)text->data;
    ll_status status = LL_OK;
    size_t line = 0, left = 0;
    for (size_t at = 0, next; at < text->size && !status; at = next, line++) {
        next = at + ll_pieces_line(data + at, text->size - at);
        if (line % step == 0) {
            status = ll_spill_add(&some, data + at, next - at);
            if (!status) status = ll_spill_add(&some, "\n", 1);
        }
        if (next < text->size && data[next] == '\n') next++;
        ll_bytes_pass(text, next, &left);
    }
    if (!status) status = ll_spill_end(&some, lines);
    ll_spill_free(&some);
    return status;
}

/* SentencePiece's reasons are assertions of its sources. Those of a vocabulary that is too small get our words. */
static ll_status not_trained(const char *why, int vocab) {
    int given, needed;
    if (!why[0]) return LL_ENOMEM;
    const char *sizes = strstr(why, "smaller than required_chars. ");
    if (sizes && sscanf(sizes, "smaller than required_chars. %d vs %d", &given, &needed) == 2)
        return ll_fail(LL_EINVAL, "data.vocab-size = %d is too small for this text: its characters alone are %d tokens",
                       vocab, needed);
    if (strstr(why, "insert_id"))
        return ll_fail(LL_EINVAL, "data.vocab-size = %d has no room for the tokens that every vocabulary has", vocab);
    return ll_fail(LL_EINVAL, "pieces cannot be made from this text (data.format=pieces): %s", why);
}

static void report_wait(void) { ll_read_progress("the text, whose pieces are learned", 0, 0); }

ll_status ll_pieces_train(ll_bytes *model, const ll_bytes *text, int vocab, size_t most) {
    char why[LL_PIECES_WHY] = "";
    ll_bytes lines = {0};
    const size_t step = text->size / most + 1;
    ll_status status = step > 1 ? take_lines(&lines, text, step) : LL_OK;
    if (status) return status;
    const ll_bytes *from = step > 1 ? &lines : text;
    if (!ll_pieces_shim_train((const char *)from->data, from->size, vocab ? vocab : USUAL, report_wait, take_model,
                              model, why))
        status = not_trained(why, vocab ? vocab : USUAL);
    ll_bytes_free(&lines);
    return status;
}

ll_status ll_pieces_create(ll_pieces **pieces, const ll_bytes *model, const char *name) {
    char why[LL_PIECES_WHY] = "";
    ll_pieces *p = ll_alloc(1, sizeof *p);
    if (!p) return LL_ENOMEM;
    p->processor = ll_pieces_shim_load((const char *)model->data, model->size, why);
    if (p->processor && ll_pieces_shim_count(p->processor) > LL_PIECES_LINE_END) {
        *pieces = p;
        return LL_OK;
    }
    const int refused = !p->processor && !why[0];
    ll_pieces_free(p);
    if (refused) return LL_ENOMEM;
    return ll_fail(LL_EFORMAT, "%s: its vocabulary is not a model of pieces: %s", name, why[0] ? why : "it is empty");
}

void ll_pieces_free(ll_pieces *p) {
    if (!p) return;
    ll_pieces_shim_free(p->processor);
    ll_free(p);
}

int ll_pieces_count(const ll_pieces *p) {
    return ll_pieces_shim_count(p->processor);
}

typedef struct {
    int32_t *token;
    size_t count, capacity;
} list;

static int take_token(void *arg, int token) {
    list *l = arg;
    if (l->count == l->capacity) {
        const size_t capacity = l->capacity ? 2 * l->capacity : 1024;
        int32_t *more = ll_alloc(capacity, sizeof *more);
        if (!more) return 0;
        if (l->count) memcpy(more, l->token, l->count * sizeof *more);
        ll_free(l->token);
        l->token = more;
        l->capacity = capacity;
    }
    l->token[l->count++] = token;
    return 1;
}

/* How many bytes SentencePiece gives back as they are: UTF-8 up to U+2581, which is what it writes for a blank. */
static size_t plain(const uint8_t *text, size_t size) {
    size_t at = 0;
    for (size_t n; at < size; at += n)
        if (ll_char_at(text + at, size - at, &n) < 0 || (n == 3 && !memcmp(text + at, "\xe2\x96\x81", 3))) break;
    return at;
}

/* A line without its end. Bytes that SentencePiece would change are tokens of their own. */
static int encode_line(const ll_pieces *p, const uint8_t *line, size_t size, list *l, char *why) {
    int fine = 1;
    for (size_t at = 0, n; at < size && fine; at += n) {
        n = plain(line + at, size - at);
        if (n) {
            fine = ll_pieces_shim_encode(p->processor, (const char *)line + at, n, take_token, l, why);
        } else {
            fine = take_token(l, ll_pieces_shim_byte(p->processor, line[at]));
            n = 1;
        }
    }
    return fine;
}

ll_status ll_pieces_encode(const ll_pieces *p, const uint8_t *text, size_t size, int32_t **tokens, int64_t *count) {
    char why[LL_PIECES_WHY] = "";
    list l = {0};
    int fine = 1;
    for (size_t at = 0; at < size && fine;) {
        const uint8_t *end = memchr(text + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - text) - at : size - at;
        fine = encode_line(p, text + at, n, &l, why);
        if (fine && end) fine = take_token(&l, LL_PIECES_LINE_END);
        at += n + 1;
        ll_read_progress_pass(at, size);
    }
    if (fine && !l.token) fine = (l.token = ll_alloc(1, sizeof *l.token)) != NULL;
    if (!fine) {
        ll_free(l.token);
        return why[0] ? ll_fail(LL_EINVAL, "this text cannot be cut into pieces: %s", why) : LL_ENOMEM;
    }
    *tokens = l.token;
    *count = (int64_t)l.count;
    return LL_OK;
}

const char *ll_pieces_text(ll_pieces *p, int token, size_t *size) {
    *size = 1;
    if (token == LL_PIECES_LINE_END || token < 0 || token >= ll_pieces_count(p)) return "\n";
    *size = ll_pieces_shim_text(p->processor, token, p->text, TEXT_MOST);
    return p->text;
}
