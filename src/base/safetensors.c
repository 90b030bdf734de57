/* Reads safetensors: 8 bytes with the size of a JSON header, the header, the data. Every number in the header is
 * checked against the file before it is used. Size and depth of the header are checked before the JSON parser sees it.
 * As the format demands, the tensors must fill the data without gaps or overlaps. */
#include "base/safetensors_format.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are used in place, and files are little-endian");

enum { DEPTH_MOST = 8, TYPES = sizeof ll_st_types / sizeof *ll_st_types };

typedef struct {
    ll_st_tensor t;
    size_t begin, end; /* in the data */
} entry;

struct ll_safetensors {
    char *path;
    ll_bytes bytes;
    int borrowed; /* the bytes belong to the caller */
    const uint8_t *data;
    size_t size; /* of the data */
    json_t *meta;
    int count, checked;
    entry *entry; /* in the order of the data */
};

/* The bytes of the header, from the beginning of a file. */
static ll_status header_size(size_t *size, const ll_safetensors *f, const ll_bytes *bytes) {
    uint64_t n = 0;
    if (bytes->size < 8)
        return ll_fail(LL_EFORMAT, "%s has %zu bytes, too few for a safetensors file", f->path, bytes->size);
    memcpy(&n, bytes->data, 8);
    if (bytes->size > 8 && bytes->data[8] != '{')
        return ll_fail(LL_EFORMAT, "%s is not a safetensors file: its header does not begin with {", f->path);
    if (n > LL_ST_HEADER_MOST)
        return ll_fail(LL_EFORMAT, "%s claims a header of %llu bytes, more than the %d that are accepted", f->path,
                       (unsigned long long)n, LL_ST_HEADER_MOST);
    *size = (size_t)n;
    return LL_OK;
}

static ll_status parse_header(json_t **header, const ll_safetensors *f, const uint8_t *json, size_t size) {
    json_error_t error;
    int refused;
    if (ll_json_is_deep(json, size, DEPTH_MOST))
        return ll_fail(LL_EFORMAT, "%s: header nested more than %d deep", f->path, DEPTH_MOST);
    *header = ll_json_load(json, size, JSON_REJECT_DUPLICATES, &error, &refused);
    if (refused) return ll_fail(LL_ENOMEM, "no memory for the header of %s", f->path);
    if (!*header)
        return ll_fail(LL_EFORMAT, "%s: the header is not JSON at byte %d: %s", f->path, error.position, error.text);
    return LL_OK;
}

/* A JSON integer as a size. One above the largest size becomes that, which no tensor has. */
static int size_of(size_t *size, const json_t *value) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return 0;
    const unsigned long long n = (unsigned long long)json_integer_value(value);
    *size = n < SIZE_MAX ? (size_t)n : SIZE_MAX;
    return 1;
}

static ll_status read_shape(entry *e, const ll_safetensors *f, const json_t *shape) {
    ll_st_tensor *t = &e->t;
    if (!json_is_array(shape) || json_array_size(shape) > LL_ST_RANK_MOST)
        return ll_fail(LL_EFORMAT, "%s: tensor %s has no shape of at most %d axes", f->path, t->name, LL_ST_RANK_MOST);
    t->rank = (int)json_array_size(shape);
    t->count = 1;
    for (int i = 0; i < t->rank; i++)
        if (!size_of(&t->shape[i], json_array_get(shape, (size_t)i)) ||
            __builtin_mul_overflow(t->count, t->shape[i], &t->count))
            return ll_fail(LL_EFORMAT, "%s: tensor %s has an impossible size in axis %d", f->path, t->name, i);
    return LL_OK;
}

