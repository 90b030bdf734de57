/* The fields of requests. One table has the requests that each field belongs to, its type and its range. */
#include "serve/request.h"

#include <stdio.h>
#include <string.h>

/* ---- Fields ---- */

typedef struct field {
    const char *name;
    unsigned asks;
    int (*read)(ll_request *r, const struct field *f, json_t *value, ll_refusal *why);
    size_t at; /* offset in ll_request */
    double min, max;
    const char *neutral; /* of a field that is not supported: a JSON array of the values that ask for nothing */
} field;

static void *member(ll_request *r, const field *f) { return (char *)r + f->at; }

static int wrong_type(const field *f, const char *type, json_t *value, ll_refusal *why) {
    static const char *const names[] = {"an object", "an array", "a string", "an integer",
                                        "a number",  "true",     "false",    "null"};
    return ll_refuse(why, 400, f->name, "'%s' must be %s, not %s", f->name, type, names[json_typeof(value)]);
}

static int in_range(const field *f, double x, ll_refusal *why) {
    if (x >= f->min && x <= f->max) return 0;
    if (x > f->max && f->max >= 1e15)
        return ll_refuse(why, 400, f->name, "'%s' is %.15g, must be at most %.15g", f->name, x, f->max);
    if (f->max >= 1e15)
        return ll_refuse(why, 400, f->name, "'%s' is %.15g, must be at least %.15g", f->name, x, f->min);
    return ll_refuse(why, 400, f->name, "'%s' is %.15g, must be from %.15g to %.15g", f->name, x, f->min, f->max);
}

static int read_integer(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (!json_is_integer(v)) return wrong_type(f, "an integer", v, why);
    *(int64_t *)member(r, f) = json_integer_value(v);
    return in_range(f, (double)json_integer_value(v), why);
}

static int read_number(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (!json_is_number(v)) return wrong_type(f, "a number", v, why);
    *(double *)member(r, f) = json_number_value(v);
    return in_range(f, json_number_value(v), why);
}

static int read_flag(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (!json_is_boolean(v)) return wrong_type(f, "true or false", v, why);
    *(int *)member(r, f) = json_is_true(v);
    return 0;
}

/* Is it a string without the byte 0? Only prompts and stop texts may contain that byte. */
static int is_name(const json_t *v) {
    return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v);
}

static int read_text(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (!json_is_string(v)) return wrong_type(f, "a string", v, why);
    if (!is_name(v)) return ll_refuse(why, 400, f->name, "'%s' has the character NUL, which no name has", f->name);
    *(const char **)member(r, f) = json_string_value(v);
    return 0;
}

static int add_stop(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (!json_is_string(v)) return wrong_type(f, "a string or an array of strings", v, why);
    if (r->stops == LL_STOPS) return ll_refuse(why, 400, f->name, "'%s' has more than %d texts", f->name, LL_STOPS);
    if (!json_string_length(v)) return ll_refuse(why, 400, f->name, "'%s' has an empty text", f->name);
    if (json_string_length(v) > LL_STOP_BYTES)
        return ll_refuse(why, 400, f->name, "'%s' has a text of %zu bytes; one may have %d", f->name,
                         json_string_length(v), LL_STOP_BYTES);
    r->stop[r->stops].text = json_string_value(v);
    r->stop[r->stops++].size = json_string_length(v);
    return 0;
}

static int read_stop(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (!json_is_array(v)) return add_stop(r, f, v, why);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (add_stop(r, f, json_array_get(v, i), why)) return -1;
    return 0;
}

/* Is it an array of tokens? Their range is checked later, with the model. */
static int is_tokens(json_t *v) {
    const size_t n = json_is_array(v) ? json_array_size(v) : 0;
    for (size_t i = 0; i < n; i++)
        if (!json_is_integer(json_array_get(v, i))) return 0;
    return n > 0;
}

