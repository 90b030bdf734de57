/* Streams in files: the state of all layers, the position and the last logits; see docs/format.md. A file names the
 * model by a digest of its parameters, draws and recipe, because no other model can continue from it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/cross_cache.h"
#include "base/memory.h"
#include "model/stream/model_stream.h"

static const char format[] = "longline-stream", version[] = "1";
enum { NAME = 64 };
static const int64_t LONGEST = LL_POSITION_MOST, SOURCE_MOST = 1 << 30;

/* The keys of a part that are not at their defaults, so that a key of a later version changes no digest. */
static ll_status add_part(const void *part, const ll_key_table *table, ll_st_writer *writer) {
    char buffer[LL_NUMBER_TEXT];
    ll_status status = LL_OK;
    for (int i = 0; i < table->count && !status; i++) {
        const ll_recipe_key *key = &table->keys[i].about;
        const char *value = ll_key_text(part, &table->keys[i], buffer);
        if (strcmp(value, key->fallback)) status = ll_st_meta(writer, key->name, value);
    }
    return status;
}

/* The keys that define the model. The noise of positions is a function of the seed. */
static ll_status add_keys(const ll_model *m, ll_st_writer *writer) {
    char seed[LL_NUMBER_TEXT];
    ll_status status = add_part(&m->c->model, &ll_model_keys, writer);
    if (!status) status = add_part(&m->c->attention, &ll_attention_keys, writer);
    if (!status) status = add_part(&m->c->position, &ll_position_keys, writer);
    snprintf(seed, sizeof seed, "%lld", (long long)m->c->seed);
    return status || m->c->seed == 1 ? status : ll_st_meta(writer, "train.seed", seed); /* 1: the default */
}

/* A matrix in bfloat16 counts as floats, which fit into `floats`: so it did before such matrices could be saved. */
static ll_status add_param(const ll_model *m, int i, float *floats, ll_st_writer *writer) {
    const ll_param *p = &m->param[i];
    const float *value = p->value;
    if (!value && !ll_param_matrix(m, i).bf16) return ll_quantized_write(m, i, writer);
    if (!value) {
        ll_param_floats(m, i, 0, p->rows, floats + p->offset);
        value = floats + p->offset;
    }
    return ll_st_add(writer, p->name, LL_F32, 2, (size_t[]){(size_t)p->rows, (size_t)p->cols}, value);
}

ll_status ll_model_digest(const ll_model *m, char hex[LL_DIGEST_TEXT]) {
    ll_st_writer *writer = NULL;
    float *floats = m->quantized ? ll_alloc(m->size, sizeof *floats) : NULL;
    ll_status status = m->quantized && !floats ? LL_ENOMEM : ll_st_writer_create(&writer);
    if (!status) status = add_keys(m, writer);
    for (int i = 0; i < m->count && !status; i++) status = add_param(m, i, floats, writer);
    if (!status) status = ll_operators_write(m, writer);
    if (!status) ll_st_digest(writer, hex);
    ll_st_writer_free(writer);
    ll_free(floats);
    return status;
}

/* A batcher reads the parameters for it only once. */
static ll_status digest_for(const ll_model *m, ll_batcher *batcher, char hex[LL_DIGEST_TEXT]) {
    if (!batcher) return ll_model_digest(m, hex);
    const ll_status status = *batcher->digest ? LL_OK : ll_model_digest(m, batcher->digest);
    if (!status) memcpy(hex, batcher->digest, LL_DIGEST_TEXT);
    return status;
}

/* A layer's own attention, and its cross attention. */
static const char *const parts[] = {"attention", "cross"};

static void name_of(char name[NAME], int layer, int cross, const char *what) {
    snprintf(name, NAME, "blocks.%d.%s%s%s", layer, parts[cross], *what ? "." : "", what);
}

/* The tokens in the state of a stream's layers: of the document, and of the source (0: there is none). */
typedef struct {
    int64_t tokens;
    int keys;
} extent;

static int tensors_of(const ll_stream *s, int layer, int cross, extent e, ll_state_tensor t[LL_STATE_TENSORS]) {
    if (!cross) return ll_attention_stream_state(s->attention[layer], e.tokens, t);
    return e.keys ? ll_cross_cache_state(s->cache[layer], e.keys, t) : 0;
}

/* Checks that the state is one that a stream could have. */
static ll_status check_values(const ll_stream *s) {
    for (int v = 0; v < s->model->c->model.vocab; v++)
        if (!isfinite(s->logits[v])) return ll_fail(LL_EFORMAT, "logits are not finite at element %d", v);
    for (int l = 0; l < s->model->c->model.layers; l++)
        for (int cross = 0; cross <= s->sourced; cross++) {
            const ll_status status =
                cross ? ll_cross_cache_check(s->cache[l]) : ll_attention_stream_check(s->attention[l]);
            char where[NAME];
            name_of(where, l, cross, "");
            if (status) return ll_fail_in(status, where);
        }
    return LL_OK;
}

/* ---- Save ---- */

