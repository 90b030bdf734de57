/* The position's part of a case: parameters, noise in the layout that released programs draw it in, coordinates. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/constant.h"
#include "case/case.h"
#include "base/memory.h"

void ll_case_position_free(ll_case *a) {
    for (int i = 0; i < a->parameters; i++) {
        ll_free(a->parameter[i].data);
        ll_free(a->parameter[i].gradient);
    }
    ll_free(a->theta);
    ll_free(a->basis);
    ll_free(a->noise);
    ll_free(a->gate_noise);
    ll_free(a->rotations);
}

size_t ll_case_width(const ll_case *a) { return (size_t)ll_attention_width(&a->c); }

ll_status ll_case_parameter_read(ll_case *a, const char *name, int rank, const size_t *shape, const float **data,
                                 float **gradient) {
    ll_case_parameter *p = &a->parameter[a->parameters++];
    size_t count = 1, there = 0;
    p->name = name;
    p->rank = rank;
    for (int i = 0; i < rank; i++) count *= p->shape[i] = shape[i];
    ll_status status = ll_case_axis(a, name, rank, 0, &there);
    if (!status) status = ll_case_tensor(a, name, rank, shape, &p->data);
    if (status) return status;
    p->gradient = ll_alloc(count, sizeof *p->gradient);
    *data = p->data;
    *gradient = p->gradient;
    return p->gradient ? LL_OK : LL_ENOMEM;
}

/* ---- Permutations and rotations ---- */

static ll_status read_permutation(ll_case *a) {
    const size_t H = (size_t)a->c.H, n = (size_t)ll_constant_named(&a->c, "permutation").cols;
    float *numbers = NULL;
    if (!ll_safetensors_find(a->file, "perm")) return ll_fail(LL_EFORMAT, "tensor 'perm' is missing");
    ll_status status = ll_case_tensor(a, "perm", 2, (size_t[]){H, n}, &numbers);
    if (!status) a->permutation = ll_alloc(H * n, sizeof *a->permutation);
    if (!status && !a->permutation) status = LL_ENOMEM;
    for (size_t i = 0; i < H * n && !status; i++) {
        if (numbers[i] < 0 || numbers[i] >= (float)n || numbers[i] != floorf(numbers[i]))
            status = ll_fail(LL_EFORMAT, "tensor 'perm' holds %g, must be whole numbers from 0 to %zu",
                             (double)numbers[i], n - 1);
        else
            a->permutation[i] = (int32_t)numbers[i];
    }
    ll_free(numbers);
    return status;
}

/* Tokens stand in the order of rows: `prefix` of them at the first pixel, the image, `postfix` at the last. */
static ll_status read_image(ll_case *a) {
    int width = 0, height = 0, prefix = 0, postfix = 0;
    float *position[2] = {NULL, NULL};
    ll_status status = ll_case_integer(a, "width", NAN, LL_CASE_AXIS, &width);
    if (!status) status = ll_case_integer(a, "height", NAN, LL_CASE_AXIS, &height);
    if (!status) status = ll_case_integer(a, "prefix", 0, LL_CASE_AXIS, &prefix);
    if (!status) status = ll_case_integer(a, "postfix", 0, LL_CASE_AXIS, &postfix);
    const int64_t pixels = (int64_t)width * height;
    if (!status && (pixels == 0 || prefix + pixels + postfix != (int64_t)a->L))
        status = ll_fail(LL_EFORMAT, "%d tokens, an image of %d x %d and %d tokens are not %zu tokens", prefix, width,
                         height, postfix, a->L);
    if (!status) status = ll_case_tensor(a, "x", 1, &a->L, &position[0]);
    if (!status) status = ll_case_tensor(a, "y_pos", 1, &a->L, &position[1]);
    for (size_t t = 0; t < a->L && !status; t++) {
        const int64_t p = (int64_t)t - prefix, at = p < 0 ? 0 : p < pixels ? p : pixels - 1;
        const float expected[2] = {(float)(at % width), (float)(at / width)};
        for (int i = 0; i < 2 && !status; i++)
            if (position[i] && position[i][t] != expected[i])
                status = ll_fail(LL_EINVAL, "tensor '%s' places token %zu at %g; images are read in rows, at %g",
                                 i ? "y_pos" : "x", t, (double)position[i][t], (double)expected[i]);
    }
    ll_free(position[0]);
    ll_free(position[1]);
    a->c.width = width;
    a->c.height = height;
    a->c.before = prefix;
    return status;
}

static ll_status read_theta(ll_case *a) {
    const size_t n = (size_t)(a->c.position == LL_POSITION_ROPE ? a->c.D : ll_feature_count(&a->c)) / 2;
    const ll_status status = ll_case_tensor(a, "theta", 1, &n, &a->theta);
    a->c.encoding.theta = a->theta;
    return status;
}

