/* Noise and gates of stochastic positional encodings. A number of noise is a function of (seed, layer, head, number),
 * so that the noise of any position can be drawn by itself. */
#include "attention/position/spe.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"

double ll_sigmoid(double x) {
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

ll_gate ll_gate_at(const ll_premap *b, int head, int feature) {
    const double unit = pow((double)b->R * b->c.D, -0.25);
    if (!b->c.encoding.gate) return (ll_gate){.code = unit};
    const double d = ll_sigmoid((double)b->c.encoding.gate[(size_t)head * (size_t)b->c.D + (size_t)feature]);
    const double code = sqrt(1 - d), noise = sqrt(d);
    return (ll_gate){unit * code, unit * noise, -unit * d * code / 2, unit * noise * (1 - d) / 2};
}

ll_status ll_spe_check(const ll_attention_config *c, const char *name) {
    if (c->encoding.realizations < 1 || c->encoding.realizations > 1 << 16)
        return ll_fail(LL_EINVAL, "attention: %s needs 1 to 65536 realizations, got %d", name,
                       c->encoding.realizations);
    return LL_OK;
}

int ll_spe_width(const ll_attention_config *c) {
    return c->encoding.realizations;
}

ll_parameter ll_spe_gate_parameter(const ll_attention_config *c) {
    return (ll_parameter){LL_POSITION_PARAMETER(gate), .rank = 2, .lead = 2, .shape = {c->H, c->D}};
}

void ll_spe_noise(const ll_premap *b, int head, int gate, float *to, size_t n, uint64_t first) {
    enum { WORDS = 256 };
    const uint32_t which = (uint32_t)head * 2 + (uint32_t)gate;
    const uint64_t stream = ll_stream_id(LL_RANDOM_NOISE, (uint32_t)b->c.encoding.layer, which), end = first + n;
    const ll_kernels *k = ll_kernel_table();
    uint32_t word[WORDS];
    float x[WORDS];
    for (uint64_t at = first / 4 * 4; at < end; at += WORDS) {
        const size_t left = (size_t)(end - at), all = ll_min_size(left, WORDS);
        const size_t skip = at < first ? (size_t)(first - at) : 0;
        k->random_words((all + 3) / 4, b->c.encoding.seed, stream, at / 4, word);
        k->normals((all + 1) / 2 * 2, word, x);
        memcpy(to, x + skip, (all - skip) * sizeof *to);
        to += all - skip;
    }
}

void ll_spe_gate_draw(ll_premap *b) {
    const size_t n = (size_t)b->c.D * (size_t)b->R;
    const ll_spe_draws *own = b->own;
    for (int h = 0; own->gate_noise && h < b->c.H; h++) ll_spe_noise(b, h, 1, own->gate_noise + (size_t)h * n, n, 0);
}

ll_status ll_spe_create(ll_premap *b) {
    const size_t n = (size_t)b->c.H * (size_t)b->c.D * (size_t)b->R;
    ll_spe_draws *own = b->own = ll_alloc(1, sizeof *own);
    if (!own) return LL_ENOMEM;
    if (!b->c.encoding.gate) return LL_OK;
    own->gate_noise = ll_alloc(n, sizeof *own->gate_noise);
    if (!own->gate_noise) return LL_ENOMEM;
    if (b->c.encoding.gate_noise) {
        memcpy(own->gate_noise, b->c.encoding.gate_noise, n * sizeof *own->gate_noise);
    } else {
        ll_spe_gate_draw(b);
    }
    return LL_OK;
}

void ll_spe_free(void *own) {
    ll_spe_draws *draws = own;
    ll_free(draws->noise);
    ll_free(draws->gate_noise);
    ll_free(draws);
}