static extent extent_of(const ll_stream *s) {
    return (extent){s->position - s->document, ll_stream_keys(s)};
}

static ll_status add_state(const ll_stream *s, ll_st_writer *writer) {
    const size_t vocab = (size_t)s->model->c->model.vocab;
    ll_status status = ll_st_add(writer, "logits", LL_F32, 1, &vocab, s->logits);
    for (int part = 0; part < 2 * s->model->c->model.layers; part++) {
        ll_state_tensor t[LL_STATE_TENSORS];
        const int n = tensors_of(s, part / 2, part % 2, extent_of(s), t);
        for (int i = 0; i < n && !status; i++) {
            char name[NAME];
            name_of(name, part / 2, part % 2, t[i].name);
            status = ll_st_add(writer, name, t[i].dtype, t[i].rank, t[i].shape, t[i].data);
        }
    }
    return status;
}

ll_status ll_stream_save(const ll_stream *s, const char *path) {
    char hex[LL_DIGEST_TEXT], position[32], document[32], source[32];
    ll_st_writer *writer = NULL;
    ll_status status = ll_stream_whole(s);
    if (!status && check_values(s))
        status = ll_fail(LL_EINVAL, "%s: the stream cannot be saved: %s; has the model diverged?", path, ll_error());
    if (!status) status = digest_for(s->model, s->batcher, hex);
    if (!status) status = ll_st_writer_create(&writer);
    if (status) return status;
    snprintf(position, sizeof position, "%lld", (long long)s->position);
    snprintf(document, sizeof document, "%lld", (long long)s->document);
    snprintf(source, sizeof source, "%d", ll_stream_keys(s));
    status = ll_st_meta(writer, "format", format);
    if (!status) status = ll_st_meta(writer, "version", version);
    if (!status) status = ll_st_meta(writer, "model", hex);
    if (!status) status = ll_st_meta(writer, "weights", ll_quantized_name(s->model));
    if (!status) status = ll_st_meta(writer, "position", position);
    if (!status) status = ll_st_meta(writer, "document", document);
    if (!status && s->cache) status = ll_st_meta(writer, "source", source);
    if (!status) status = add_state(s, writer);
    if (!status) status = ll_st_save(writer, path);
    ll_st_writer_free(writer);
    return status;
}

/* ---- Load ---- */

/* The positions of a stream. */
typedef struct {
    int64_t position, document; /* as ll_stream's */
    int64_t source;             /* number of keys in cross attention */
} stream_position;

static ll_status read_source(stream_position *p, const ll_model *m, const ll_safetensors *file) {
    const char *path = ll_safetensors_path(file), *keys = ll_safetensors_meta(file, "source");
    if (m->c->model.task != LL_TASK_SEQ2SEQ) return LL_OK;
    if (!keys || !ll_parse_integer(&p->source, keys) || p->source < 0 || p->source > SOURCE_MOST)
        return ll_fail(LL_EFORMAT, "%s: source is \"%.40s\", must be a number of tokens from 0 to 2^30", path,
                       keys ? keys : "");
    if (p->position && !p->source)
        return ll_fail(LL_EFORMAT, "%s: source is 0 at position %lld, and a target follows from a source", path,
                       (long long)p->position);
    if (p->source > ll_position_limit(&m->c->position))
        return ll_fail(LL_EFORMAT, "%s: a source of %lld tokens is longer than the model's %d learned positions", path,
                       (long long)p->source, (int)ll_position_limit(&m->c->position));
    return LL_OK;
}

static ll_status read_stream_position(stream_position *p, const ll_model *m, const ll_safetensors *file) {
    const char *path = ll_safetensors_path(file), *at = ll_safetensors_meta(file, "position");
    const char *from = ll_safetensors_meta(file, "document");
    if (!at || !ll_parse_integer(&p->position, at) || p->position < 0 || p->position > LONGEST)
        return ll_fail(LL_EFORMAT, "%s: position is \"%.40s\", must be a number from 0 to 2^52", path, at ? at : "");
    if (!from || !ll_parse_integer(&p->document, from) || p->document < 0 || p->document > p->position)
        return ll_fail(LL_EFORMAT, "%s: document is \"%.40s\", must be a number from 0 to position = %lld", path,
                       from ? from : "", (long long)p->position);
    if (p->document && m->c->model.separator < 0)
        return ll_fail(LL_EFORMAT, "%s: document is %lld, and the model knows one document alone (model.separator)",
                       path, (long long)p->document);
    if (p->position - p->document > ll_position_limit(&m->c->position))
        return ll_fail(LL_EFORMAT, "%s: position %lld is past the model's %d learned ones", path,
                       (long long)(p->position - p->document), (int)ll_position_limit(&m->c->position));
    return read_source(p, m, file);
}

