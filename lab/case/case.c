/* A case: one attention call as a file. Inputs, every random draw and the mechanism come in one safetensors file,
 * y and the gradients go out in another, so that any other implementation can be checked against this one
 * (docs/format.md). The file may come from anywhere: every shape and value is checked before it is used, and
 * nothing is written unless everything was computed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/case.h"
#include "attention/table.h"
#include "base/finite.h"
#include "base/memory.h"
#include "base/read_progress.h"
#include "base/text.h"

enum { MOST_AXIS = LL_CASE_AXIS, MOST_STATE = 1 << 22 };
static const double MOST_SAVED = 2147483648.0; /* floats kept for the gradients: 8 GiB */

static void attend_free(ll_case *a) {
    void *pieces[] = {a->q,           a->k, a->v,  a->g,  a->key_mask, a->projection, a->decay,
                      a->permutation, a->y, a->dq, a->dk, a->dv,       a->dr,         a->saved};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) ll_free(pieces[i]);
    ll_attention_free(a->op);
    ll_case_position_free(a);
    ll_safetensors_free(a->file);
}

/* ---- Metadata ---- */

/* Which of the names (separated by spaces) the key is; `fallback` where it is absent, NULL: it must be there. */
static ll_status choice(const ll_case *a, const char *key, const char *names, const char *fallback, int *value) {
    const char *text = ll_safetensors_meta(a->file, key);
    if (!text) text = fallback;
    if (!text) return ll_fail(LL_EFORMAT, "metadata '%s' is missing", key);
    const size_t length = strlen(text);
    int i = 0;
    for (const char *name = names; *name; name += strspn(name, " "), i++) {
        const size_t n = strcspn(name, " ");
        if (n == length && !memcmp(name, text, n)) {
            *value = i;
            return LL_OK;
        }
        name += n;
    }
    return ll_fail(LL_EINVAL, "%s '%.40s' does not exist here; there are: %s", key, text, names);
}

/* Kernels that files name otherwise than recipes: favor has a name for each kind of its features. */
static const struct {
    const char *name;
    ll_kernel kernel;
    ll_feature_kind features;
} alias[] = {{"exact", LL_KERNEL_SOFTMAX, 0},
             {"softmax-pos", LL_KERNEL_FAVOR, LL_FEATURES_POSITIVE},
             {"softmax-hyp", LL_KERNEL_FAVOR, LL_FEATURES_HYPERBOLIC},
             {"softmax-trig", LL_KERNEL_FAVOR, LL_FEATURES_TRIGONOMETRIC},
             {"gauss-trig", LL_KERNEL_FAVOR, LL_FEATURES_GAUSSIAN}};
enum { ALIASES = sizeof alias / sizeof *alias, NAMES = 400 };

static int has_alias(int kernel) {
    for (int i = 0; i < ALIASES; i++)
        if ((int)alias[i].kernel == kernel) return 1;
    return 0;
}

static void append(char names[NAMES], const char *name) {
    const size_t n = strlen(names);
    snprintf(names + n, NAMES - n, "%s%s", n ? " " : "", name);
}

/* The other kernels of the table that a case can have: a file has no gate. */
static ll_status choose_kernel(ll_case *a) {
    char names[NAMES] = "";
    int kernel[64], n = ALIASES, chosen = 0;
    for (int i = 0; i < ALIASES; i++) append(names, alias[i].name);
    for (int k = 0; ll_kernel_row(k) && n < 64; k++) {
        if (has_alias(k) || ll_kernel_row(k)->gated) continue;
        append(names, ll_kernel_row(k)->about.name);
        kernel[n++] = k;
    }
    const ll_status status = choice(a, "kernel", names, NULL, &chosen);
    if (status) return status;
    a->c.kernel = chosen < ALIASES ? alias[chosen].kernel : (ll_kernel)kernel[chosen];
    a->c.features = chosen < ALIASES ? alias[chosen].features : 0;
    return LL_OK;
}

static ll_status choose_position(ll_case *a) {
    char names[NAMES] = "";
    int position[64], n = 0, chosen = 0;
    for (int p = 0; ll_position_row(p) && n < 64; p++) {
        if (p && ll_position_row(p)->has & LL_EMBEDDED) continue; /* a model adds it, before attention */
        append(names, ll_position_row(p)->about.name);
        position[n++] = p;
    }
    const ll_status status = choice(a, "position", names, NULL, &chosen);
    if (!status) a->c.position = (ll_position)position[chosen];
    return status;
}

