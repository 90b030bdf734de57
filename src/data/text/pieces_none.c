/* Pieces of words where the program was built without SentencePiece. */
#include "data/text/pieces_shim.h"

#include <stdio.h>

static int without(char *why) {
    snprintf(why, LL_PIECES_WHY,
             "this program was built without SentencePiece; build it again where libsentencepiece-dev is installed");
    return 0;
}

int ll_pieces_shim_train(const char *text, size_t size, int vocab, void (*wait)(void), ll_pieces_take *take, void *arg,
                         char *why) {
    (void)text, (void)size, (void)vocab, (void)wait, (void)take, (void)arg;
    return without(why);
}

void *ll_pieces_shim_load(const char *model, size_t size, char *why) {
    (void)model, (void)size;
    (void)without(why);
    return NULL;
}

void ll_pieces_shim_free(void *processor) {
    (void)processor;
}

int ll_pieces_shim_count(void *processor) {
    (void)processor;
    return 0;
}

int ll_pieces_shim_encode(void *processor, const char *line, size_t size, ll_pieces_token *take, void *arg, char *why) {
    (void)processor, (void)line, (void)size, (void)take, (void)arg;
    return without(why);
}

int ll_pieces_shim_byte(void *processor, int byte) {
    (void)processor, (void)byte;
    return LL_PIECES_UNKNOWN;
}

size_t ll_pieces_shim_text(void *processor, int token, char *out, size_t capacity) {
    (void)processor, (void)token, (void)out, (void)capacity;
    return 0;
}