/* Quantized weights are other numbers, so their state belongs to another model. */
static ll_status of_another(const ll_model *m, const ll_safetensors *file, const char *hex) {
    const char *path = ll_safetensors_path(file), *model = ll_safetensors_meta(file, "model");
    const char *weights = ll_safetensors_meta(file, "weights"), *now = ll_quantized_name(m);
    if (weights && strcmp(weights, now))
        return ll_fail(LL_EINVAL, "%s: the state of a model with weights %.10s, and this one has %s; if it is of this "
                       "model, load it with --weights %.10s", path, weights, now, weights);
    return ll_fail(LL_EINVAL, "%s: the state of another model (%.32s)%s; this one is %s", path,
                   model ? model : "unnamed", weights ? "" : ", or of this one with other --weights", hex);
}

/* Is it a stream's state, and of this model? Reads its positions. */
static ll_status read_meta(stream_position *p, const ll_model *m, ll_batcher *batcher, const ll_safetensors *file) {
    const char *path = ll_safetensors_path(file), *what = ll_safetensors_meta(file, "format");
    const char *number = ll_safetensors_meta(file, "version"), *model = ll_safetensors_meta(file, "model");
    char hex[LL_DIGEST_TEXT];
    if (!what || strcmp(what, format))
        return ll_fail(LL_EFORMAT, "%s: not the state of a stream (its metadata has no format = %s)", path, format);
    if (!number || strcmp(number, version))
        return ll_fail(LL_EFORMAT, "%s: stream format version %s; this program reads version %s", path,
                       number ? number : "(none)", version);
    const ll_status status = digest_for(m, batcher, hex);
    if (status) return status;
    return !model || strcmp(model, hex) ? of_another(m, file, hex) : read_stream_position(p, m, file);
}

static ll_status find(const ll_st_tensor **out, const ll_safetensors *file, const char *name,
                      const ll_state_tensor *want) {
    const char *path = ll_safetensors_path(file);
    const ll_st_tensor *t = ll_safetensors_find(file, name);
    if (!t) return ll_fail(LL_EFORMAT, "%s: tensor %s is missing", path, name);
    int same = t->dtype == want->dtype && t->rank == want->rank;
    for (int i = 0; i < want->rank && same; i++) same = t->shape[i] == want->shape[i];
    if (!same)
        return ll_fail(LL_EFORMAT,
                       "%s: tensor %s has a type or a shape that a stream of this model has not at its"
                       " position",
                       path, name);
    *out = t;
    return LL_OK;
}

/* Checks that the file has exactly the tensors that belong to this position. With `copy` it copies them into the
 * stream; without, it only checks, before memory is allocated. */
static ll_status take(ll_stream *s, const ll_safetensors *file, extent e, int copy) {
    ll_state_tensor t[1 + LL_STATE_TENSORS] = {{"logits", LL_F32, 1, {(size_t)s->model->c->model.vocab}, s->logits}};
    int count = 0;
    for (int part = -1; part < 2 * s->model->c->model.layers; part++) {
        const int n = part < 0 ? 1 : tensors_of(s, part / 2, part % 2, e, t);
        for (int i = 0; i < n; i++, count++) {
            const ll_st_tensor *from = NULL;
            char name[NAME] = "logits";
            if (part >= 0) name_of(name, part / 2, part % 2, t[i].name);
            const ll_status status = find(&from, file, name, &t[i]);
            if (status) return status;
            if (copy) memcpy(t[i].data, from->data, ll_state_bytes(&t[i]));
        }
    }
    if (count != ll_safetensors_count(file))
        return ll_fail(LL_EFORMAT,
                       "%s: %d tensors; a stream of this model has %d; of another version? read the text again",
                       ll_safetensors_path(file), ll_safetensors_count(file), count);
    return LL_OK;
}

static ll_status restore(ll_stream *s, const ll_safetensors *file, const stream_position *p) {
    const extent e = {p->position - p->document, (int)p->source};
    ll_status status = take(s, file, e, 0);
    for (int l = 0; l < s->model->c->model.layers && !status; l++) {
        status = ll_attention_stream_seek(s->attention[l], e.tokens);
        if (!status && e.keys) status = ll_cross_cache_seek(s->cache[l], e.keys);
    }
    if (status) return status;
    s->position = p->position;
    s->document = p->document;
    s->sourced = e.keys > 0;
    if ((status = take(s, file, e, 1))) return status;
    status = check_values(s);
    return status ? ll_fail_in(status, ll_safetensors_path(file)) : LL_OK;
}

ll_status ll_stream_load_in(ll_stream **out, ll_model *model, ll_batcher *batcher, const char *path) {
    ll_safetensors *file = NULL;
    ll_stream *s = NULL;
    stream_position at = {0};
    ll_status status = ll_safetensors_open(&file, path);
    if (status) return status;
    status = read_meta(&at, model, batcher, file);
    if (!status) status = ll_stream_create_in(&s, model, batcher);
    if (!status) status = restore(s, file, &at);
    ll_safetensors_free(file);
    if (status) {
        ll_stream_free(s);
        return status;
    }
    *out = s;
    return LL_OK;
}

ll_status ll_stream_load(ll_stream **out, ll_model *model, const char *path) {
    return ll_stream_load_in(out, model, NULL, path);
}