static ll_status read_kernel(ll_case *a) {
    float logit = 1;
    int causal = 0;
    ll_status status = choose_kernel(a);
    if (!status) status = choose_position(a);
    if (!status) status = ll_case_integer(a, "causal", NAN, 1, &causal);
    if (!status) status = ll_case_number(a, "input_scale", 1, &a->c.input_scale);
    if (!status) status = ll_case_number(a, "feature_eps", 0, &a->c.feature_eps);
    if (status) return status;
    a->kernel = ll_safetensors_meta(a->file, "kernel");
    a->position = ll_safetensors_meta(a->file, "position");
    a->c.causal = causal;
    if (ll_operator_of_kernel(a->c.kernel)->linear) return LL_OK;
    status = ll_case_number(a, "logit_scale", ll_operator_of_kernel(a->c.kernel)->reads ? NAN : 1, &logit);
    a->c.input_scale *= a->c.input_scale * logit;
    return status;
}

static ll_status read_rules(ll_case *a) {
    static const ll_max max[] = {LL_MAX_TOKEN, LL_MAX_SEQUENCE, LL_MAX_BATCH, LL_MAX_PREFIX, LL_MAX_NONE};
    static const ll_den dens[] = {LL_DEN_SUM, LL_DEN_EPS, LL_DEN_EPS_PHI, LL_DEN_EPS_L, LL_DEN_GUARD, LL_DEN_NONE};
    static const char rules[] = "token sequence batch prefix none";
    int query = 0, key = 0, of = 0, through = 0, den = 0;
    ll_status status = choice(a, "query_max", rules, "none", &query);
    if (!status) status = choice(a, "key_max", rules, "none", &key);
    if (!status) status = choice(a, "stabilizer_of", "u u-n", "u", &of);
    if (!status) status = choice(a, "stabilizer_gradient", "stopped through", "stopped", &through);
    if (!status) status = choice(a, "den", "sum sum+eps sum+eps*phi sum+L*eps google none", "sum", &den);
    if (!status) status = ll_case_number(a, "den_eps", 0, &a->c.den_eps);
    if (status) return status;
    a->c.query_max = max[query];
    a->c.key_max = max[key];
    if (ll_is_trigonometric(&a->c) && a->c.key_max == LL_MAX_SEQUENCE) a->c.query_max = LL_MAX_SEQUENCE; /* so meant */
    a->c.max_of_u = !of;
    a->c.max_gradient = through;
    a->c.den = dens[den];
    return LL_OK;
}

/* ---- Tensors ---- */

/* B, H, L, d, dv and the number of features, from the tensors, and as the metadata say it. */
static ll_status read_sizes(ll_case *a) {
    size_t H = 0, D = 0, E = 0, M = 0;
    ll_status status = ll_case_axis(a, "q", 4, 0, &a->B);
    if (!status) status = ll_case_axis(a, "q", 4, 1, &H);
    if (!status) status = ll_case_axis(a, "q", 4, 2, &a->L);
    if (!status) status = ll_case_axis(a, "q", 4, 3, &D);
    if (!status) status = ll_case_axis(a, "v", 4, 3, &E);
    if (!status && ll_safetensors_find(a->file, "proj")) status = ll_case_axis(a, "proj", 2, 0, &M);
    if (status) return status;
    a->c.H = (int)H;
    a->c.D = (int)D;
    a->c.E = (int)E;
    a->c.M = (int)M;
    if ((M ? M : D) > MOST_STATE || (size_t)ll_feature_count(&a->c) * E > MOST_STATE)
        return ll_fail(LL_EINVAL, "a state of %zu features x %zu values is too large, at most %d numbers",
                       (size_t)ll_feature_count(&a->c), E, (int)MOST_STATE);
    const char *keys[] = {"B", "H", "L", "d", "dv", "m"};
    const size_t sizes[] = {a->B, H, a->L, D, E, M ? M : D};
    for (int i = 0; i < 6 && !status; i++) {
        int said = 0;
        status = ll_case_integer(a, keys[i], (double)sizes[i], MOST_AXIS, &said);
        if (!status && (size_t)said != sizes[i])
            status = ll_fail(LL_EFORMAT, "metadata '%s' is %d, but the tensors have %zu", keys[i], said, sizes[i]);
    }
    return status;
}

/* An input that this mechanism does not read would make the result something else than the file means. */
static ll_status check_names(const ll_case *a) {
    static const char *always[] = {"q", "k", "v", "g", "y"};
    static const char *linear[] = {"proj", "r", "key_mask"};
    for (int i = 0; i < ll_safetensors_count(a->file); i++) {
        const char *name = ll_safetensors_at(a->file, i)->name;
        int known = !strncmp(name, "grad.", 5) || !strncmp(name, "aux.", 4);
        for (int n = 0; n < 5; n++) known |= !strcmp(name, always[n]);
        for (int n = 0; n < 3; n++) known |= ll_operator_of_kernel(a->c.kernel)->linear && !strcmp(name, linear[n]);
        known |= ll_case_position_reads(a, name) | ll_case_approximate_reads(a, name);
        if (!known)
            return ll_fail(LL_EINVAL, "tensor '%.60s' has no meaning for kernel %s with position %s", name, a->kernel,
                           a->position);
    }
    return LL_OK;
}

