/* Writes safetensors. The format allows no gaps, so padding can only stand at the end of the header. It makes the data
 * begin at a multiple of 64. First come the tensors whose size is a multiple of 64, so that each begins on a cache
 * line, which makes a mapped model faster. The others follow by the size of their elements, largest first, so that each
 * is aligned to its element. */
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL /* nothing to link; the function is fixed since xxHash 0.8 */
#include <xxhash.h>

#include "base/integer.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/safetensors_format.h"

enum { ALIGN = 64 };

typedef struct {
    char *name;
    enum ll_dtype dtype;
    int rank;
    size_t shape[LL_ST_RANK_MOST], bytes, begin;
    const void *data;
} entry;

struct ll_st_writer {
    json_t *meta;
    int count, capacity;
    entry *entry;
};

ll_status ll_st_writer_create(ll_st_writer **writer) {
    ll_st_writer *w = ll_alloc(1, sizeof *w);
    if (!w) return LL_ENOMEM;
    w->meta = json_object();
    if (!w->meta) {
        ll_st_writer_free(w);
        return ll_fail(LL_ENOMEM, "no memory for the metadata of a file");
    }
    *writer = w;
    return LL_OK;
}

void ll_st_writer_free(ll_st_writer *w) {
    if (!w) return;
    for (int i = 0; i < w->count; i++) ll_free(w->entry[i].name);
    ll_free(w->entry);
    json_decref(w->meta);
    ll_free(w);
}

ll_status ll_st_meta(ll_st_writer *w, const char *key, const char *value) {
    int refused;
    json_t *text = ll_json_string(value, strlen(value), &refused);
    if (!text && !refused)
        return ll_fail(LL_EINVAL, "metadata %s = \"%.100s\" cannot be written: it is not UTF-8", key, value);
    if (!text || json_object_set_new(w->meta, key, text)) return ll_fail(LL_ENOMEM, "no memory for metadata %s", key);
    return LL_OK;
}

static ll_status grow(ll_st_writer *w) {
    if (w->count < w->capacity) return LL_OK;
    const int capacity = w->capacity ? 2 * w->capacity : 64;
    entry *bigger = ll_alloc((size_t)capacity, sizeof *bigger);
    if (!bigger) return LL_ENOMEM;
    if (w->count) memcpy(bigger, w->entry, (size_t)w->count * sizeof *bigger);
    ll_free(w->entry);
    w->entry = bigger;
    w->capacity = capacity;
    return LL_OK;
}

ll_status ll_st_add(ll_st_writer *w, const char *name, enum ll_dtype dtype, int rank, const size_t *shape,
                    const void *data) {
    if (rank < 0 || rank > LL_ST_RANK_MOST || (unsigned)dtype >= LL_OTHER)
        return ll_fail(LL_EINVAL, "tensor %s cannot be written: rank %d, type %d", name, rank, (int)dtype);
    for (int i = 0; i < w->count; i++)
        if (!strcmp(w->entry[i].name, name)) return ll_fail(LL_EINVAL, "tensor %s is in the file already", name);
    entry e = {.dtype = dtype, .rank = rank, .bytes = ll_st_types[dtype].size, .data = data};
    for (int i = 0; i < rank; i++) {
        e.shape[i] = shape[i];
        if (__builtin_mul_overflow(e.bytes, shape[i], &e.bytes) || e.bytes > PTRDIFF_MAX)
            return ll_fail(LL_EINVAL, "tensor %s cannot be written: it is larger than any file", name);
    }
    const ll_status status = grow(w);
    if (status) return status;
    e.name = ll_strdup(name);
    if (!e.name) return LL_ENOMEM;
    w->entry[w->count++] = e;
    return LL_OK;
}

/* The header entry of one tensor; NULL if there is no memory. */
static json_t *describe(const entry *e) {
    json_t *shape = json_array();
    for (int i = 0; i < e->rank; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)e->shape[i]))) {
            json_decref(shape);
            return NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", ll_st_types[e->dtype].name, "shape", shape, "data_offsets",
                     (json_int_t)e->begin, (json_int_t)(e->begin + e->bytes));
}

/* The unit of a tensor: a cache line, or its element. */
static size_t unit(const entry *e) { return e->bytes % ALIGN ? ll_st_types[e->dtype].size : ALIGN; }

static const size_t units[] = {ALIGN, 8, 4, 2, 1}; /* in this order; every size of `ll_st_types` is among them */
enum { UNITS = sizeof units / sizeof *units };

/* The tensors in the order of the file, from *at = 0 on; NULL after the last. */
static entry *next(const ll_st_writer *w, int *at) {
    while (*at < UNITS * w->count) {
        const int n = (*at)++;
        entry *e = &w->entry[n % w->count];
        if (unit(e) == units[n / w->count]) return e;
    }
    return NULL;
}

/* Adds the checksum of the header to its metadata. */
static int add_header_sum(const ll_st_writer *w, json_t *meta) {
    const char *key;
    json_t *value;
    uint64_t sum = 0;
    char hex[LL_CHECKSUM_TEXT];
    json_object_foreach(meta, key, value) sum += ll_st_item_sum(key, json_string_value(value), NULL, 0);
    for (int i = 0; i < w->count; i++) {
        const entry *e = &w->entry[i];
        sum += ll_st_item_sum(e->name, ll_st_types[e->dtype].name, e->shape, e->rank);
    }
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)sum);
    return !json_object_set_new(meta, LL_ST_HEADER_KEY, json_string(hex));
}

