/* What the parts of a study share. */
#include "base/integer.h"
#include "study/study.h"

#include <string.h>

#include "data/image/image.h"

static const double WORK = 2e10; /* multiply-adds of one part: about a second on a few cores */

int ll_study_bound(double unit, int least, int most) {
    const double n = WORK / unit;
    return n < least ? least : n > most ? most : (int)n;
}

const char *ll_study_split(const ll_config *c) {
    return ll_fit_has_valid(c) ? "valid" : "test";
}

ll_status ll_study_excerpt(const ll_study *s, double where, int *tokens, int n, int *length) {
    ll_batch batch = {0};
    const ll_status status = ll_batch_create(&batch, &s->window);
    if (status) return status;
    const int64_t last = ll_reader_eval_batches(s->data) - 1; /* the last one may be short */
    ll_reader_eval_batch(s->data, &batch, (int64_t)(where * (double)last));
    *length = ll_min_int(batch.lengths[0], n);
    memcpy(tokens, batch.tokens, (size_t)*length * sizeof *tokens);
    ll_batch_free(&batch);
    return LL_OK;
}

void ll_study_gray(const ll_study *s, const int *tokens, unsigned char *pixels) {
    int width, height;
    const int channels = ll_reader_channels(s->data);
    ll_reader_image(s->data, &width, &height);
    for (int i = 0; i < width * height; i++, tokens += channels) {
        uint8_t colour[3] = {0};
        for (int c = 0; c < channels; c++) colour[c] = (uint8_t)(tokens[c] < 0 ? 0 : tokens[c] > 255 ? 255 : tokens[c]);
        ll_recolour(pixels + i, 1, colour, channels, 1);
    }
}

size_t ll_study_token(const ll_study *s, int token, char *out, size_t size) {
    size_t n;
    if (token >= ll_tokenizer_vocab(s->tokenizer)) token = -1; /* a mask */
    const char *text = token < 0 ? "_" : ll_tokenizer_text(s->tokenizer, token, &n);
    if (token < 0) n = 1;
    if (n > size) n = size;
    memcpy(out, text, n);
    return n;
}

const float *ll_study_tensor(const ll_study *s, const char *name, int *cols) {
    for (int i = 0;; i++) {
        const ll_tensor t = ll_model_tensor(s->model, i);
        if (t.name && strcmp(t.name, name)) continue;
        if (t.name && cols) *cols = t.cols;
        return t.data;
    }
}