static ll_status read_tensors(ll_case *a) {
    const size_t H = (size_t)a->c.H, D = (size_t)a->c.D, E = (size_t)a->c.E;
    const size_t queries[] = {a->B, H, a->L, D}, values[] = {a->B, H, a->L, E};
    size_t keyed = H;
    ll_status status = check_names(a);
    const int keyless = ll_operator_of_config(&a->c)->keyless;
    if (!status && keyless && !ll_safetensors_find(a->file, "k"))
        keyed = 0;
    else if (!status)
        status = ll_case_axis(a, "k", 4, 1, &keyed);
    if (!keyless) keyed = H;
    a->keyed = (int)keyed;
    if (!status) status = ll_case_tensor(a, "q", 4, queries, &a->q);
    if (!status) status = ll_case_tensor(a, "k", 4, (size_t[]){a->B, keyed, a->L, D}, &a->k);
    if (!status) status = ll_case_tensor(a, "v", 4, values, &a->v);
    if (!status) status = ll_case_tensor(a, "g", 4, values, &a->g);
    if (!status) status = ll_case_tensor(a, "r", 1, &H, &a->decay);
    if (!status) status = ll_case_tensor(a, "key_mask", 2, (size_t[]){a->B, a->L}, &a->key_mask);
    if (!status) status = ll_case_position(a);
    if (!status) status = ll_case_approximate(a);
    if (!status) status = ll_case_tensor(a, "proj", 2, (size_t[]){(size_t)a->c.M, ll_case_width(a)}, &a->projection);
    for (size_t i = 0; i < a->B * a->L && !status && a->key_mask; i++)
        if (a->key_mask[i] != 0 && a->key_mask[i] != 1)
            status = ll_fail(LL_EFORMAT, "tensor 'key_mask' holds %g, must be 0 or 1", (double)a->key_mask[i]);
    a->c.projection = a->projection;
    a->c.permutation = a->permutation;
    a->c.decay = a->decay;
    return status;
}

/* ---- The call ---- */

static ll_view view(const ll_case *a, float *data, int n) {
    const size_t token = (size_t)n, head = token * a->L;
    return (ll_view){.data = data, .batch = head * (size_t)a->c.H, .head = head, .token = token};
}

/* Keys: of the heads that have them. */
static ll_view keys_view(const ll_case *a, float *data) {
    ll_view v = view(a, data, a->c.D);
    v.batch = v.head * (size_t)a->keyed;
    return v;
}

static ll_status allocate(ll_case *a) {
    const size_t rows = a->B * (size_t)a->c.H * a->L, D = (size_t)a->c.D, E = (size_t)a->c.E;
    a->y = ll_alloc(rows * E, sizeof *a->y);
    if (!a->y) return LL_ENOMEM;
    if (!a->g) return LL_OK;
    const size_t saved =
        ll_attention_saved(a->op, &(ll_attention_call){.B = (int)a->B, .T = (int)a->L, .S = (int)a->L});
    if ((double)saved > MOST_SAVED)
        return ll_fail(LL_EINVAL, "the gradients need %.1f GiB of saved states; leave out 'g'",
                       (double)saved * 4 / 1073741824.0);
    a->dq = ll_alloc(rows * D, sizeof *a->dq);
    a->dk = ll_alloc(rows * D, sizeof *a->dk);
    a->dv = ll_alloc(rows * E, sizeof *a->dv);
    a->dr = ll_alloc((size_t)a->c.H, sizeof *a->dr);
    a->saved = ll_alloc(saved, sizeof *a->saved);
    return a->dq && a->dk && a->dv && a->dr && a->saved ? LL_OK : LL_ENOMEM;
}

static ll_status run_stream(ll_case *a) {
    ll_attention_stream *stream;
    if (a->key_mask) return ll_fail(LL_EINVAL, "a stream takes every key: 'key_mask' cannot be streamed");
    ll_status status = ll_attention_stream_create(&stream, a->op, (int)a->B);
    if (status) return status;
    ll_view q = view(a, a->q, a->c.D), k = keys_view(a, a->k), v = view(a, a->v, a->c.E), y = view(a, a->y, a->c.E);
    for (size_t t = 0; t < a->L && !status; t++) {
        ll_read_progress("the tokens, one at a time", (int64_t)t, (int64_t)a->L);
        status = ll_attention_stream_feed(stream, 1, q, k, v, (ll_view){0}, y);
        q.data += q.token;
        if (a->k) k.data += k.token;
        v.data += v.token;
        y.data += y.token;
    }
    ll_attention_stream_free(stream);
    return status;
}

