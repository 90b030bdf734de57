/* A reader of a recipe's data, from its opening to the last batch. */
#ifndef LL_FUZZ_READ_ALL_H
#define LL_FUZZ_READ_ALL_H

#include <string.h>

#include "data/reader.h"
#include "fuzz/fuzz.h"

static inline void check_batch(const ll_reader *r, const ll_batch *b) {
    const int vocab = ll_reader_vocab(r), classes = ll_reader_classes(r);
    for (int row = 0; row < b->B; row++) {
        check(b->lengths[row] >= 0 && b->lengths[row] <= b->T);
        for (int t = 0; t < b->lengths[row]; t++) {
            const int token = b->tokens[row * b->T + t];
            check(token >= 0 && token < vocab);
            if (!classes) check(b->targets[row * b->T + t] >= -1 && b->targets[row * b->T + t] < vocab);
        }
        if (classes) check(b->targets[row] >= -1 && b->targets[row] < classes);
        for (int t = 0; b->source && t < b->source_lengths[row]; t++)
            check(b->source[row * b->S + t] >= 0 && b->source[row * b->S + t] < vocab);
    }
}

/* Refused with a reason, or batches whose tokens and targets exist: all of the evaluation's, up to 64, and a few to
 * train with. */
static inline void read_all(const ll_reader_options *given, const char *split) {
    ll_reader_options c = *given;
    ll_reader *r = NULL;
    ll_batch b = {0};
    if (ll_reader_create(&r, &c, split, NULL)) {
        check(!r && strlen(ll_error()) > 10);
        return;
    }
    int width = 0, height = 0;
    ll_reader_image(r, &width, &height);
    if (!c.length) c.length = width * height * ll_reader_channels(r);
    check(!ll_batch_allocate(&b, &c));
    for (int64_t i = 0; i < ll_reader_eval_batches(r) && i < 64; i++) {
        ll_reader_eval_batch(r, &b, i);
        check_batch(r, &b);
    }
    for (int64_t i = 0; i < 3; i++) {
        ll_reader_batch(r, &b, 1, i);
        check_batch(r, &b);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
}

/* A folder that exists until the program ends. */
static char own_folder[32];

static inline void remove_folder(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", own_folder);
    check(!system(command));
}

/* A file of this name in it; its path holds until the next. */
static inline const char *file_of(const char *name, const uint8_t *data, size_t size) {
    static char path[128];
    static int made;
    if (!made++) {
        snprintf(own_folder, sizeof own_folder, "%s/ll-fuzz-XXXXXX", scratch());
        check(mkdtemp(own_folder) && !atexit(remove_folder));
    }
    snprintf(path, sizeof path, "%s/%s", own_folder, name);
    (void)unlink(path);
    FILE *file = fopen(path, "wb");
    check(file && fwrite(data, 1, size, file) == size && !fclose(file));
    return path;
}

#endif
