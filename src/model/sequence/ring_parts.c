/* Tokens of a ring's parts (ring_parts.h). */
#include "model/sequence/ring_parts.h"

#include <string.h>

/* Chunk c of 2 N is half c % 2 of the call's tokens in part c / 2. This is the part that computes with it. */
static int owner_of(const ll_ring_parts *p, int chunk) {
    return chunk < p->how.parts ? chunk : 2 * p->how.parts - 1 - chunk;
}

static ll_ring_span chunk_of(int chunk, int T) {
    const int half = (T + 1) / 2;
    return (ll_ring_span){(int64_t)(chunk / 2) * T + (chunk % 2 ? half : 0), chunk % 2 ? T - half : half};
}

/* The chunk of span i. Of the two chunks of a part one is a first half and one a second half. */
static int chunk_at(const ll_ring_parts *p, int part, int i) { return i ? 2 * p->how.parts - 1 - part : part; }

/* The span of this part that is such a half. */
static int span_of(const ll_ring_parts *p, int half) { return p->how.part % 2 == half ? 0 : 1; }

int ll_ring_spans(const ll_ring_parts *p, int part, int T, ll_ring_span span[2]) {
    for (int i = 0; i < 2 && p->causal; i++) span[i] = chunk_of(chunk_at(p, part, i), T);
    if (!p->causal) span[0] = (ll_ring_span){(int64_t)part * T, T};
    return p->causal ? 2 : 1;
}

/* ---- Rows ---- */

/* Copies `count` tokens of a tensor from number `first` on, (B, H, count, n), out of the call or into it. */
static void copy(const ll_ring_parts *p, const ll_ring_tensor *t, int first, int count, float *packed, int into) {
    for (size_t i = 0; i < (size_t)p->B * p->H; i++)
        for (int token = 0; token < count; token++, packed += t->n) {
            float *row = ll_element(&t->view, i / p->H, i % p->H, (size_t)(first + token));
            memcpy(into ? row : packed, into ? packed : row, t->n * sizeof *row);
        }
}

static size_t floats_of(const ll_ring_parts *p, const ll_ring_tensor *t, int tokens) {
    return (size_t)p->B * p->H * (size_t)tokens * t->n;
}

static int clamp(int x, int most) { return x < 0 ? 0 : x < most ? x : most; }

/* ---- Messages: the lengths of a chunk, then its tensors ---- */

static size_t message_floats(const ll_ring_parts *p, const ll_ring_tensor *tensor, int count, int tokens) {
    size_t n = (size_t)p->B;
    for (int i = 0; i < count; i++) n += floats_of(p, &tensor[i], tokens);
    return n;
}

/* Between a message and the call: chunk `half` of this part. */
static void pack_home(const ll_ring_parts *p, const ll_attention_call *c, const ll_ring_tensor *tensor, int count,
                      int half, float *message, int into) {
    const ll_ring_span s = chunk_of(half, c->T);
    for (int b = 0; b < p->B && !into; b++) {
        const int length = clamp((c->lengths ? c->lengths[b] : c->T) - (int)s.first, s.count);
        memcpy(message + b, &length, sizeof length);
    }
    message += p->B;
    for (int i = 0; i < count; i++) {
        copy(p, &tensor[i], (int)s.first, s.count, message, into);
        message += floats_of(p, &tensor[i], s.count);
    }
}

/* Between a message and the copies: span i of this part. */
static void pack_span(const ll_ring_parts *p, int T, const ll_ring_tensor *tensor, int count, int i, float *message,
                      int *lengths) {
    ll_ring_span s[2];
    ll_ring_spans(p, p->how.part, T, s);
    if (lengths) memcpy(lengths + i * p->B, message, (size_t)p->B * sizeof *lengths);
    message += p->B;
    for (int k = 0; k < count; k++) {
        float *x = tensor[k].x + floats_of(p, &tensor[k], i ? s[0].count : 0);
        const size_t n = floats_of(p, &tensor[k], s[i].count);
        memcpy(lengths ? x : message, lengths ? message : x, n * sizeof *x);
        message += n;
    }
}

/* Sends message[half] and takes message[2 + half], for both halves. A half goes between the part of which it is the
 * chunk, and its owner. */
static ll_status exchange(const ll_ring_parts *p, const ll_ring_tensor *tensor, int count, int T, int home) {
    const int me = p->how.part;
    ll_status status = LL_OK;
    int waits[2] = {0};
    for (int half = 0; half < 2 && !status; half++) {
        const int there = owner_of(p, 2 * me + half), from = chunk_at(p, me, span_of(p, half)) / 2;
        const size_t n = message_floats(p, tensor, count, chunk_of(half, T).count);
        if (there == me) {
            memcpy(p->message[2 + half], p->message[half], n * sizeof(float));
            continue;
        }
        waits[half] = 1;
        status = p->how.begin(p->how.arg, p->message[half], n, home ? from : there, 2 * half);
        if (!status)
            status = p->how.begin(p->how.arg, p->message[2 + half], n, home ? there : from, 2 * half + 1);
    }
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 2 && waits[half]; i++) {
            const ll_status waited = p->how.wait(p->how.arg, 2 * half + i);
            if (!status) status = waited;
        }
    return status;
}

ll_status ll_ring_bring(const ll_ring_parts *p, const ll_attention_call *c, const ll_ring_tensor *tensor, int count,
                        int *lengths) {
    if (!p->causal) {
        for (int b = 0; b < p->B; b++) lengths[b] = c->lengths ? c->lengths[b] : c->T;
        for (int i = 0; i < count; i++) copy(p, &tensor[i], 0, c->T, tensor[i].x, 0);
        return LL_OK;
    }
    for (int half = 0; half < 2; half++) pack_home(p, c, tensor, count, half, p->message[half], 0);
    const ll_status status = exchange(p, tensor, count, c->T, 0);
    for (int half = 0; half < 2 && !status; half++)
        pack_span(p, c->T, tensor, count, span_of(p, half), p->message[2 + half], lengths);
    return status;
}

ll_status ll_ring_return(const ll_ring_parts *p, const ll_attention_call *c, const ll_ring_tensor *tensor, int count) {
    if (!p->causal) {
        for (int i = 0; i < count; i++) copy(p, &tensor[i], 0, c->T, tensor[i].x, 1);
        return LL_OK;
    }
    for (int half = 0; half < 2; half++)
        pack_span(p, c->T, tensor, count, span_of(p, half), p->message[half], NULL);
    const ll_status status = exchange(p, tensor, count, c->T, 1);
    for (int half = 0; half < 2 && !status; half++) pack_home(p, c, tensor, count, half, p->message[2 + half], 1);
    return status;
}