static int add_prompt(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (r->prompts == LL_PROMPTS)
        return ll_refuse(why, 400, f->name, "'%s' has more than %d entries", f->name, LL_PROMPTS);
    ll_prompt *p = &r->prompt[r->prompts++];
    if (json_is_string(v)) {
        *p = (ll_prompt){.text = json_string_value(v), .size = json_string_length(v)};
        return 0;
    }
    if (!is_tokens(v)) return wrong_type(f, "a string, an array of strings, or tokens", v, why);
    *p = (ll_prompt){.tokens = v};
    return 0;
}

static int read_prompt(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (!json_is_array(v) || is_tokens(v)) return add_prompt(r, f, v, why);
    if (!json_array_size(v)) return ll_refuse(why, 400, f->name, "'%s' is empty", f->name);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (add_prompt(r, f, json_array_get(v, i), why)) return -1;
    return 0;
}

/* Fields of a message, or of a part of one. Those that clients send back with an answer must be empty here. */
typedef struct {
    const char *name;
    enum { PART_READ, PART_IGNORED, PART_EMPTY } use;
} part_field;
static const part_field message_fields[] = {
    {"role", PART_READ},        {"content", PART_READ}, {"name", PART_IGNORED},       {"refusal", PART_EMPTY},
    {"annotations", PART_EMPTY}, {"audio", PART_EMPTY},  {"function_call", PART_EMPTY}, {"tool_calls", PART_EMPTY},
    {"tool_call_id", PART_EMPTY}, {NULL, PART_READ}};
static const part_field content_fields[] = {{"type", PART_READ}, {"text", PART_READ}, {NULL, PART_READ}};

/* Refuses fields that are not in the list, which ends with NULL. */
static int check_fields(json_t *object, const part_field *known, const char *where, ll_refusal *why) {
    const char *name;
    json_t *v;
    json_object_foreach(object, name, v) {
        char param[64];
        const part_field *f = known;
        snprintf(param, sizeof param, "%s.%.*s", where, ll_shown(name, 30), name);
        while (f->name && strcmp(f->name, name) != 0) f++;
        if (!f->name) return ll_refuse(why, 400, param, "there is no field '%s' here", param);
        if (f->use == PART_EMPTY && !json_is_null(v) && !(json_is_array(v) && !json_array_size(v)))
            return ll_refuse(why, 400, param, "'%s' is not supported by this server", param);
    }
    return 0;
}

/* A message's content: a string, or an array with one part of type text. */
static json_t *content_of(json_t *message) {
    json_t *content = json_object_get(message, "content");
    if (!json_is_array(content) || json_array_size(content) != 1) return content;
    json_t *part = json_array_get(content, 0), *type = json_object_get(part, "type");
    return json_is_string(type) && !strcmp(json_string_value(type), "text") ? json_object_get(part, "text") : NULL;
}

static int read_message(ll_request *r, json_t *m, size_t i, ll_refusal *why) {
    json_t *role = json_object_get(m, "role"), *content = content_of(m);
    char where[32], part[48], param[64];
    snprintf(where, sizeof where, "messages.%zu", i);
    snprintf(part, sizeof part, "%s.content.0", where);
    snprintf(param, sizeof param, "%s.%s", where, is_name(role) ? "content" : "role");
    if (!json_is_object(m)) return ll_refuse(why, 400, where, "'%s' must be an object", where);
    if (json_is_string(role) && !is_name(role))
        return ll_refuse(why, 400, param, "'%s' has the character NUL, which no name has", param);
    if (!is_name(role) || !json_is_string(content))
        return ll_refuse(why, 400, param, "'%s' must be a string%s", param,
                         is_name(role) ? ", or a list of one part of type text" : "");
    if (check_fields(m, message_fields, where, why)) return -1;
    if (check_fields(json_array_get(json_object_get(m, "content"), 0), content_fields, part, why)) return -1;
    r->message[r->messages++] =
        (ll_message){json_string_value(role), json_string_value(content), json_string_length(content)};
    return 0;
}

