/* Loads a language model over bytes, continues a text, and writes each byte as it comes. The memory of the
 * stream does not grow with the text (linear attention).
 *
 *     cc stream_tokens.c $(pkg-config --cflags --libs longline) && ./a.out runs/mine/best.safetensors "Once upon" 500
 */
#include <longline.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [TEXT [BYTES]]\n", argv[0]);
        return 2;
    }
    const char *text = argc > 2 && *argv[2] ? argv[2] : "\n";
    const int bytes = argc > 3 ? atoi(argv[3]) : 200;
    ll_model *model = NULL;
    ll_stream *stream = NULL;
    ll_sampling how = ll_sampling_default();
    how.temperature = 0.8f;

    ll_status status = ll_model_load(&model, argv[1]);
    if (!status) status = ll_stream_create(&stream, model);
    const int V = status ? 0 : ll_model_size(model).vocab;
    float *logits = calloc((size_t)V + 1, sizeof *logits);
    if (!logits) return 1;
    for (; *text && !status; text++) status = ll_stream_feed(stream, (const int[]){(unsigned char)*text}, 1, logits);
    for (int i = 0; i < bytes && !status; i++) {
        const int token = ll_sample(logits, V, &how, ll_stream_position(stream));
        putchar(token);
        fflush(stdout);
        status = ll_stream_feed(stream, &token, 1, logits);
    }
    if (status) fprintf(stderr, "stream: %s\n", ll_error());
    free(logits);
    ll_stream_free(stream);
    ll_model_free(model);
    return status ? 1 : 0;
}
