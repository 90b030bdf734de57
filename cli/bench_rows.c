/* What was measured, for people (a table, and a few conclusions) and for programs (JSON). */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static void grouped(char *out, double x) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.0f", x);
    const size_t n = strlen(digits);
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
}

void ll_bench_table(const ll_bench *b, int from) {
    int width = 4;
    for (int i = from; i < b->rows; i++) width = (int)fmax(width, (double)strlen(b->row[i].name));
    if (from == b->rows) return;
    printf("%-*s %11s %12s %9s %8s %9s %5s\n", width, "case", "ms", "tokens/s", "GFLOP", "of peak", "MiB", "runs");
    for (int i = from; i < b->rows; i++) {
        const ll_bench_row *r = &b->row[i];
        char rate[48];
        grouped(rate, r->tokens / r->seconds);
        printf("%-*s %11.*f %12s ", width, r->name, r->seconds < 1e-3 ? 4 : 2, 1e3 * r->seconds, rate);
        if (r->flops > 0)
            printf("%9.2f %6.0f %% ", 1e-9 * r->flops, 100 * r->flops / r->seconds / b->peak);
        else
            printf("%9s %8s ", "", "");
        printf("%9.*f %5d\n", r->bytes < 1e7 ? 2 : 0, r->bytes / 1048576, r->repeats);
    }
    printf("\n");
    fflush(stdout);
}

/* ---- Conclusions ---- */

static const char *const FORMS[] = {"bidir/fwd", "bidir/fwdbwd", "causal/fwd", "causal/fwdbwd"};

/* The length at the end of a row's name, if it is of this group; else 0. */
static int length_in(const ll_bench_row *r, const char *group) {
    const size_t n = strlen(group);
    return !strncmp(r->name, group, n) && r->name[n] == '/' && !strchr(r->name + n + 1, '/') ? atoi(r->name + n + 1)
                                                                                             : 0;
}

/* Time a token at the greatest length over that at 4096. */
static void flatness(const ll_bench *b, const char *group) {
    const ll_bench_row *last = NULL, *base = ll_bench_find(b, "%s/4096", group);
    int greatest = 4096;
    for (int i = 0; i < b->rows; i++)
        if (length_in(&b->row[i], group) > greatest) last = &b->row[i], greatest = length_in(last, group);
    if (base && last)
        printf("bench.flat.%s=%.3f\n", group, last->seconds / last->tokens / (base->seconds / base->tokens));
}

/* What permute adds, over all lengths: the ratio of the geometric means. */
static void overhead(const ll_bench *b, const char *kernel, const char *form) {
    char plain[64], permuted[64];
    double sum = 0;
    int n = 0;
    snprintf(plain, sizeof plain, "attention/%s/%s", kernel, form);
    snprintf(permuted, sizeof permuted, "attention/%s+permute/%s", kernel, form);
    for (int i = 0; i < b->rows; i++) {
        const int T = length_in(&b->row[i], plain);
        const ll_bench_row *other = T ? ll_bench_find(b, "%s/%d", permuted, T) : NULL;
        if (other) sum += log(other->seconds / b->row[i].seconds), n++;
    }
    if (n) printf("bench.permute_adds.%s.%s=%.1f%%\n", kernel, form, 100 * expm1(sum / n));
}

double ll_bench_crossing(const ll_bench *b, const char *slow, const char *fast) {
    double before = NAN, at = NAN, crossing = NAN;
    for (int T = 1; T < 1 << 24; T *= 2) {
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
    const double T = ll_bench_crossing(b, slow, fast);
    if (T > 0) printf("bench.crossing.%s=%.0f\n", what, T);
    if (T == 0) printf("bench.crossing.%s=below what was measured\n", what);
}

static void speedup(const ll_bench *b, const char *kernel, const char *shape) {
    const ll_bench_row *r = ll_bench_find(b, "train/%s/%s", kernel, shape);
    const ll_bench_row *s = ll_bench_find(b, "train/softmax/%s", shape);
    if (r && s) printf("bench.speedup.train.%s.%s=%.2f\n", kernel, shape, s->seconds / r->seconds);
}

static void lateness(const ll_bench *b, const char *kernel) {
    char group[64];
    const ll_bench_row *late = NULL, *early = ll_bench_find(b, "generate/%s/100", kernel);
    snprintf(group, sizeof group, "generate/%s", kernel);
    for (int i = 0; i < b->rows; i++)
        if (length_in(&b->row[i], group) > 100) late = &b->row[i];
    if (!early || !late) return;
    printf("bench.late_token.%s=%.3f\n", kernel, late->seconds / early->seconds);
    printf("bench.late_state.%s=%.3f\n", kernel, late->bytes / early->bytes);
}

void ll_bench_summary(const ll_bench *b) {
    static const char *const kernels[] = {"favor", "relu", "favor+permute", "relu+permute", "relu+permute+decay"};
    char group[64];
    printf("bench.peak_gflops=%.1f\n", 1e-9 * b->peak);
    printf("bench.peak_gflops_1_thread=%.1f\n", 1e-9 * b->peak_one);
    for (int k = 0; k < 5; k++)
        for (int f = 0; f < 4; f++) {
            snprintf(group, sizeof group, "attention/%s/%s", kernels[k], FORMS[f]);
            flatness(b, group);
        }
    for (int k = 0; k < 2; k++)
        for (int f = 0; f < 4; f++) overhead(b, kernels[k], FORMS[f]);
    crossing(b, "attention.favor", "attention/softmax/causal/fwdbwd", "attention/favor/causal/fwdbwd");
    crossing(b, "attention.relu+permute", "attention/softmax/causal/fwdbwd", "attention/relu+permute/causal/fwdbwd");
    crossing(b, "train.favor", "train/layer/softmax", "train/layer/favor");
    crossing(b, "train.relu+permute+decay", "train/layer/softmax", "train/layer/relu+permute+decay");
    for (int k = 0; k < 5; k += 4) {
        speedup(b, kernels[k], "512x4");
        speedup(b, kernels[k], "4096x1");
        lateness(b, kernels[k]);
    }
    lateness(b, "softmax");
}

/* ---- JSON ---- */

/* The processor's name as the system gives it, without what JSON could not hold. */
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
        fprintf(file, "\"mib\": %.6g, \"runs\": %d}%s\n", r->bytes / 1048576, r->repeats, i + 1 < b->rows ? "," : "");
    }
}

int ll_bench_json(const ll_bench *b, const char *path) {
    char cpu[128];
    FILE *file = fopen(path, "we");
    if (!file) return ll_trouble("%s: %s", path, strerror(errno));
    processor(cpu, sizeof cpu);
    fprintf(file, "{\n  \"longline\": \"%s\", \"cpu\": \"%s\", \"tier\": \"%s\", \"threads\": %d,\n", ll_version(), cpu,
            ll_cpu(), ll_threads());
    fprintf(file, "  \"peak_gflops\": %.2f, \"peak_gflops_1_thread\": %.2f,\n  \"rows\": [\n", 1e-9 * b->peak,
            1e-9 * b->peak_one);
    write_rows(file, b);
    fprintf(file, "  ]\n}\n");
    const int bad = ferror(file);
    if (fclose(file) || bad) return ll_trouble("%s: %s", path, strerror(errno));
    return 0;
}