static ll_status read_entry(entry *e, const ll_safetensors *f, const char *name, const json_t *value) {
    ll_st_tensor *t = &e->t;
    t->name = ll_strdup(name);
    if (!t->name) return LL_ENOMEM;
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    const json_t *offsets = json_object_get(value, "data_offsets");
    size_t bytes = 0, kind = 0;
    while (dtype && kind < TYPES && strcmp(ll_st_types[kind].name, dtype)) kind++;
    if (!dtype || kind == TYPES)
        return ll_fail(LL_EFORMAT, "%s: tensor %s has type %s, which is not known", f->path, name,
                       dtype ? dtype : "none");
    t->dtype = ll_st_types[kind].dtype;
    const ll_status status = read_shape(e, f, json_object_get(value, "shape"));
    if (status) return status;
    if (json_array_size(offsets) != 2 || !size_of(&e->begin, json_array_get(offsets, 0)) ||
        !size_of(&e->end, json_array_get(offsets, 1)) || e->begin > e->end)
        return ll_fail(LL_EFORMAT, "%s: tensor %s has no data_offsets [begin, end]", f->path, name);
    if (e->end > f->size)
        return ll_fail(LL_EFORMAT, "%s is truncated: tensor %s ends at byte %zu of the data, which has %zu", f->path,
                       name, e->end, f->size);
    if (__builtin_mul_overflow(t->count, ll_st_types[kind].size, &bytes) || bytes != e->end - e->begin)
        return ll_fail(LL_EFORMAT, "%s: tensor %s has %zu elements of type %s but %zu bytes", f->path, name, t->count,
                       dtype, e->end - e->begin);
    t->data = f->data + e->begin;
    t->bytes = bytes;
    return LL_OK;
}

static ll_status read_meta(ll_safetensors *f, json_t *meta) {
    const char *key;
    json_t *value;
    if (!json_is_object(meta)) return ll_fail(LL_EFORMAT, "%s: __metadata__ is not an object", f->path);
    json_object_foreach(meta, key, value) if (!json_is_string(value)) return ll_fail(
        LL_EFORMAT, "%s: metadata %s is not text", f->path, key);
    f->meta = json_incref(meta);
    return LL_OK;
}

/* Sorted by offset; an empty tensor comes before the one that begins at the same byte. */
static int by_offset(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->t.name, y->t.name);
}

static ll_status check_cover(ll_safetensors *f) {
    size_t at = 0;
    if (f->count) qsort(f->entry, (size_t)f->count, sizeof *f->entry, by_offset);
    for (int i = 0; i < f->count; at = f->entry[i++].end)
        if (f->entry[i].begin != at)
            return ll_fail(LL_EFORMAT, "%s: tensor %s begins at byte %zu of the data, %s the one before ends at %zu",
                           f->path, f->entry[i].t.name, f->entry[i].begin,
                           f->entry[i].begin < at ? "overlapping:" : "leaving a hole:", at);
    if (at != f->size)
        return ll_fail(LL_EFORMAT, "%s: the data has %zu bytes, its tensors end at %zu", f->path, f->size, at);
    return LL_OK;
}

static ll_status read_header(ll_safetensors *f, json_t *header) {
    const char *key;
    json_t *value;
    if (!json_is_object(header)) return ll_fail(LL_EFORMAT, "%s: the header is not a JSON object", f->path);
    f->entry = ll_alloc(json_object_size(header), sizeof *f->entry);
    if (!f->entry) return LL_ENOMEM;
    json_object_foreach(header, key, value) {
        const ll_status status =
            !strcmp(key, "__metadata__") ? read_meta(f, value) : read_entry(&f->entry[f->count++], f, key, value);
        if (status) return status;
    }
    return check_cover(f);
}

/* ---- Checksums ---- */

static ll_status check_header(const ll_safetensors *f) {
    const char *key, *written = ll_safetensors_meta(f, LL_ST_HEADER_KEY);
    json_t *value;
    uint64_t sum = 0;
    char hex[LL_CHECKSUM_TEXT];
    if (!written) return LL_OK;
    json_object_foreach(f->meta, key, value) {
        if (strcmp(key, LL_ST_HEADER_KEY) != 0) sum += ll_st_item_sum(key, json_string_value(value), NULL, 0);
    }
    for (int i = 0; i < f->count; i++) {
        const ll_st_tensor *t = &f->entry[i].t;
        sum += ll_st_item_sum(t->name, ll_st_types[t->dtype].name, t->shape, t->rank);
    }
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)sum);
    if (!strcmp(hex, written)) return LL_OK;
    return ll_fail(LL_EFORMAT, "%s is damaged: its header is not what was written (its checksum differs)", f->path);
}

