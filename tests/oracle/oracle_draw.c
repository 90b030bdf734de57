/* Random operators and calls, for the library and for the oracle. It calls no function of the library, because every
 * test program is linked with the oracle. */
#include "oracle.h"
#include "test.h"

double draw_uniform(uint64_t *seed) { /* splitmix64 */
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

int draw_int(uint64_t *seed, int from, int to) {
    return from + (int)(draw_uniform(seed) * (to - from + 1));
}

double draw_normal(uint64_t *seed) {
    const double u = 1 - draw_uniform(seed), angle = 6.283185307179586 * draw_uniform(seed);
    return sqrt(-2 * log(u)) * cos(angle);
}

static void *take(size_t n, size_t size) {
    void *p = calloc(n + 1, size);
    assert_non_null(p);
    return p;
}

/* ---- Operators ---- */

static double choose(uint64_t *seed, int n, const double *values) {
    return values[draw_int(seed, 0, n - 1)];
}

static int either_sign(const ll_attention_config *c) {
    return c->kernel == LL_KERNEL_GELU || c->kernel == LL_KERNEL_COS || c->kernel == LL_KERNEL_TANH ||
           c->kernel == LL_KERNEL_IDENTITY;
}

static void draw_rules(ll_attention_config *c, uint64_t *seed) {
    const int favor = c->kernel == LL_KERNEL_FAVOR, waves = favor && c->features >= LL_FEATURES_TRIGONOMETRIC;
    c->feature_eps =
        (float)(favor ? choose(seed, 4, (double[]){0, 0, 1e-4, 0.05}) : choose(seed, 3, (double[]){0, 1e-2, 0.1}));
    if (waves) c->feature_eps = 0;
    const int zeros = c->kernel == LL_KERNEL_RELU || c->kernel == LL_KERNEL_ABS || c->kernel == LL_KERNEL_SQUARE;
    if (zeros && c->feature_eps == 0) c->feature_eps = 1e-2f; /* features near 0 are only as accurate as u */
    c->den = (ll_den)draw_int(seed, LL_DEN_SUM, LL_DEN_NONE);
    if (draw_int(seed, 0, 2) == 0) c->den = LL_DEN_SUM;
    c->den_eps = (float)(c->den == LL_DEN_GUARD ? 1e-7 : choose(seed, 2, (double[]){1e-6, 0.1}));
    if (either_sign(c)) { /* sums of weights may be near 0, so another divisor is used */
        c->den = draw_int(seed, 0, 1) ? LL_DEN_NONE : LL_DEN_EPS_L;
        c->den_eps = 40;
    }
    if (!favor) return;
    c->query_max = (ll_max)choose(seed, 3, (double[]){LL_MAX_TOKEN, LL_MAX_PREFIX, LL_MAX_NONE});
    if (waves && draw_int(seed, 0, 1)) c->query_max = LL_MAX_SEQUENCE;
    c->key_max = (ll_max)choose(seed, 4, (double[]){LL_MAX_PREFIX, LL_MAX_SEQUENCE, LL_MAX_BATCH, LL_MAX_NONE});
    if (waves && c->key_max == LL_MAX_SEQUENCE) c->query_max = LL_MAX_SEQUENCE; /* all that a case can contain */
    c->max_of_u = draw_int(seed, 0, 1);
    c->max_gradient = draw_int(seed, 0, 1) && !(c->causal && c->key_max == LL_MAX_PREFIX);
}

void draw_parts(ll_attention_config *c, int decays, uint64_t *seed) {
    const int n = oracle_features(c) / (c->position == LL_POSITION_PERMUTE2D ? 2 : 1);
    if (c->M) {
        float *w = take((size_t)(c->M * c->D), sizeof *w);
        for (int i = 0; i < c->M * c->D; i++) w[i] = (float)draw_normal(seed);
        c->projection = w;
    }
    if (c->position != LL_POSITION_NONE) {
        int32_t *pi = take((size_t)(c->H * n), sizeof *pi);
        for (int i = 0; i < c->H * n; i++) { /* inside out */
            const int a = i % n, b = draw_int(seed, 0, a);
            pi[i] = pi[i - a + b];
            pi[i - a + b] = a;
        }
        c->permutation = pi;
    }
    if (decays) {
        float *r = take((size_t)c->H, sizeof *r);
        for (int h = 0; h < c->H; h++) r[h] = h == 2 ? 1 : (float)(0.6 + 0.39 * draw_uniform(seed));
        c->decay = r;
    }
}

ll_attention_config draw_config(uint64_t *seed) {
    ll_attention_config c = {0};
    c.kernel = (ll_kernel)choose(seed, 6,
                                 (double[]){LL_KERNEL_SOFTMAX, LL_KERNEL_RELU, LL_KERNEL_RELU, LL_KERNEL_FAVOR,
                                            LL_KERNEL_FAVOR, LL_KERNEL_FAVOR});
    if (draw_int(seed, 0, 2) == 0) c.kernel = (ll_kernel)draw_int(seed, LL_KERNEL_ELU1, LL_KERNEL_SQUARE);
    c.causal = draw_int(seed, 0, 1);
    c.H = draw_int(seed, 1, 3);
    c.D = draw_int(seed, 1, 19);
    c.E = draw_int(seed, 1, 21);
    c.input_scale = (float)choose(seed, 3, (double[]){1, 0.5, 0.7});
    if (c.kernel == LL_KERNEL_SOFTMAX) return c;
    if (c.kernel == LL_KERNEL_FAVOR || draw_int(seed, 0, 1)) c.M = draw_int(seed, 2, 37);
    if (c.kernel == LL_KERNEL_FAVOR) c.features = (ll_feature_kind)choose(seed, 6, (double[]){0, 0, 0, 1, 2, 3});
    if (c.features >= LL_FEATURES_TRIGONOMETRIC) { /* so near to each other that no sum of weights is near 0 */
        c.M += 20;
        c.input_scale = 0.1f;
    }
    static const ll_position drawn_positions[] = {LL_POSITION_NONE, LL_POSITION_PERMUTE, LL_POSITION_PERMUTE2D};
    c.position = drawn_positions[draw_int(seed, 0, c.causal ? 1 : 2)];
    if (c.position == LL_POSITION_PERMUTE2D) {
        c.M += c.M % 2;
        c.D += c.M ? 0 : c.D % 2;
        c.width = draw_int(seed, 1, 5);
        c.height = draw_int(seed, 1, 6);
        c.before = draw_int(seed, 0, 2);
    }
    draw_rules(&c, seed);
    draw_parts(&c, c.causal && draw_int(seed, 0, 1), seed);
    return c;
}

void draw_config_free(ll_attention_config *c) {
    free((void *)c->projection);
    free((void *)c->permutation);
    free((void *)c->decay);
    c->projection = c->decay = NULL;
    c->permutation = NULL;
}

/* ---- Calls ---- */

/* (B, H, n, width) with NaN in the gaps between tokens, which must neither be read nor written. */
static ll_view draw_view(int B, int H, int n, int width, int token_major) {
    const size_t gap = 3, row = (size_t)width + gap;
    ll_view v = {.token = token_major ? row * (size_t)H : row, .head = token_major ? row : row * (size_t)n};
    v.batch = row * (size_t)H * (size_t)n + 5;
    v.data = take(v.batch * (size_t)B, sizeof *v.data);
    for (size_t i = 0; i < v.batch * (size_t)B; i++) v.data[i] = NAN;
    return v;
}

static float *at(const ll_view *v, int b, int h, int t) {
    return v->data + (size_t)b * v->batch + (size_t)h * v->head + (size_t)t * v->token;
}

/* Normal numbers in the view, and the same packed in double. Rows of padding: NaN for the library. */
static double *fill(drawn *d, const ll_view *v, int n, int width, double spread, uint64_t *seed) {
    double *x = take((size_t)(d->call.B * d->config.H * n * width), sizeof *x), *to = x;
    for (int b = 0; b < d->call.B; b++)
        for (int h = 0; h < d->config.H; h++)
            for (int t = 0; t < n; t++) {
                const int used = d->call.lengths && n == d->call.S ? d->call.lengths[b] : n;
                for (int e = 0; e < width; e++, to++)
                    if (t < used) *to = (double)(at(v, b, h, t)[e] = (float)(spread * draw_normal(seed)));
            }
    return x;
}

static void draw_padding(drawn *d, int how, uint64_t *seed) {
    const int B = d->call.B, S = d->call.S;
    if (how & DRAW_LENGTHS) {
        int *lengths = take((size_t)B, sizeof *lengths);
        for (int b = 0; b < B; b++) lengths[b] = b == 1 ? 0 : draw_int(seed, 1, S);
        d->call.lengths = lengths;
    }
    if (how & DRAW_MASK && d->config.kernel != LL_KERNEL_SOFTMAX) {
        float *mask = take((size_t)(B * S), sizeof *mask);
        for (int i = 0; i < B * S; i++) mask[i] = draw_uniform(seed) < 0.7;
        if (S > 1) mask[0] = 0; /* a first row without keys */
        d->call.key_mask = mask;
    }
}

drawn *drawn_create(ll_attention_config c, int B, int T, int S, double spread, int how, uint64_t *seed) {
    drawn *d = take(1, sizeof *d);
    const int major = how & DRAW_TOKEN_MAJOR;
    d->config = c;
    d->call = (ll_attention_call){.B = B, .T = T, .S = S};
    draw_padding(d, how, seed);
    d->call.q = draw_view(B, c.H, T, c.D, major);
    d->call.k = draw_view(B, c.H, S, c.D, major);
    d->call.v = draw_view(B, c.H, S, c.E, !major);
    d->call.y = draw_view(B, c.H, T, c.E, major);
    d->call.g = draw_view(B, c.H, T, c.E, major);
    d->call.dq = draw_view(B, c.H, T, c.D, !major);
    d->call.dk = draw_view(B, c.H, S, c.D, major);
    d->call.dv = draw_view(B, c.H, S, c.E, major);
    d->call.ddecay = take((size_t)c.H, sizeof(float));
    d->o = (oracle_case){.c = c, .B = B, .T = T, .S = S, .lengths = d->call.lengths, .mask = d->call.key_mask};
    d->o.q = fill(d, &d->call.q, T, c.D, spread, seed);
    d->o.k = fill(d, &d->call.k, S, c.D, spread, seed);
    d->o.v = fill(d, &d->call.v, S, c.E, 1, seed);
    d->o.g = fill(d, &d->call.g, T, c.E, 1, seed);
    d->o.r = take((size_t)c.H, sizeof(double));
    for (int h = 0; h < c.H; h++) d->o.r[h] = c.decay ? (double)c.decay[h] : 1;
    d->y = take((size_t)(B * c.H * T * c.E), sizeof(double));
    d->dq = take((size_t)(B * c.H * T * c.D), sizeof(double));
    d->dk = take((size_t)(B * c.H * S * c.D), sizeof(double));
    d->dv = take((size_t)(B * c.H * S * c.E), sizeof(double));
    d->dr = take((size_t)c.H, sizeof(double));
    d->packed = take((size_t)(B * c.H) * (size_t)(T > S ? T : S) * (size_t)(c.D > c.E ? c.D : c.E), sizeof(float));
    return d;
}

void drawn_free(drawn *d) {
    ll_view *views[] = {&d->call.q, &d->call.k,  &d->call.v,  &d->call.y,
                        &d->call.g, &d->call.dq, &d->call.dk, &d->call.dv};
    double *doubles[] = {d->o.q, d->o.k, d->o.v, d->o.g, d->o.r, d->y, d->dq, d->dk, d->dv, d->dr};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) free(views[i]->data);
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) free(doubles[i]);
    free((void *)d->call.lengths);
    free((void *)d->call.key_mask);
    free(d->call.ddecay);
    free(d->packed);
    draw_config_free(&d->config);
    free(d);
}