static ll_status read_rotation(ll_case *a) {
    const size_t H = (size_t)a->c.H, m = (size_t)ll_feature_count(&a->c);
    ll_status status = ll_case_tensor(a, "theta", 2, (size_t[]){H, m / 2}, &a->theta);
    if (!status) status = ll_case_tensor(a, "basis", 3, (size_t[]){H, m, m}, &a->basis);
    a->c.encoding.theta = a->theta;
    a->c.encoding.basis = a->basis;
    return status;
}

/* ---- Stochastic encodings ---- */

static ll_status read_gate(ll_case *a) {
    const size_t H = (size_t)a->c.H, D = (size_t)a->c.D, R = (size_t)a->c.encoding.realizations;
    int gated = 0;
    size_t there = 0;
    ll_status status = ll_case_integer(a, "gated", 0, 1, &gated);
    if (status || !gated) return status;
    status = ll_case_parameter_read(a, "gate", 2, (size_t[]){H, D}, &a->c.encoding.gate, &a->dposition.gate);
    if (!status) status = ll_case_axis(a, "gate_noise", 3, 0, &there);
    if (!status) status = ll_case_tensor(a, "gate_noise", 3, (size_t[]){H, D, R}, &a->gate_noise);
    a->c.encoding.gate_noise = a->gate_noise;
    return status;
}

static ll_status read_realizations(ll_case *a) {
    return ll_case_integer(a, "R", NAN, 1 << 16, &a->c.encoding.realizations);
}

static ll_status read_sines(ll_case *a) {
    ll_position_config *w = &a->c.encoding;
    size_t K = 0, there = 0;
    ll_status status = read_realizations(a);
    const size_t H = (size_t)a->c.H, D = (size_t)a->c.D, R = (size_t)w->realizations;
    if (!status) status = ll_case_axis(a, "freqs", 3, 2, &K);
    const size_t shape[] = {H, D, K};
    w->sines = (int)K;
    if (!status) status = ll_case_parameter_read(a, "freqs", 3, shape, &w->freqs, &a->dposition.freqs);
    if (!status) status = ll_case_parameter_read(a, "offsets", 3, shape, &w->offsets, &a->dposition.offsets);
    if (!status) status = ll_case_parameter_read(a, "gains", 3, shape, &w->gains, &a->dposition.gains);
    if (!status) status = ll_case_axis(a, "z", 4, 0, &there);
    if (!status) status = ll_case_tensor(a, "z", 4, (size_t[]){H, D, 2 * K, R}, &a->noise);
    w->noise = a->noise;
    return status ? status : read_gate(a);
}

/* (R, H, D, rows, cols) as drawn becomes (H, D, rows - P1, cols - P2, R): the rows in front are never used. */
static ll_status reorder_noise(ll_case *a, const float *drawn, size_t rows, size_t cols, size_t P1, size_t P2) {
    const size_t HD = (size_t)a->c.H * (size_t)a->c.D, R = (size_t)a->c.encoding.realizations;
    float *to = a->noise = ll_alloc(HD * (rows - P1) * (cols - P2) * R, sizeof *to);
    if (!to) return LL_ENOMEM;
    for (size_t hd = 0; hd < HD; hd++)
        for (size_t y = P1; y < rows; y++)
            for (size_t x = P2; x < cols; x++)
                for (size_t r = 0; r < R; r++) *to++ = drawn[((r * HD + hd) * rows + y) * cols + x];
    a->c.encoding.noise = a->noise;
    a->c.encoding.noise_rows = (int)(rows - P1);
    a->c.encoding.noise_cols = (int)(cols - P2);
    return LL_OK;
}

static ll_status read_grid(ll_case *a) {
    const char *grid = ll_safetensors_meta(a->file, "grid");
    char rest = 0;
    if (!grid) return LL_OK;
    if (sscanf(grid, "%5dx%5d%c", &a->c.height, &a->c.width, &rest) != 2 || a->c.height < 1 || a->c.width < 1 ||
        (size_t)a->c.height * (size_t)a->c.width != a->L)
        return ll_fail(LL_EFORMAT, "metadata 'grid' is \"%.40s\", must be ROWSxCOLUMNS of %zu tokens", grid, a->L);
    return LL_OK;
}

