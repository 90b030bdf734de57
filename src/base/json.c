/* JSON by jansson, where memory may run out. jansson (2.14) does not look whether a character of a string could be
 * stored: where memory is refused it may take the text for wrong, or return strings that lack characters. So its
 * allocations are watched. */
#include "base/json.h"

#include <pthread.h>

static json_malloc_t given; /* the program's own, or malloc */
static _Thread_local int was_refused;

static void *watched(size_t size) {
    void *block = given(size);
    if (!block) was_refused = 1;
    return block;
}

static void watch(void) {
    json_free_t release;
    json_get_alloc_funcs(&given, &release);
    json_set_alloc_funcs(watched, release);
}

static void begin_watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    was_refused = 0;
}

json_t *ll_json_load(const uint8_t *text, size_t size, size_t flags, json_error_t *error, int *refused) {
    begin_watch();
    json_t *json = json_loadb((const char *)text, size, flags, error);
    *refused = was_refused;
    if (!was_refused) return json;
    json_decref(json);
    return NULL;
}

json_t *ll_json_string(const char *text, size_t size, int *refused) {
    begin_watch();
    json_t *json = json_stringn(text, size);
    *refused = was_refused;
    return json;
}
