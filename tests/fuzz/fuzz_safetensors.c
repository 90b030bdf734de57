/* Any bytes as a safetensors file: refused with a reason, or every tensor lies inside the file, they cover
 * it, and the whole can be read. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds) {
    if (!holds) abort();
}

static void visit(const ll_safetensors *f, size_t most) {
    size_t elements = 0;
    for (int i = 0; i < ll_safetensors_count(f); i++) {
        const ll_st_tensor *t = ll_safetensors_at(f, i);
        size_t count = 1;
        for (int k = 0; k < t->rank; k++) count *= t->shape[k];
        check(count == t->count && t->rank <= 8);
        elements += count;
        check(elements <= most);
        float *x = malloc(count * sizeof *x + 1);
        double *y = malloc(count * sizeof *y + 1);
        check(x && y);
        ll_st_floats(x, t);
        ll_st_doubles(y, t);
        for (size_t j = 0; j < count; j++) check((x[j] != x[j] && y[j] != y[j]) || x[j] == (float)y[j]);
        free(x);
        free(y);
        check(!strcmp(ll_safetensors_find(f, t->name)->name, t->name));
    }
    check(!ll_safetensors_at(f, ll_safetensors_count(f)));
    (void)ll_safetensors_meta(f, "recipe");
}

/* A file that is only memory, opened by the name it has in /proc. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    char path[64];
    ll_safetensors *f = NULL;
    if (fd < 0) fd = memfd_create("fuzz", MFD_CLOEXEC);
    check(fd >= 0 && !ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (ll_safetensors_open(&f, path))
        check(!f && strlen(ll_error()) > 10);
    else
        visit(f, (size_t)1 << 30);
    ll_safetensors_free(f);
    return 0;
}