typedef struct {
    const ll_safetensors *file;
    enum { WITHOUT, RIGHT, WRONG, UNKNOWN } *found; /* of each tensor */
} survey;

static void check_one(void *arg, size_t i) {
    const survey *s = arg;
    const ll_st_tensor *t = &s->file->entry[i].t;
    char hex[LL_CHECKSUM_TEXT], *key = ll_st_checksum_key(t->name);
    const char *written = key ? ll_safetensors_meta(s->file, key) : NULL;
    s->found[i] = key ? WITHOUT : UNKNOWN;
    ll_free(key);
    if (!written) return;
    ll_st_checksum(hex, t->data, s->file->entry[i].end - s->file->entry[i].begin);
    s->found[i] = strcmp(hex, written) ? WRONG : RIGHT;
}

/* Checks the checksums of the tensors. */
static ll_status check_sums(ll_safetensors *f) {
    const survey s = {f, ll_alloc((size_t)f->count, sizeof *s.found)};
    ll_status status = s.found ? LL_OK : LL_ENOMEM;
    if (!status) ll_parallel_for((size_t)f->count, check_one, (void *)&s);
    for (int i = 0; i < f->count && !status; i++) {
        f->checked += s.found[i] == RIGHT;
        if (s.found[i] == UNKNOWN) status = ll_fail(LL_ENOMEM, "no memory for the checksums of %s", f->path);
        if (s.found[i] == WRONG)
            status = ll_fail(LL_EFORMAT, "%s is damaged: tensor %s is not what was written (its checksum differs)",
                             f->path, f->entry[i].t.name);
    }
    ll_free(s.found);
    return status;
}

/* ---- A file ---- */

/* Where the last tensor ends, as a header claims. */
static size_t data_end(json_t *header) {
    const char *key;
    json_t *value;
    size_t end = 0, at;
    json_object_foreach(header, key, value)
        if (size_of(&at, json_array_get(json_object_get(value, "data_offsets"), 1)) && at > end) end = at;
    return end;
}

/* How much of a packed file is unpacked: its first bytes say how long the header is, and the header how long the data
 * are. */
static ll_status next_limit(uint64_t *limit, const ll_bytes *so_far, void *arg) {
    const ll_safetensors *f = arg;
    json_t *header = NULL;
    size_t n = 0;
    ll_status status = header_size(&n, f, so_far);
    if (!status && so_far->size > 8 + n) status = parse_header(&header, f, so_far->data + 8, n);
    *limit = 8 + (uint64_t)n + (header ? data_end(header) : 0);
    json_decref(header);
    return status;
}

static ll_status read_file(ll_safetensors *f) {
    if (ll_file_plain_size(f->path) >= 0) return ll_file_map(&f->bytes, f->path);
    return ll_file_read_by(&f->bytes, f->path, 8, next_limit, f);
}

static ll_status read_bytes(ll_safetensors *f) {
    json_t *header = NULL;
    size_t n = 0;
    ll_status status = header_size(&n, f, &f->bytes);
    if (!status && n > f->bytes.size - 8)
        status = ll_fail(LL_EFORMAT, "%s is truncated: it has %zu bytes, its header alone %zu", f->path, f->bytes.size,
                         n);
    if (!status) status = parse_header(&header, f, f->bytes.data + 8, n);
    if (!status) {
        f->data = f->bytes.data + 8 + n;
        f->size = f->bytes.size - 8 - n;
        status = read_header(f, header);
    }
    json_decref(header);
    return status;
}

