/* Any bytes as FASTA: refused, or read as the tokens that a plain definition gives. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/reader.h"
#include "data/sequence/fasta.h"
#include "fuzz/fuzz.h"

/* The letters of a file that was accepted, each sequence after a boundary, and a boundary at the end. */
static size_t define(int *out, const uint8_t *data, size_t size) {
    size_t n = 0;
    int header = 0, skip = 0, begins = 1;
    for (size_t i = 0; i < size; i++) {
        if (begins) skip = data[i] == '>' || data[i] == ';';
        if (begins && data[i] == '>') header = 1;
        begins = data[i] == '\n';
        if (skip || !ll_fasta_token(data[i])) continue;
        if (header) out[n++] = LL_FASTA_BOUNDARY;
        header = 0;
        out[n++] = ll_fasta_token(data[i]);
    }
    out[n++] = LL_FASTA_BOUNDARY;
    return n;
}

static void compare(const ll_reader *r, const ll_reader_options *c, const int *expected, size_t n) {
    ll_batch b = {0};
    size_t at = 0;
    check(!ll_batch_allocate(&b, c));
    check((size_t)ll_reader_size(r) == n);
    for (int64_t i = 0; i < ll_reader_eval_batches(r); i++) {
        ll_reader_eval_batch(r, &b, i);
        for (int t = 0; t < b.lengths[0]; t++, at++)
            check(b.tokens[t] == expected[at] && b.targets[t] == expected[at + 1]);
    }
    check(at + 1 == n);
    ll_batch_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    ll_reader *r = NULL;
    int *expected = malloc((size + 2) * sizeof *expected);
    const int file = memfd_create("fasta", 0);
    check(expected && file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const ll_reader_options c = {.task = LL_TASK_LM,
                                 .batch = 1,
                                 .length = 7,
                                 .data = {.format = LL_DATA_FASTA, .joined = 1, .test = path}};
    if (!ll_reader_create(&r, &c, "test", NULL)) compare(r, &c, expected, define(expected, data, size));
    ll_reader_free(r);
    close(file);
    free(expected);
    return 0;
}
