/* Reads a config.json key by key. The first error is kept. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "exchange/family.h"

/* The value; NULL if it is missing or null. */
static json_t *value_of(ll_reading *r, const char *key, int needed) {
    json_t *value = json_object_get(r->json, key);
    if (json_is_null(value)) value = NULL;
    if (!value && needed && !r->status) r->status = ll_fail(LL_EFORMAT, "%s: %s is missing", r->path, key);
    return value;
}

static void wrong(ll_reading *r, const char *key, const char *what) {
    if (!r->status) r->status = ll_fail(LL_EFORMAT, "%s: %s is not %s", r->path, key, what);
}

int64_t ll_hf_whole(const json_t *value) {
    const double x = json_is_number(value) ? json_number_value(value) : -1;
    return x >= 0 && x <= 1 << 30 && floor(x) == x ? (int64_t)x : -1;
}

int64_t ll_hf_integer(ll_reading *r, const char *key, int64_t fallback) {
    const json_t *value = value_of(r, key, fallback == LL_NEEDED);
    if (!value) return fallback == LL_NEEDED ? 1 : fallback;
    const int64_t whole = ll_hf_whole(value);
    if (whole >= 0) return whole;
    wrong(r, key, "a whole number from 0 to 2^30");
    return 1;
}

double ll_hf_number(ll_reading *r, const char *key, double fallback) {
    const json_t *value = value_of(r, key, fallback == LL_NEEDED);
    if (!value) return fallback;
    if (!json_is_number(value) || !isfinite(json_number_value(value))) {
        wrong(r, key, "a number");
        return 0;
    }
    return json_number_value(value);
}

int ll_hf_flag(ll_reading *r, const char *key, int fallback) {
    const json_t *value = value_of(r, key, fallback == LL_NEEDED);
    if (!value) return fallback;
    if (!json_is_boolean(value)) wrong(r, key, "true or false");
    return json_is_true(value);
}

const char *ll_hf_text(ll_reading *r, const char *key, const char *fallback) {
    const json_t *value = value_of(r, key, !fallback);
    if (!value) return fallback ? fallback : "";
    if (!json_is_string(value)) {
        wrong(r, key, "a text");
        return "";
    }
    return json_string_value(value);
}

/* A value as a word, or what kind of value it is. */
static void describe(char text[64], const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_STRING: snprintf(text, 64, "%s", json_string_value(value)); break;
    case JSON_TRUE: snprintf(text, 64, "true"); break;
    case JSON_FALSE: snprintf(text, 64, "false"); break;
    case JSON_REAL: ll_format_text(text, 64, "%.9g", json_real_value(value)); break;
    default: snprintf(text, 64, "(an object)");
    }
}

void ll_hf_only(ll_reading *r, const char *key, const char *only) {
    char text[64];
    const json_t *value = value_of(r, key, 0);
    if (!value || r->status) return;
    describe(text, value);
    if (strcmp(text, only))
        r->status = ll_fail(LL_EINVAL, "%s: %s = %s is not supported; only %s is", r->path, key, text, only);
}

void ll_hf_set(ll_reading *r, const char *key, const char *format, ...) {
    char text[200];
    const int n = snprintf(text, sizeof text, "%s=", key);
    va_list list;
    va_start(list, format);
    ll_format_text_list(text + n, sizeof text - (size_t)n, format, list);
    va_end(list);
    if (r->status) return;
    r->status = ll_recipe_set(r->recipe, text);
    if (r->status) r->status = ll_fail_in(r->status == LL_EINVAL ? LL_EFORMAT : r->status, r->path);
}

int ll_hf_has(const ll_reading *r, const char *theirs) {
    char name[LL_TENSOR_NAME];
    snprintf(name, sizeof name, "%s%s", *theirs == '*' ? r->prefix : "", theirs + (*theirs == '*'));
    return json_object_get(r->names, name) != NULL;
}