/* bytes: the file in memory; NULL: opens the file of this name. */
static ll_status open_bytes(ll_safetensors **file, const ll_bytes *bytes, const char *path) {
    ll_safetensors *f = ll_alloc(1, sizeof *f);
    if (!f) return LL_ENOMEM;
    if (bytes) f->bytes = *bytes, f->borrowed = 1;
    f->path = ll_strdup(path);
    ll_status status = !f->path ? LL_ENOMEM : bytes ? LL_OK : read_file(f);
    if (!status) status = read_bytes(f);
    if (!status) status = check_header(f);
    if (!status && f->meta) status = check_sums(f);
    if (status) {
        ll_safetensors_free(f);
        return status;
    }
    *file = f;
    return LL_OK;
}

ll_status ll_safetensors_open(ll_safetensors **file, const char *path) { return open_bytes(file, NULL, path); }

ll_status ll_safetensors_parse(ll_safetensors **file, const void *bytes, size_t size, const char *name) {
    const ll_bytes all = {(uint8_t *)bytes, size};
    return open_bytes(file, &all, name);
}

ll_status ll_safetensors_take(ll_safetensors **file, ll_bytes *bytes, const char *name) {
    const ll_status status = open_bytes(file, bytes, name);
    if (status)
        ll_bytes_free(bytes);
    else
        (*file)->borrowed = 0;
    return status;
}

void ll_safetensors_free(ll_safetensors *f) {
    if (!f) return;
    for (int i = 0; i < f->count; i++) ll_free(f->entry[i].t.name);
    ll_free(f->entry);
    json_decref(f->meta);
    if (!f->borrowed) ll_bytes_free(&f->bytes);
    ll_free(f->path);
    ll_free(f);
}

const char *ll_safetensors_path(const ll_safetensors *file) { return file->path; }

const ll_bytes *ll_safetensors_bytes(const ll_safetensors *file) { return &file->bytes; }

const char *ll_safetensors_meta(const ll_safetensors *file, const char *key) {
    return json_string_value(json_object_get(file->meta, key));
}

const char *ll_safetensors_header(const ll_safetensors *file, size_t *size) {
    *size = (size_t)(file->data - file->bytes.data) - 8;
    return (const char *)file->bytes.data + 8;
}

int ll_safetensors_checked(const ll_safetensors *file) {
    return file->checked;
}

int ll_safetensors_count(const ll_safetensors *file) {
    return file->count;
}

const ll_st_tensor *ll_safetensors_at(const ll_safetensors *file, int i) {
    return i >= 0 && i < file->count ? &file->entry[i].t : NULL;
}

const ll_st_tensor *ll_safetensors_find(const ll_safetensors *file, const char *name) {
    for (int i = 0; i < file->count; i++)
        if (!strcmp(file->entry[i].t.name, name)) return &file->entry[i].t;
    return NULL;
}

/* Element i, which may be unaligned. */
static double element(const ll_st_tensor *t, size_t i) {
    const uint8_t *p = t->data;
    float f;
    double d;
    int32_t i32;
    int64_t i64;
    uint16_t bits;
    switch (t->dtype) {
    case LL_F32: return memcpy(&f, p + 4 * i, 4), (double)f;
    case LL_F64: return memcpy(&d, p + 8 * i, 8), d;
    case LL_I32: return memcpy(&i32, p + 4 * i, 4), (double)i32;
    case LL_I64: return memcpy(&i64, p + 8 * i, 8), (double)i64;
    case LL_U8: return p[i];
    case LL_ST_I8: return p[i] < 128 ? p[i] : p[i] - 256;
    case LL_ST_F16:
    case LL_ST_BF16: return memcpy(&bits, p + 2 * i, 2), (double)ll_float16_to_float(t->dtype, bits);
    case LL_OTHER: break;
    }
    return NAN;
}

void ll_st_floats(float *out, const ll_st_tensor *t) {
    if (t->dtype == LL_F32 && t->count)
        memcpy(out, t->data, t->count * sizeof *out);
    else
        for (size_t i = 0; i < t->count; i++) out[i] = (float)element(t, i);
}

void ll_st_doubles(double *out, const ll_st_tensor *t) {
    for (size_t i = 0; i < t->count; i++) out[i] = element(t, i);
}
