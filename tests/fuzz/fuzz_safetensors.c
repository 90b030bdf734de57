/* Any bytes as a safetensors file: refused with a reason, or every tensor lies inside the file, they cover
 * it, and the whole can be read. */
#include <string.h>

#include "base/safetensors.h"
#include "fuzz/fuzz.h"
#include "fuzz/safetensors_mutator.h"

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
    size_t header = 0;
    check(ll_safetensors_header(f, &header)[0] == '{' && header > 1 && *ll_safetensors_path(f));
    check(ll_safetensors_checked(f) >= 0 && ll_safetensors_checked(f) <= ll_safetensors_count(f));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ll_safetensors *f = NULL;
    if (ll_safetensors_open(&f, in_memory(data, size)))
        check(!f && strlen(ll_error()) > 10);
    else
        visit(f, (size_t)1 << 30);
    ll_safetensors_free(f);
    f = NULL;
    if (ll_safetensors_parse(&f, data, size, "input"))
        check(!f && strlen(ll_error()) > 10);
    else
        visit(f, (size_t)1 << 30);
    ll_safetensors_free(f);
    return 0;
}