/* Gradients are those of the tiles also where y comes from the stream. */
static ll_status compute(ll_case *a, int streaming) {
    const int D = a->c.D, E = a->c.E;
    ll_attention_call call = {.B = (int)a->B, .T = (int)a->L, .S = (int)a->L, .key_mask = a->key_mask};
    call.q = view(a, a->q, D);
    call.k = keys_view(a, a->k);
    call.v = view(a, a->v, E);
    call.y = view(a, a->y, E);
    call.g = view(a, a->g, E);
    call.dq = view(a, a->dq, D);
    call.dk = keys_view(a, a->dk);
    call.dv = view(a, a->dv, E);
    call.saved = a->saved;
    call.dposition = a->dposition;
    call.dapproximate = a->dapproximate;
    call.ddecay = a->decay ? a->dr : NULL;
    ll_status status = LL_OK;
    if (a->g || !streaming) status = ll_attention_forward(a->op, &call);
    if (!status && a->g) status = ll_attention_backward(a->op, &call);
    if (!status && streaming) status = run_stream(a);
    return status;
}

static ll_status solve(ll_case *a, int streaming, int tile) {
    ll_status status = read_kernel(a);
    if (!status) status = read_rules(a);
    if (!status) status = read_sizes(a);
    if (!status) status = read_tensors(a);
    if (!status) status = ll_attention_create(&a->op, &a->c);
    if (status) return status;
    ll_attention_set_tile(a->op, tile);
    status = allocate(a);
    return status ? status : compute(a, streaming);
}

/* One tensor of the results, all of whose inputs are finite. */
static ll_status add(ll_st_writer *w, const char *name, int rank, const size_t *shape, const float *data) {
    size_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    const size_t i = ll_find_infinite(data, n);
    if (i == n) return ll_st_add(w, name, LL_F32, rank, shape, data);
    return ll_fail(LL_EDIVERGED, "%s became %s at element %zu: an input is too large, or a divisor zero", name,
                   ll_name_infinite((double)data[i]), i);
}

static ll_status write_case(const ll_case *a, const char *out, int streaming) {
    const size_t H = (size_t)a->c.H;
    const size_t keys[] = {a->B, (size_t)a->keyed, a->L, (size_t)a->c.D};
    const size_t queries[] = {a->B, H, a->L, (size_t)a->c.D}, values[] = {a->B, H, a->L, (size_t)a->c.E};
    const char *name = ll_safetensors_meta(a->file, "case");
    ll_st_writer *w;
    ll_status status = ll_st_writer_create(&w);
    if (status) return status;
    if (name) status = ll_st_meta(w, "case", name);
    if (!status) status = ll_st_meta(w, "form", streaming ? "streaming" : "tiles");
    if (!status) status = add(w, "y", 4, values, a->y);
    if (!status && a->g) status = add(w, "grad.q", 4, queries, a->dq);
    if (!status && a->g && a->k) status = add(w, "grad.k", 4, keys, a->dk);
    if (!status && a->g) status = add(w, "grad.v", 4, values, a->dv);
    if (!status && a->g && a->decay) status = add(w, "grad.r", 1, &H, a->dr);
    for (int i = 0; i < a->parameters && !status && a->g; i++) {
        const ll_case_parameter *p = &a->parameter[i];
        char text[40];
        snprintf(text, sizeof text, "grad.%s", p->name);
        status = add(w, text, p->rank, p->shape, p->gradient);
    }
    if (!status) status = ll_st_save(w, out);
    ll_st_writer_free(w);
    return status;
}

ll_status ll_attend_file(const char *in, const char *out, int streaming, int tile) {
    ll_case a = {0};
    if (tile < 0 || tile > LL_TILE_MOST)
        return ll_fail(LL_EINVAL, "a tile of %d tokens: must be 1 to %d, or 0", tile, LL_TILE_MOST);
    ll_status status = ll_safetensors_open(&a.file, in);
    if (!status) {
        status = solve(&a, streaming, tile);
        if (status == LL_EINVAL || status == LL_EFORMAT) status = ll_fail_in(status, in);
    }
    if (!status) status = write_case(&a, out, streaming);
    if (status == LL_EDIVERGED) status = ll_fail_in(status, in);
    attend_free(&a);
    return status;
}
