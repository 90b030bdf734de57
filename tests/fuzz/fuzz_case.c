/* Any bytes as a case of attention, in tiles and as a stream: refused with a reason and nothing written, or results
 * that are finite. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/safetensors.h"
#include "fuzz/fuzz.h"
#include "fuzz/safetensors_mutator.h"
#include "longline-lab.h"

static void visit(const char *path) {
    ll_safetensors *f = NULL;
    check(!ll_safetensors_open(&f, path) && ll_safetensors_find(f, "y"));
    for (int i = 0; i < ll_safetensors_count(f); i++) {
        const ll_st_tensor *t = ll_safetensors_at(f, i);
        float *x = ll_alloc(t->count, sizeof *x);
        check(x != NULL);
        ll_st_floats(x, t);
        for (size_t j = 0; j < t->count; j++) check(isfinite(x[j]));
        ll_free(x);
    }
    ll_safetensors_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *in = in_memory(data, size);
    for (int streaming = 0; streaming < 2; streaming++) {
        char folder[32], out[40];
        snprintf(folder, sizeof folder, "%s/ll-fuzz-XXXXXX", scratch());
        check(mkdtemp(folder) != NULL);
        snprintf(out, sizeof out, "%s/out", folder);
        if (ll_attend_file(in, out, streaming, 2)) {
            check(strlen(ll_error()) > 10);
        } else {
            visit(out);
            check(!unlink(out));
        }
        check(!rmdir(folder));
    }
    return 0;
}
