/* Memory of the server, with a reserve. Where an allocation fails, the reserve is given back, so that what runs can
 * end. New requests are refused until there is a reserve again. The reserve is never written to, so that it takes
 * addresses and no memory. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "serve/serve.h"

enum { RESERVE = 32 << 20 };
static _Atomic(void *) reserve;

int ll_serve_has_reserve(void) {
    void *none = NULL;
    if (atomic_load(&reserve)) return 1;
    void *block = malloc(RESERVE);
    if (block && !atomic_compare_exchange_strong(&reserve, &none, block)) free(block); /* another thread has one */
    return block != NULL;
}

void *ll_serve_try(size_t n, size_t size) { return calloc(n ? n : 1, size); }

int ll_refuse_memory(ll_refusal *why) {
    return ll_refuse(why, 503, "", "the server is out of memory; try again later");
}

void *ll_serve_alloc(size_t n, size_t size) {
    void *p = ll_serve_try(n, size);
    if (p) return p;
    ll_print("out of memory for %zu x %zu bytes; requests are refused until there is more", n, size);
    free(atomic_exchange(&reserve, NULL));
    p = ll_serve_try(n, size);
    if (p) return p;
    ll_print("out of memory for %zu x %zu bytes", n, size);
    _exit(1); /* other threads go on; a service manager can start it again, with the saved sessions */
}
