/* Conclusions from the rows, one key=value a line; and all results as JSON, for programs. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

static const char *const FORMS[] = {"bidir/fwd", "bidir/fwdbwd", "causal/fwd", "causal/fwdbwd"};

/* Time for each token at the greatest length divided by that at 4096. */
static void flatness(const ll_bench *b, const char *group) {
    const ll_bench_row *last = NULL, *base = ll_bench_find(b, "%s/4096", group);
    int greatest = 4096;
    for (int i = 0; i < b->rows; i++)
        if (ll_bench_length(&b->row[i], group) > greatest) last = &b->row[i], greatest = ll_bench_length(last, group);
    if (base && last)
        printf("bench.flat.%s=%.3f\n", group, last->seconds / last->tokens / (base->seconds / base->tokens));
}

/* Median of the ratio of the times of `other` and `base` in the same turn. */
static double longer(const ll_bench_row *other, const ll_bench_row *base) {
    double ratio[LL_BENCH_REPEATS];
    const int n = other->repeats < base->repeats ? other->repeats : base->repeats;
    for (int i = 0; i < n; i++) ratio[i] = other->time[i] / base->time[i];
    return ll_median(ratio, n);
}

/* The time that permute adds at each length, and in the mean. kind: "", or "-random" for random permutations. */
static void overhead(const ll_bench *b, const char *kernel, const char *kind, const char *form) {
    char plain[64], permuted[64], name[64];
    double sum = 0;
    int n = 0;
    snprintf(plain, sizeof plain, "attention/%s/%s", kernel, form);
    snprintf(permuted, sizeof permuted, "attention/%s+permute%s/%s", kernel, kind, form);
    snprintf(name, sizeof name, "bench.permute_adds.%s%s.%s", kernel, kind, form);
    for (int i = 0; i < b->rows; i++) {
        const int T = ll_bench_length(&b->row[i], plain);
        const ll_bench_row *other = T ? ll_bench_find(b, "%s/%d", permuted, T) : NULL;
        if (!other) continue;
        const double ratio = longer(other, &b->row[i]);
        printf("%s/%d=%.1f%%\n", name, T, 100 * (ratio - 1));
        sum += log(ratio), n++;
    }
    if (n) printf("%s=%.1f%%\n", name, 100 * expm1(sum / n));
}

/* The length at which row A/... becomes slower than row B/... (both with a length at the end), between the lengths
 * measured; NaN if it does not, 0 if it always is. */
static double crossing_length(const ll_bench *b, const char *slow, const char *fast) {
    double before = NAN, at = NAN, crossing = NAN;
    for (int T = 0; (T = ll_bench_next_length(b, slow, T));) {
        const ll_bench_row *s = ll_bench_find(b, "%s/%d", slow, T), *f = ll_bench_find(b, "%s/%d", fast, T);
        if (!s || !f) continue;
        const double ratio = log((s->seconds / s->tokens) / (f->seconds / f->tokens));
        if (ratio >= 0 && isnan(before)) return 0;
        if (ratio >= 0 && before < 0) crossing = exp(at + (log(T) - at) * before / (before - ratio));
        before = ratio;
        at = log(T);
    }
    return crossing;
}

static void crossing(const ll_bench *b, const char *what, const char *slow, const char *fast) {
    const double T = crossing_length(b, slow, fast);
    if (T > 0) printf("bench.crossing.%s=%.0f\n", what, T);
    if (T == 0) printf("bench.crossing.%s=below what was measured\n", what);
}

/* Tokens/s divided by those of softmax in the same model. */
static void speedup(const ll_bench *b, const char *model, const char *system) {
    const ll_bench_row *r = ll_bench_find(b, "train/%s/%s", model, system);
    const ll_bench_row *s = ll_bench_find(b, "train/%s/softmax", model);
    if (r && s && r != s) printf("bench.speedup.%s.%s=%.2f\n", model, system, s->seconds / r->seconds);
}

/* Tokens/s with products of bfloat16 divided by those of float. */
static void halving(const ll_bench *b, const char *model, const char *system) {
    const ll_bench_row *r = ll_bench_find(b, "train/%s/%s", model, system);
    const ll_bench_row *bf16 = ll_bench_find(b, "train/%s/%s/bf16", model, system);
    if (r && bf16) printf("bench.bf16.%s.%s=%.2f\n", model, system, r->seconds / bf16->seconds);
}