static ll_status read_filters(ll_case *a) {
    ll_position_config *w = &a->c.encoding;
    size_t P1 = 1, P2 = 0, rows = 1, cols = 1;
    ll_status status = read_realizations(a);
    const size_t H = (size_t)a->c.H, D = (size_t)a->c.D, R = (size_t)w->realizations;
    if (!status) status = read_grid(a);
    const int rank = a->c.width ? 4 : 3;
    if (!status) status = ll_case_axis(a, "filter_q", rank, 2, &P1);
    if (!status && rank == 4) status = ll_case_axis(a, "filter_q", rank, 3, &P2);
    if (!status) status = ll_case_axis(a, "noise", rank + 1, 3, &rows);
    if (!status && rank == 4) status = ll_case_axis(a, "noise", rank + 1, 4, &cols);
    if (status) return status;
    const size_t shape[] = {H, D, P1, P2};
    const size_t length = rank == 4 ? (size_t)a->c.height : a->L, across = (size_t)a->c.width;
    if (rows + 1 < length + 2 * P1 || (rank == 4 && cols + 1 < across + 2 * P2))
        return ll_fail(LL_EFORMAT, "tensor 'noise' has %zu x %zu rows, too few for the tokens and the filter", rows,
                       cols);
    w->taps = (int)P1;
    w->taps2 = (int)P2;
    status = ll_case_parameter_read(a, "filter_q", rank, shape, &w->filter_q, &a->dposition.filter_q);
    if (!status) status = ll_case_parameter_read(a, "filter_k", rank, shape, &w->filter_k, &a->dposition.filter_k);
    float *drawn = NULL;
    if (!status) status = ll_case_tensor(a, "noise", rank + 1, (size_t[]){R, H, D, rows, cols}, &drawn);
    if (!status) status = reorder_noise(a, drawn, rows, cols, P1, P2);
    ll_free(drawn);
    return status ? status : read_gate(a);
}

/* ---- Relative S1 ---- */

/* Tokens without a position come first; the others count, or are the pixels of an image in rows. */
static ll_status check_positions(ll_case *a, const float *position, const float *with) {
    const size_t axes = (size_t)a->c.encoding.axes;
    size_t before = 0;
    float last = 0;
    while (with && before < a->L && with[before] == 0) before++;
    for (size_t t = before; t < a->L && axes == 2; t++) last = fmaxf(last, position[2 * t + 1]);
    if (last < 0 || last >= LL_CASE_AXIS) return ll_fail(LL_EFORMAT, "tensor 'positions' holds %g", (double)last);
    const size_t W = (size_t)last + 1;
    a->c.before = (int)before;
    a->c.width = (int)W;
    a->c.height = (int)((a->L - before + W - 1) / W);
    if (a->c.height < 1) a->c.height = 1;
    for (size_t t = before; t < a->L; t++) {
        const size_t p = t - before;
        const int there = !with || with[t] == 1;
        const int right = axes == 1 ? position[t] == (float)p
                                    : position[2 * t] == (float)(p / W) && position[2 * t + 1] == (float)(p % W);
        if (!there || !right)
            return ll_fail(LL_EINVAL,
                           "token %zu: positions count up, images are read in rows, tokens without a "
                           "position come first; 'positions' and 'position_used' say otherwise",
                           t);
    }
    return LL_OK;
}

static ll_status read_s1(ll_case *a) {
    ll_position_config *w = &a->c.encoding;
    const size_t H = (size_t)a->c.H;
    size_t scales = 0, axes = 0;
    float *position = NULL, *with = NULL;
    ll_status status = ll_case_axis(a, "inv_freq", 1, 0, &scales);
    if (!status) status = ll_case_axis(a, "positions", 2, 1, &axes);
    if (!status && (axes > 2 || scales > 4096))
        status = ll_fail(LL_EFORMAT, "%zu axes and %zu frequencies: at most 2 and 4096", axes, scales);
    if (status) return status;
    w->scales = (int)scales;
    w->axes = (int)axes;
    const size_t pairs[] = {H, scales * axes};
    status = ll_case_parameter_read(a, "inv_freq", 1, &scales, &w->inv_freq, &a->dposition.inv_freq);
    if (!status) status = ll_case_parameter_read(a, "alpha", 2, pairs, &w->alpha, &a->dposition.alpha);
    if (!status) status = ll_case_parameter_read(a, "beta", 2, pairs, &w->beta, &a->dposition.beta);
    if (!status) status = ll_case_tensor(a, "positions", 2, (size_t[]){a->L, axes}, &position);
    if (!status) status = ll_case_tensor(a, "position_used", 1, &a->L, &with);
    if (!status) status = check_positions(a, position, with);
    ll_free(position);
    ll_free(with);
    return status;
}

/* ---- Relative S2 ---- */

