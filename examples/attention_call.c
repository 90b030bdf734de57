/* Linear attention by itself: two heads over a sequence of 1000 tokens, once as a whole and once as a
 * stream that sees one token at a time and keeps a state of constant size. Both give the same numbers.
 *
 *     cc attention_call.c $(pkg-config --cflags --libs longline) -lm && ./a.out
 */
#include <longline.h>
#include <math.h>
#include <stdio.h>

enum { T = 1000, H = 2, D = 16 };
static float q[H * T * D], k[H * T * D], v[H * T * D], whole[H * T * D], streamed[H * T * D];

/* The rows of a head are neighbours: (H, T, D). The batch has one sequence. */
static ll_view view(float *data) {
    return (ll_view){.data = data, .batch = H * T * D, .head = T * D, .token = D};
}

int main(void) {
    for (int i = 0; i < H * T * D; i++) {
        q[i] = sinf(0.37f * (float)i);
        k[i] = cosf(0.11f * (float)i);
        v[i] = sinf(0.01f * (float)i);
    }
    ll_attention_config config = ll_attention_default();
    config.kernel = LL_KERNEL_RELU; /* weights <max(q, 0) + eps, max(k, 0) + eps>, divided by their sum */
    config.feature_eps = 1e-3f;
    config.H = H, config.D = config.E = D;
    config.decay = (float[]){1.0f, 0.99f}; /* the second head has a decay */

    ll_attention *attention = NULL;
    ll_attention_stream *stream = NULL;
    ll_attention_call call = {.struct_size = sizeof call,
                              .B = 1,
                              .T = T,
                              .S = T,
                              .q = view(q),
                              .k = view(k),
                              .v = view(v),
                              .y = view(whole)};
    ll_status status = ll_attention_create(&attention, &config);
    if (!status) status = ll_attention_forward(attention, &call);
    if (!status) status = ll_attention_stream_create(&stream, attention, 1);
    for (int t = 0; t < T && !status; t++)
        status = ll_attention_stream_feed(stream, 1, view(q + t * D), view(k + t * D), view(v + t * D), (ll_view){0},
                                          view(streamed + t * D));
    float difference = 0;
    for (int i = 0; i < H * T * D; i++) difference = fmaxf(difference, fabsf(whole[i] - streamed[i]));
    if (status)
        fprintf(stderr, "attention: %s\n", ll_error());
    else
        printf("tokens=%d stream_bytes=%zu largest_difference=%.1e\n", T, ll_attention_stream_bytes(stream),
               (double)difference);
    ll_attention_stream_free(stream);
    ll_attention_free(attention);
    return status || difference > 1e-4f;
}