void drawn_solve(drawn *d, int backward) {
    oracle_forward(&d->o, NULL, NULL, d->y);
    if (backward) oracle_backward(&d->o, d->dq, d->dk, d->dv, d->dr);
}

const float *drawn_packed(drawn *d, const ll_view *view, int n, int width) {
    float *to = d->packed;
    for (int b = 0; b < d->call.B; b++)
        for (int h = 0; h < d->config.H; h++)
            for (int t = 0; t < n; t++, to += width) memcpy(to, at(view, b, h, t), (size_t)width * sizeof *to);
    return d->packed;
}

const char *drawn_name(const drawn *d) {
    static char text[400];
    static const char *kernel[] = {"softmax", "favor", "relu",  "elu1",     "exp",    "sigmoid",
                                   "abs",     "gelu",  "cos",   "tanh",     "identity", "square",
                                   "value",   "local", "linformer", "nystrom", "reformer"};
    static const char *kind[] = {"", " hyp", " trig", " gauss"};
    const ll_attention_config *c = &d->config;
    const char *place = c->position == LL_POSITION_PERMUTE     ? " permute"
                        : c->position == LL_POSITION_PERMUTE2D ? " permute2d"
                                                               : "";
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s B%d H%d T%d S%d D%d E%d M%d scale %g eps %g max q%d k%d%s%s den %d %g",
             kernel[c->kernel], kind[c->features], place, c->decay ? " decay" : "", c->causal ? " causal" : "",
             d->call.lengths ? " lengths" : "", d->call.key_mask ? " mask" : "", d->call.B, c->H, d->call.T, d->call.S,
             c->D, c->E, c->M, (double)c->input_scale, (double)c->feature_eps, c->query_max, c->key_max,
             c->max_of_u ? " of u" : "", c->max_gradient ? " differentiated" : "", c->den, (double)c->den_eps);
    return text;
}