/* The metadata, and the checksums of every tensor's current bytes and of the header. NULL if there is no memory: then
 * json_copy may also leave keys out and say nothing. */
static json_t *make_meta(const ll_st_writer *w) {
    json_t *meta = json_copy(w->meta);
    int ok = json_object_size(meta) == json_object_size(w->meta);
    for (int i = 0; i < w->count && ok; i++) {
        const entry *e = &w->entry[i];
        char hex[LL_CHECKSUM_TEXT], *key = ll_st_checksum_key(e->name);
        ll_st_checksum(hex, e->data, e->bytes);
        ok = key && !json_object_set_new(meta, key, json_string(hex));
        ll_free(key);
    }
    if (ok && json_object_size(meta)) ok = add_header_sum(w, meta);
    if (ok) return meta;
    json_decref(meta);
    return NULL;
}

static json_t *make_header(ll_st_writer *w) {
    json_t *header = json_object(), *meta = make_meta(w);
    size_t begin = 0;
    int ok = header && meta && (!json_object_size(meta) || !json_object_set(header, "__metadata__", meta)), at = 0;
    for (entry *e; ok && (e = next(w, &at)); begin += e->bytes) {
        e->begin = begin;
        ok = !json_object_set_new(header, e->name, describe(e));
    }
    json_decref(meta);
    if (ok) return header;
    json_decref(header);
    return NULL;
}

/* The first bytes of the file: size of the header, header, padding. */
static ll_status make_head(ll_bytes *head, ll_st_writer *w, const char *path) {
    json_t *header = make_header(w);
    if (!header)
        return ll_fail(LL_ENOMEM, "cannot write the header of %s: there is no memory, or a name is not UTF-8", path);
    const size_t n = json_dumpb(header, NULL, 0, JSON_COMPACT), padded = ll_round_up(n + 8, ALIGN) - 8;
    const uint64_t written = padded;
    ll_status status = LL_OK;
    if (!n)
        status = ll_fail(LL_ENOMEM, "no memory for the header of %s", path);
    else if (padded > LL_ST_HEADER_MOST)
        status = ll_fail(LL_EINVAL, "the header of %s would have %zu bytes, more than the %d that can be read", path, n,
                         LL_ST_HEADER_MOST);
    else if (!(head->data = ll_alloc(padded + 8, 1)))
        status = LL_ENOMEM;
    if (!status) {
        head->size = padded + 8;
        memcpy(head->data, &written, 8);
        memset(head->data + 8, ' ', padded);
        if (json_dumpb(header, (char *)head->data + 8, n, JSON_COMPACT) != n)
            status = ll_fail(LL_ENOMEM, "no memory for the header of %s", path);
    }
    if (status) ll_bytes_free(head);
    json_decref(header);
    return status;
}

ll_status ll_st_save(ll_st_writer *w, const char *path) {
    ll_bytes head = {0};
    ll_writer *out = NULL;
    ll_status status = make_head(&head, w, path);
    if (!status) status = ll_writer_open(&out, path);
    if (!status) status = ll_writer_put(out, head.data, head.size);
    int at = 0;
    for (const entry *e; !status && (e = next(w, &at));) status = ll_writer_put(out, e->data, e->bytes);
    ll_bytes_free(&head);
    if (!status) return ll_writer_commit(out);
    ll_writer_abandon(out);
    return status;
}

ll_status ll_st_bytes(ll_st_writer *w, ll_bytes *bytes) {
    ll_bytes head = {0};
    ll_status status = make_head(&head, w, "the model");
    if (status) return status;
    size_t size = head.size;
    for (int i = 0; i < w->count; i++) size += w->entry[i].bytes;
    uint8_t *data = ll_alloc(size, 1);
    if (data) {
        int at = 0;
        uint8_t *end = (uint8_t *)memcpy(data, head.data, head.size) + head.size;
        for (const entry *e; (e = next(w, &at)); end += e->bytes)
            if (e->bytes) memcpy(end, e->data, e->bytes);
        *bytes = (ll_bytes){data, size, 0};
    }
    ll_bytes_free(&head);
    return data ? LL_OK : LL_ENOMEM;
}

static void hash_text(XXH3_state_t *hash, const char *text) { XXH3_128bits_update(hash, text, strlen(text) + 1); }

/* 128-bit XXH3. It finds accidents at the speed of memory. Against intent not even a cryptographic hash would help,
 * because it has no secret key. */
void ll_st_digest(const ll_st_writer *w, char hex[LL_DIGEST_TEXT]) {
    XXH3_state_t hash;
    const char *key;
    json_t *value;
    XXH3_INITSTATE(&hash);
    XXH3_128bits_reset(&hash);
    json_object_foreach(w->meta, key, value) {
        hash_text(&hash, key);
        hash_text(&hash, json_string_value(value));
    }
    for (int i = 0; i < w->count; i++) {
        const entry *e = &w->entry[i];
        uint64_t about[2 + LL_ST_RANK_MOST] = {(uint64_t)e->dtype, (uint64_t)e->rank};
        for (int k = 0; k < e->rank; k++) about[2 + k] = e->shape[k];
        hash_text(&hash, e->name);
        XXH3_128bits_update(&hash, about, sizeof about);
        XXH3_128bits_update(&hash, e->data, e->bytes);
    }
    const XXH128_hash_t sum = XXH3_128bits_digest(&hash);
    snprintf(hex, LL_DIGEST_TEXT, "%016llx%016llx", (unsigned long long)sum.high64, (unsigned long long)sum.low64);
}