static int read_messages(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (!json_is_array(v)) return wrong_type(f, "an array of messages", v, why);
    if (!json_array_size(v) || json_array_size(v) > LL_MESSAGES)
        return ll_refuse(why, 400, f->name, "'messages' has %zu entries, must have 1 to %d", json_array_size(v),
                         LL_MESSAGES);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (read_message(r, json_array_get(v, i), i, why)) return -1;
    return 0;
}

/* For completions a number of alternatives, for chats a flag, with the number in top_logprobs. */
static int read_logprobs(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (r->ask != LL_ASK_CHAT) return read_integer(r, f, v, why);
    if (!json_is_boolean(v)) return wrong_type(f, "true or false", v, why);
    r->logprobs = json_is_true(v) ? 0 : -1;
    return 0;
}

static int read_stream_options(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (!json_is_object(v)) return wrong_type(f, "an object", v, why);
    const char *key;
    json_t *x;
    json_object_foreach(v, key, x) {
        const int usage = !strcmp(key, "include_usage"), padding = !strcmp(key, "include_obfuscation");
        if (!(usage || padding) || !(json_is_null(x) || json_is_false(x) || (usage && json_is_true(x))))
            return ll_refuse(why, 400, f->name,
                             "'stream_options' may have include_usage, true or false, and include_obfuscation, false");
        if (usage) r->usage = json_is_true(x);
    }
    return 0;
}

static int read_encoding(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    if (!json_is_string(v)) return wrong_type(f, "a string", v, why);
    r->base64 = !strcmp(json_string_value(v), "base64");
    if (!r->base64 && strcmp(json_string_value(v), "float") != 0)
        return ll_refuse(why, 400, f->name, "'encoding_format' must be \"float\" or \"base64\"");
    return 0;
}

/* Fields of other servers that have no effect here. */
static int read_ignored(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    (void)r, (void)f, (void)v, (void)why;
    return 0;
}

/* Fields that are not supported: only values without an effect are accepted. */
static int read_unsupported(ll_request *r, const field *f, json_t *v, ll_refusal *why) {
    (void)r;
    json_t *values = json_loads(f->neutral, 0, NULL);
    int found = 0;
    for (size_t i = 0; i < json_array_size(values) && !found; i++) found = json_equal(v, json_array_get(values, i));
    json_decref(values);
    if (found) return 0;
    const int some = strcmp(f->neutral, "[]") != 0;
    return ll_refuse(why, 400, f->name, "'%s' is not supported by this server; it may be null%s%s", f->name,
                     some ? ", or one of " : "", some ? f->neutral : "");
}