static double largest(size_t n, const double *x) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

/* max|a - b| / max(max|b|, floor), infinite where a is not finite. */
static double error_of(size_t n, const float *a, const double *b, double floor) {
    double worst = 0;
    const double scale = fmax(largest(n, b), floor);
    for (size_t i = 0; i < n; i++) {
        const double e = isfinite(a[i]) ? fabs((double)a[i] - b[i]) : INFINITY;
        if (e > worst) worst = e;
    }
    return worst > 0 ? worst / scale : 0;
}

double drawn_error(drawn *d, const char *tensor) {
    const ll_attention_call *c = &d->call;
    const size_t heads = (size_t)(c->B * d->config.H), E = (size_t)d->config.E, D = (size_t)d->config.D;
    const size_t queries = heads * (size_t)c->T, keys = heads * (size_t)c->S;
    /* gradients that cancel, as of a single token's weights, have the rounding of the others' size */
    const double floor = largest(keys * E, d->dv);
    if (!strcmp(tensor, "y")) return error_of(queries * E, drawn_packed(d, &c->y, c->T, (int)E), d->y, 0);
    if (!strcmp(tensor, "dq")) return error_of(queries * D, drawn_packed(d, &c->dq, c->T, (int)D), d->dq, floor);
    if (!strcmp(tensor, "dk")) return error_of(keys * D, drawn_packed(d, &c->dk, c->S, (int)D), d->dk, floor);
    if (!strcmp(tensor, "dv")) return error_of(keys * E, drawn_packed(d, &c->dv, c->S, (int)E), d->dv, floor);
    if (!d->config.decay) return 0;
    for (int h = 0; h < d->config.H; h++) d->packed[h] = c->ddecay[h] - (float)d->dr[h];
    return error_of((size_t)d->config.H, d->packed, d->dr, floor);
}

void drawn_check(drawn *d, const char *what, int backward, double y_tolerance, double gradient_tolerance) {
    static const char *tensors[] = {"y", "dq", "dk", "dv", "dr"};
    for (int i = 0; i < (backward ? 5 : 1); i++) {
        const double error = drawn_error(d, tensors[i]), tolerance = i ? gradient_tolerance : y_tolerance;
        if (!(error <= tolerance))
            fail_msg("%s: %s is wrong by %.3g, allowed %.3g: %s", what, tensors[i], error, tolerance, drawn_name(d));
    }
}
