/* JSONL: one object a line. Size and depth of a line are checked before the JSON parser sees it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/input.h"

enum { LINE_MOST = 1 << 26, DEPTH_MOST = 64 };
static const double EXACT_MOST = 0x1p53; /* integers below are doubles */

/* Reads the next line into in->buffer; *size is its size. */
static ll_status read_line(ll_input *in, size_t *size) {
    size_t n = 0;
    for (int c; (c = ll_input_peek(in)) >= 0 && c != '\n'; n++) {
        if (n == LINE_MOST)
            return ll_input_wrong(in, "more than %d bytes, the most that a line of JSON may have", LINE_MOST);
        const ll_status status = n < in->capacity ? LL_OK : ll_input_reserve(in, n ? 2 * n : 1 << 12, n);
        if (status) return status;
        in->buffer[n] = (uint8_t)ll_input_take(in);
    }
    *size = n;
    return in->status;
}

static int is_empty(const uint8_t *line, size_t size) {
    size_t i = 0;
    while (i < size && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r')) i++;
    return i == size;
}

/* Jansson reads integers of 64 bits with a sign. A line with a larger one, as a hash may be, is read with numbers that
 * are rounded: name_by takes those that are not. */
static json_t *load(const uint8_t *line, size_t size, json_error_t *error, int *refused) {
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *json = ll_json_load(line, size, flags, error, refused);
    if (json || *refused || json_error_code(error) != json_error_numeric_overflow) return json;
    return ll_json_load(line, size, flags | JSON_DECODE_INT_AS_REAL, error, refused);
}

static ll_status parse(ll_input *in, const uint8_t *line, size_t size) {
    json_error_t error;
    int refused;
    if (ll_json_is_deep(line, size, DEPTH_MOST)) return ll_input_wrong(in, "nested more than %d deep", DEPTH_MOST);
    in->json = load(line, size, &error, &refused);
    if (refused)
        return ll_fail(LL_ENOMEM, "no memory for line %lld of %s", (long long)in->line, ll_unpack_name(in->source));
    if (!in->json) return ll_input_wrong(in, "not JSON at byte %d: %.200s", error.position, error.text);
    if (!json_is_object(in->json)) return ll_input_wrong(in, "not a JSON object, {\"text\": ...}");
    return LL_OK;
}

static ll_status find_text(ll_input *in) {
    const char *key = in->text_key ? in->text_key : "text";
    const json_t *text = json_object_get(in->json, key);
    if (!text && !in->text_key) text = json_object_get(in->json, "sequence");
    if (!text && !in->text_key) return ll_input_wrong(in, "the object has neither \"text\" nor \"sequence\"");
    if (!text) return ll_input_wrong(in, "the object has no \"%.100s\"", key);
    if (!json_is_string(text)) return ll_input_wrong(in, "the object's \"%.100s\" is not a string", key);
    in->text = (const uint8_t *)json_string_value(text);
    in->given = 0;
    in->left = json_string_length(text);
    return LL_OK;
}

/* Sets the name of the sequence, or its class, from the value of a key. */
static ll_status name_by(ll_input *in, const char *key, ll_status (*name)(ll_input *, const char *, size_t)) {
    const json_t *value = json_object_get(in->json, key);
    const double real = json_real_value(value);
    char number[32];
    if (json_is_integer(value) || (json_is_real(value) && fabs(real) < EXACT_MOST && real == floor(real))) {
        snprintf(number, sizeof number, "%lld",
                 json_is_real(value) ? (long long)real : (long long)json_integer_value(value));
        return name(in, number, strlen(number));
    }
    if (!value) return ll_input_wrong(in, "the object has no \"%.100s\"", key);
    if (!json_is_string(value))
        return ll_input_wrong(in, "the object's \"%.100s\" is neither string nor integer of 64 bits", key);
    const size_t n = json_string_length(value);
    if (strlen(json_string_value(value)) != n) return ll_input_wrong(in, "a zero byte in the object's \"%.100s\"", key);
    return name(in, json_string_value(value), n);
}

static ll_status find_names(ll_input *in) {
    const char *key = in->id_key ? in->id_key : "id";
    const json_t *id = json_object_get(in->json, key);
    const ll_status status = !id || json_is_null(id) ? ll_input_number(in, in->line) : name_by(in, key, ll_input_name);
    return !status && in->label_key ? name_by(in, in->label_key, ll_input_label) : status;
}

static ll_status begin(ll_input *in, int *found) {
    ll_status status = LL_OK;
    json_decref(in->json);
    in->json = NULL;
    while (!status && ll_input_peek(in) >= 0) {
        size_t size = 0;
        in->begin_line = in->line;
        status = read_line(in, &size);
        if (!status && !is_empty(in->buffer, size)) {
            status = parse(in, in->buffer, size);
            if (!status) status = find_text(in);
            if (!status) status = find_names(in);
            *found = !status;
            if (!status) ll_input_take(in);
            return status;
        }
        if (!status) ll_input_take(in);
    }
    return status ? status : in->status;
}

static ll_status more(ll_input *in, int *ends) {
    in->text += in->given;
    in->n = ll_min_size(in->left, in->piece);
    in->given = in->n;
    in->left -= in->n;
    *ends = !in->left;
    return LL_OK;
}

const ll_input_kind ll_input_json = {begin, more, 1};