/* An image has s2_side rows of as many pixels, or width and height. Other tokens are class tokens. */
static ll_status read_layout(ll_case *a) {
    const char *layout = ll_safetensors_meta(a->file, "s2_layout");
    const int square = ll_safetensors_meta(a->file, "s2_side") != NULL;
    a->c.encoding.axes = 1 + (layout && !strcmp(layout, "2d"));
    if (!layout || (a->c.encoding.axes == 1 && strcmp(layout, "1d")))
        return ll_fail(LL_EFORMAT, "metadata 's2_layout' is %.40s, must be 1d or 2d", layout ? layout : "missing");
    ll_status status = ll_case_integer(a, "prefix", 0, LL_CASE_AXIS, &a->c.before);
    if (status || a->c.encoding.axes == 1) return status;
    status = ll_case_integer(a, square ? "s2_side" : "width", NAN, 1 << 15, &a->c.width);
    if (!status) status = ll_case_integer(a, square ? "s2_side" : "height", NAN, 1 << 15, &a->c.height);
    return status;
}

static ll_status read_s2(ll_case *a) {
    size_t rows = 0;
    int clip = 0;
    if (a->keyed >= a->c.H)
        return ll_fail(LL_EFORMAT, "tensor 'k' has %d heads of %d: relative-s2 is about heads without keys", a->keyed,
                       a->c.H);
    a->c.encoding.keyless = a->c.H - a->keyed;
    ll_status status = ll_case_integer(a, "clip", NAN, 255, &clip);
    if (!status) status = ll_case_axis(a, "rpe", 2, 0, &rows);
    if (!status) status = read_layout(a);
    a->c.encoding.clip = clip;
    if (status) return status;
    return ll_case_parameter_read(a, "rpe", 2, (size_t[]){(size_t)clip + 1, (size_t)a->c.D}, &a->c.encoding.rpe,
                                  &a->dposition.rpe);
}

/* ---- In the logits ---- */

static ll_status read_bias(ll_case *a) {
    const size_t shape[] = {(size_t)a->c.H, 32};
    return ll_case_parameter_read(a, "bias", 2, shape, &a->c.encoding.bias, &a->dposition.bias);
}

static ll_status read_shaw(ll_case *a) {
    ll_position_config *w = &a->c.encoding;
    ll_status status = ll_case_integer(a, "clip", NAN, 255, &w->clip);
    const size_t n = (size_t)w->clip * (a->c.causal ? 1 : 2) + 1, keys[] = {n, (size_t)a->c.D},
                 values[] = {n, (size_t)a->c.E};
    if (!status && ll_safetensors_find(a->file, "distance_k"))
        status = ll_case_parameter_read(a, "distance_k", 2, keys, &w->distance_k, &a->dposition.distance_k);
    if (!status && ll_safetensors_find(a->file, "distance_v"))
        status = ll_case_parameter_read(a, "distance_v", 2, values, &w->distance_v, &a->dposition.distance_v);
    return status;
}

/* ---- The list ---- */

static ll_status read_permutation2d(ll_case *a) {
    const ll_status status = read_permutation(a);
    return status ? status : read_image(a);
}

/* How a file has each position: in the layout of the released programs. Draws are those tensors that do not train. */
static const struct {
    ll_position position;
    ll_status (*read)(ll_case *a);
    const char *draws[3];
} layouts[] = {{LL_POSITION_PERMUTE, read_permutation, {"perm"}},
               {LL_POSITION_PERMUTE2D, read_permutation2d, {"perm", "x", "y_pos"}},
               {LL_POSITION_ROPE, read_theta, {"theta"}},
               {LL_POSITION_ROPE_LINEAR, read_theta, {"theta"}},
               {LL_POSITION_SINE_SPE, read_sines, {"z", "gate_noise"}},
               {LL_POSITION_CONV_SPE, read_filters, {"noise", "gate_noise"}},
               {LL_POSITION_RELATIVE_S1, read_s1, {"positions", "position_used"}},
               {LL_POSITION_RELATIVE_S2, read_s2, {NULL}},
               {LL_POSITION_T5, read_bias, {NULL}},
               {LL_POSITION_SHAW, read_shaw, {NULL}},
               {LL_POSITION_ORTHOGONAL, read_rotation, {"theta", "basis"}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static int layout_of(const ll_case *a) {
    int i = 0;
    while (i < LAYOUTS && layouts[i].position != a->c.position) i++;
    return i;
}

int ll_case_position_reads(const ll_case *a, const char *name) {
    const int at = layout_of(a);
    for (int i = 0; at < LAYOUTS && i < 3 && layouts[at].draws[i]; i++)
        if (!strcmp(layouts[at].draws[i], name)) return 1;
    ll_parameter list[LL_PARAMETERS];
    for (int i = ll_position_parameters(&a->c, list); i-- > 0;)
        if (!strcmp(list[i].name, name)) return 1;
    return 0;
}

ll_status ll_case_position(ll_case *a) {
    const int at = layout_of(a);
    if (a->c.position == LL_POSITION_NONE) return LL_OK;
    return at < LAYOUTS ? layouts[at].read(a)
                        : ll_fail(LL_EINVAL, "there is no layout of position %s in files", a->position);
}