#define AT(name) offsetof(ll_request, name)
enum {
    TEXTS = LL_ASK_COMPLETION | LL_ASK_CHAT,
    DRAWS = TEXTS | LL_ASK_GENERATE,
    NAMED = TEXTS | LL_ASK_INPUTS | LL_ASK_CREATE
};
static const field fields[] = {
    {"model", NAMED, read_text, AT(model)},
    {"prompt", LL_ASK_COMPLETION | LL_ASK_GENERATE | LL_ASK_CREATE | LL_ASK_APPEND, read_prompt, 0},
    {"input", LL_ASK_INPUTS, read_prompt, 0},
    {"messages", LL_ASK_CHAT, read_messages, 0},
    {"max_tokens", DRAWS, read_integer, AT(max_tokens), -1, 1e15},
    {"max_completion_tokens", LL_ASK_CHAT, read_integer, AT(max_completion_tokens), -1, 1e15},
    {"temperature", DRAWS, read_number, AT(temperature), 0, 100},
    {"top_p", DRAWS, read_number, AT(top_p), 0, 1},
    {"top_k", DRAWS, read_integer, AT(top_k), 0, 1e6},
    {"seed", DRAWS, read_integer, AT(seed), 0, (double)INT64_MAX}, /* the largest that jansson reads */
    {"n", TEXTS, read_integer, AT(n), 1, LL_CHOICES},
    {"stop", DRAWS, read_stop, 0},
    {"stream", DRAWS, read_flag, AT(stream)},
    {"stream_options", DRAWS, read_stream_options, 0},
    {"logprobs", DRAWS, read_logprobs, AT(logprobs), 0, LL_TOP_LOGPROBS},
    {"top_logprobs", LL_ASK_CHAT, read_integer, AT(top_logprobs), 0, LL_TOP_LOGPROBS},
    {"echo", LL_ASK_COMPLETION, read_flag, AT(echo)},
    {"ignore_end", DRAWS, read_flag, AT(ignore_end)},
    {"per_token", LL_ASK_SCORE, read_flag, AT(per_token)},
    {"top", LL_ASK_CLASSIFY, read_integer, AT(top), 1, 1000},
    {"layer", LL_ASK_ATTENTION, read_integer, AT(layer), -1, 1e6},
    {"query", LL_ASK_ATTENTION, read_integer, AT(query), -1, 1e9},
    {"encoding_format", LL_ASK_EMBEDDING, read_encoding, 0},
    {"dimensions", LL_ASK_EMBEDDING, read_integer, AT(dimensions), 1, 1e6}, /* those of the model alone */
    {"user", NAMED, read_ignored, 0},
    {"metadata", NAMED, read_ignored, 0},
    {"store", LL_ASK_CHAT, read_ignored, 0},
    {"prompt_cache_key", LL_ASK_CHAT, read_ignored, 0},
    {"prompt_cache_retention", LL_ASK_CHAT, read_ignored, 0},
    {"safety_identifier", LL_ASK_CHAT, read_ignored, 0},
    {"parallel_tool_calls", LL_ASK_CHAT, read_ignored, 0},
    {"frequency_penalty", TEXTS, read_unsupported, .neutral = "[0, 0.0]"},
    {"presence_penalty", TEXTS, read_unsupported, .neutral = "[0, 0.0]"},
    {"logit_bias", TEXTS, read_unsupported, .neutral = "[{}]"},
    {"best_of", LL_ASK_COMPLETION, read_unsupported, .neutral = "[1]"},
    {"suffix", LL_ASK_COMPLETION, read_unsupported, .neutral = "[\"\"]"},
    {"tools", LL_ASK_CHAT, read_unsupported, .neutral = "[[]]"},
    {"tool_choice", LL_ASK_CHAT, read_unsupported, .neutral = "[\"none\", \"auto\"]"},
    {"functions", LL_ASK_CHAT, read_unsupported, .neutral = "[[]]"},
    {"function_call", LL_ASK_CHAT, read_unsupported, .neutral = "[\"none\", \"auto\"]"},
    {"response_format", LL_ASK_CHAT, read_unsupported, .neutral = "[{\"type\": \"text\"}]"},
    {"modalities", LL_ASK_CHAT, read_unsupported, .neutral = "[[\"text\"]]"},
    {"service_tier", LL_ASK_CHAT, read_unsupported, .neutral = "[\"auto\", \"default\"]"},
    {"reasoning_effort", LL_ASK_CHAT, read_unsupported, .neutral = "[\"none\"]"},
    {"verbosity", LL_ASK_CHAT, read_unsupported, .neutral = "[\"medium\"]"},
    {"audio", LL_ASK_CHAT, read_unsupported, .neutral = "[]"},
    {"prediction", LL_ASK_CHAT, read_unsupported, .neutral = "[]"},
    {"web_search_options", LL_ASK_CHAT, read_unsupported, .neutral = "[]"},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static int read_field(ll_request *r, const char *name, json_t *value, ll_refusal *why) {
    for (int i = 0; i < FIELDS; i++)
        if ((fields[i].asks & (unsigned)r->ask) && !strcmp(fields[i].name, name))
            return json_is_null(value) ? 0 : fields[i].read(r, &fields[i], value, why);
    return ll_refuse(why, 400, name, "there is no field '%.*s' here", ll_shown(name, 60), name);
}

int ll_refuse_many(const ll_request *r, int64_t most, ll_refusal *why) {
    const char *name = r->ask & LL_ASK_INPUTS ? "input" : r->n > 1 ? "n" : "prompt";
    if (r->n > 1)
        return ll_refuse(why, 400, name, "%d prompts of %lld choices; this server takes %lld together", r->prompts,
                         (long long)r->n, (long long)most);
    return ll_refuse(why, 400, name, "'%s' has %d entries; this server takes %lld together", name, r->prompts,
                     (long long)most);
}

/* Checks that concern several fields. */
static int check_request(const ll_request *r, ll_refusal *why) {
    const char *input = r->ask & LL_ASK_INPUTS ? "input" : "prompt";
    if (r->ask == LL_ASK_CHAT && !r->messages) return ll_refuse(why, 400, "messages", "'messages' is missing");
    if ((r->ask & (LL_ASK_INPUTS | LL_ASK_APPEND)) && !r->prompts)
        return ll_refuse(why, 400, input, "'%s' is missing", input);
    if ((r->ask & (LL_ASK_GENERATE | LL_ASK_CREATE | LL_ASK_APPEND)) && r->prompts > 1)
        return ll_refuse(why, 400, "prompt", "'prompt' has %d entries; a session reads one", r->prompts);
    if (r->ask == LL_ASK_ATTENTION && r->prompts > 1)
        return ll_refuse(why, 400, "input", "'input' has %d entries; attention is of one", r->prompts);
    if (r->prompts * r->n > LL_PROMPTS) return ll_refuse_many(r, LL_PROMPTS, why);
    if (r->top_logprobs >= 0 && r->logprobs < 0)
        return ll_refuse(why, 400, "top_logprobs", "'top_logprobs' goes with 'logprobs': true");
    if (r->max_tokens != LL_TOKENS_UNSET && r->max_completion_tokens != LL_TOKENS_UNSET &&
        r->max_tokens != r->max_completion_tokens)
        return ll_refuse(why, 400, "max_completion_tokens", "'max_completion_tokens' is %lld and 'max_tokens' %lld",
                         (long long)r->max_completion_tokens, (long long)r->max_tokens);
    if (r->usage && !r->stream)
        return ll_refuse(why, 400, "stream_options", "'stream_options' goes with 'stream': true");
    return 0;
}

int ll_request_read(ll_request *r, ll_ask ask, const void *body, size_t size, ll_refusal *why) {
    json_error_t at = {0};
    const char *name;
    json_t *value;
    *r = (ll_request){.ask = ask,
                      .max_tokens = LL_TOKENS_UNSET,
                      .max_completion_tokens = LL_TOKENS_UNSET,
                      .temperature = 1,
                      .top_p = 1,
                      .n = 1,
                      .top = 1,
                      .seed = LL_SEED_DRAWN,
                      .logprobs = -1,
                      .top_logprobs = -1,
                      .layer = -1,
                      .query = -1};
    r->body = size ? json_loadb(body, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at) : json_object();
    if (!r->body && (!size || json_error_code(&at) == json_error_out_of_memory))
        return ll_refuse(why, 503, "", "no memory for the request");
    if (!r->body && json_error_code(&at) == json_error_numeric_overflow)
        return ll_refuse(why, 400, "",
                         "the body has a number that is too large: line %d, column %d; integers go to %lld", at.line,
                         at.column, (long long)INT64_MAX);
    if (!r->body)
        return ll_refuse(why, 400, "", "the body is not JSON: line %d, column %d: %s", at.line, at.column, at.text);
    if (!json_is_object(r->body)) return ll_refuse(why, 400, "", "the body is JSON, but not an object");
    json_object_foreach(r->body, name, value) if (read_field(r, name, value, why)) return -1;
    if (check_request(r, why)) return -1;
    if (r->top_logprobs >= 0) r->logprobs = r->top_logprobs;
    if (r->max_tokens == LL_TOKENS_UNSET) r->max_tokens = r->max_completion_tokens;
    return 0;
}

void ll_request_keep_stops(ll_request *r) {
    json_t *stop = json_incref(json_object_get(r->body, "stop"));
    ll_request_free(r);
    r->body = stop, r->model = NULL;
    r->prompts = r->messages = 0;
}

void ll_request_free(ll_request *r) {
    json_decref(r->body);
    r->body = NULL;
}