/* Time a token, and size of the state, at the last position divided by those at the first. */
static void lateness(const ll_bench *b, const char *model, const char *system) {
    char group[64];
    const ll_bench_row *early = NULL, *late = NULL;
    snprintf(group, sizeof group, "generate/%s/%s", model, system);
    for (int i = 0; i < b->rows; i++) {
        if (!ll_bench_length(&b->row[i], group)) continue;
        if (!early) early = &b->row[i];
        late = &b->row[i];
    }
    if (early == late) return;
    printf("bench.late_token.%s.%s=%.3f\n", model, system, late->seconds / early->seconds);
    if (early->bytes > 0) printf("bench.late_state.%s.%s=%.3f\n", model, system, late->bytes / early->bytes);
}

void ll_bench_summary(const ll_bench *b) {
    static const char *const kernels[] = {"favor", "relu", "favor+permute", "relu+permute", "relu+permute+decay"};
    char group[64];
    printf("bench.peak_gflops=%.1f\n", 1e-9 * b->peak);
    printf("bench.peak_gflops_1_thread=%.1f\n", 1e-9 * b->peak_one);
    if (b->copy > 0) printf("bench.copy_gb_per_s=%.1f\n", 1e-9 * b->copy);
    if (b->read > 0) printf("bench.read_gb_per_s=%.1f\n", 1e-9 * b->read);
    for (int k = 0; k < 5; k++)
        for (int f = 0; f < 4; f++) {
            snprintf(group, sizeof group, "attention/%s/%s", kernels[k], FORMS[f]);
            flatness(b, group);
        }
    for (int k = 0; k < 2; k++)
        for (int f = 0; f < 4; f++) {
            overhead(b, kernels[k], "", FORMS[f]);
            overhead(b, kernels[k], "-random", FORMS[f]);
        }
    crossing(b, "attention.favor", "attention/softmax/causal/fwdbwd", "attention/favor/causal/fwdbwd");
    crossing(b, "attention.relu+permute", "attention/softmax/causal/fwdbwd", "attention/relu+permute/causal/fwdbwd");
    crossing(b, "train.favor", "train/layer/softmax", "train/layer/favor");
    crossing(b, "train.relu+permute+decay", "train/layer/softmax", "train/layer/relu+permute+decay");
    for (const ll_bench_model *m = ll_bench_model_list; m->name; m++)
        for (const ll_bench_system *s = ll_bench_system_list; s->name; s++) {
            speedup(b, m->name, s->name);
            halving(b, m->name, s->name);
            lateness(b, m->name, s->name);
        }
}

/* ---- JSON ---- */

/* The processor's name from the system, without characters that JSON needs to escape. */
static void processor(char *out, size_t size) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(out, size, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        snprintf(out, size, "%.*s", (int)strcspn(colon + 1, "\n"), colon + 1 + (colon[1] == ' '));
        break;
    }
    for (char *p = out; *p; p++)
        if (*p == '"' || *p == '\\' || *p < ' ') *p = ' ';
    if (file) fclose(file);
}

static void write_rows(FILE *file, const ll_bench *b) {
    for (int i = 0; i < b->rows; i++) {
        const ll_bench_row *r = &b->row[i];
        fprintf(file, "    {\"case\": \"%s\", \"ms\": %.6g, \"tokens_per_s\": %.6g, ", r->name, 1e3 * r->seconds,
                r->tokens / r->seconds);
        if (r->flops > 0)
            fprintf(file, "\"needed_gflops\": %.6g, \"fraction_of_peak\": %.4g, ", 1e-9 * r->flops,
                    r->flops / r->seconds / b->peak);
        fprintf(file, "\"rss_mib\": %.6g, \"runs\": %d}%s\n", r->bytes / 1048576, r->repeats,
                i + 1 < b->rows ? "," : "");
    }
}

int ll_bench_json(const ll_bench *b, const char *path) {
    char cpu[128];
    ll_output output;
    FILE *file = ll_output_begin(&output, path);
    if (!file) return 1;
    processor(cpu, sizeof cpu);
    fprintf(file, "{\n  \"longline\": \"%s\", \"cpu\": \"%s\", \"tier\": \"%s\", \"threads\": %d,\n", ll_version(), cpu,
            ll_cpu(), ll_threads());
    fprintf(file, "  \"peak_gflops\": %.2f, \"peak_gflops_1_thread\": %.2f, ", 1e-9 * b->peak, 1e-9 * b->peak_one);
    if (b->copy > 0) fprintf(file, "\"copy_gb_per_s\": %.2f, ", 1e-9 * b->copy);
    if (b->read > 0) fprintf(file, "\"read_gb_per_s\": %.2f, ", 1e-9 * b->read);
    fprintf(file, "\n  \"rows\": [\n");
    write_rows(file, b);
    fprintf(file, "  ]\n}\n");
    return ll_output_end(&output) < 0 ? 0 : 1;
}
