/* Axes: the positions of the numbers, and how they are written. Ticks are at 1, 2 or 5 times a power of ten. A
 * logarithmic axis has one at every decade, at 2 and 5 if there is space, and small ones between. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "report/report_internal.h"

int ll_axis_takes(int log, double v) {
    const double a = fabs(v);
    return log ? v >= 1e-100 && v <= 1e100 : a <= 1e100;
}

int ll_axis_takes_point(const ll_figure *f, const ll_curve *c, int i) {
    return ll_axis_takes(f->log_x, c->x[i]) && ll_axis_takes(f->log_y, c->y[i]);
}

double ll_axis_position(const ll_axis *x, double v) {
    const double t = x->log ? log(v / x->lo) / log(x->hi / x->lo) : (v - x->lo) / (x->hi - x->lo);
    return x->from + t * (x->to - x->from);
}

void ll_axis_title(char out[LL_AXIS_TITLE], const char *label, int log) {
    const int named = label && *label;
    snprintf(out, LL_AXIS_TITLE,
             !log    ? "%.500s"
             : named ? "%.500s (logarithmic)"
                     : "%.500slogarithmic",
             named ? label : "");
}

/* The smallest of 1, 2, 5 times a power of ten that is at least v. */
static double round_step(double v) {
    const double power = pow(10, floor(log10(v)));
    for (int i = 0; i < 3; i++) {
        const double step = power * (double[]){1, 2, 5}[i];
        if (step >= v * (1 - 1e-9)) return step;
    }
    return 10 * power;
}

/* 1,234,567.5 from 1234567.5 */
static void write_grouped(char *out, size_t size, double v, int decimals, const char *unit) {
    char plain[40];
    ll_format_text(plain, sizeof plain, "%.*f", decimals, fabs(v));
    const size_t digits = strcspn(plain, ".");
    size_t n = 0;
    if (v < 0 && strspn(plain, "0.") < strlen(plain)) n = (size_t)snprintf(out, size, "\xe2\x88\x92"); /* a minus */
    for (size_t i = 0; plain[i] && n + 2 < size; i++) {
        if (i > 0 && i < digits && (digits - i) % 3 == 0) out[n++] = ',';
        out[n++] = plain[i];
    }
    out[n] = 0;
    snprintf(out + n, size - n, "%s", unit);
}

void ll_number_text(char *out, size_t size, double v, double step, double largest) {
    const double a = fabs(v) >= 1e13 ? fmax(fabs(v), fabs(largest)) : fabs(largest); /* too long for all digits */
    const double unit = a >= 1e9 ? 1e9 : a >= 1e6 ? 1e6 : 1;
    int decimals = 0;
    if (v == 0) {
        snprintf(out, size, "0");
    } else if (a >= 1e13 || a < 1e-5 || step < 1e-7 * unit) {
        const int digits = (int)(floor(log10(a) + 1e-9) - floor(log10(step) + 1e-9)) + 1;
        ll_format_text(out, size, "%.*g", digits < 1 ? 1 : digits > 12 ? 12 : digits, v);
    } else {
        for (double s = step / unit; decimals < 8 && fabs(s - round(s)) > 1e-6 * s; s *= 10) decimals++;
        write_grouped(out, size, v / unit, decimals, unit == 1e9 ? "G" : unit == 1e6 ? "M" : "");
    }
}

/* 10¹⁶, 4.5·10⁻⁸ from "1e+16", "4.5e-08"; other numbers stay. */
static void write_power(char *text, size_t size) {
    static const char *const raised[] = {"\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                         "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
    char factor[24], plain[12];
    const char *end = strchr(text, 'e'), *minus = text[0] == '-' ? "\u2212" : "";
    if (!end) return;
    const int e = atoi(end + 1);
    snprintf(factor, sizeof factor, "%.*s\u00b7", (int)(end - text) - (text[0] == '-'), text + (text[0] == '-'));
    snprintf(plain, sizeof plain, "%d", abs(e));
    size_t n =
        (size_t)snprintf(text, size, "%s%s10%s", minus, strcmp(factor, "1\u00b7") ? factor : "", e < 0 ? "\u207b" : "");
    for (const char *c = plain; *c && n + 4 < size; c++)
        n += (size_t)snprintf(text + n, size - n, "%s", raised[*c - '0']);
}

static void add_tick(ll_axis *x, double at, double step, double largest, int numbered) {
    if (x->n == LL_TICKS_MOST) return;
    ll_tick *t = &x->tick[x->n++];
    *t = (ll_tick){.at = at};
    if (!numbered) return;
    ll_number_text(t->text, sizeof t->text, at, step, largest);
    write_power(t->text, sizeof t->text);
}

static void linear_ticks(ll_axis *x, double step) {
    const double slack = 1e-9 * (x->hi - x->lo), largest = fmax(fabs(x->lo), fabs(x->hi));
    const double first = ceil((x->lo - slack) / step), last = floor((x->hi + slack) / step);
    for (double i = first; i <= last && x->n < LL_TICKS_MOST; i++) add_tick(x, i * step, step, largest, 1);
}

/* Ticks at 1, 2, .. 9 times powers of ten. `labels` of "1", "12" (1, 2, 5) have numbers, written as powers if one of
 * them is too long. */
static void log_ticks(ll_axis *x, const char *labels, int every, int small) {
    const int first = (int)floor(log10(x->lo)), last = (int)ceil(log10(x->hi));
    const int powers = x->lo < 1e-5 * (1 - 1e-9) || x->hi >= 1e12;
    for (int e = first; e <= last; e++)
        for (int d = 1; d < 10; d++) {
            const double at = d * pow(10, e);
            const int number = strchr(labels, '0' + d) && e % every == 0;
            if (at < x->lo * (1 - 1e-9) || at > x->hi * (1 + 1e-9) || (!number && !small)) continue;
            add_tick(x, at, at, at, number && !powers);
            if (!number || !powers || !x->n) continue;
            ll_tick *t = &x->tick[x->n - 1];
            snprintf(t->text, sizeof t->text, "%de%d", d, e);
            write_power(t->text, sizeof t->text);
        }
}

static int numbered(const ll_axis *x) {
    int n = 0;
    for (int i = 0; i < x->n; i++) n += x->tick[i].text[0] != 0;
    return n;
}

static void set_log(ll_axis *x, double length, double gap, int open) {
    if (x->hi < x->lo * (1 + 1e-6)) x->lo /= 1.5, x->hi *= 1.5;
    if (open) x->lo /= pow(x->hi / x->lo, 0.06), x->hi *= pow(x->hi / x->lo, 0.04);
    const double decades = log10(x->hi / x->lo), decade = length / decades;
    if (decade * 0.3 >= gap) {
        log_ticks(x, "125", 1, 1);
    } else {
        log_ticks(x, "1", (int)fmax(1, ceil(gap / decade)), decades <= 9);
    }
    if (numbered(x) >= 2) return;
    x->n = 0; /* a range so small that round numbers of its own size serve better */
    linear_ticks(x, round_step((x->hi - x->lo) / fmax(1, length / gap)));
}

static void set_linear(ll_axis *x, double length, double gap, int open) {
    const double size = fmax(fabs(x->lo), fabs(x->hi));
    if (x->hi - x->lo <= 1e-9 * size || size == 0) {
        const double half = size > 0 ? size / 4 : 1;
        x->lo -= half;
        x->hi += half;
    }
    if (x->lo > 0 && x->lo < (open ? 0.4 : 0.1) * x->hi) x->lo = 0;
    const double step = round_step((x->hi - x->lo) / fmax(1, floor(length / gap)));
    if (open) {
        x->lo = floor(x->lo / step + 1e-9) * step;
        x->hi += 0.02 * (x->hi - x->lo);
    }
    linear_ticks(x, step);
}

void ll_axis_set(ll_axis *x, int log, double lo, double hi, double length, double gap, int open) {
    *x = (ll_axis){.log = log, .lo = lo, .hi = hi};
    if (log) {
        set_log(x, length, gap, open);
    } else {
        set_linear(x, length, gap, open);
    }
}

/* The axis of level curves ends a quarter above and below them. */
void ll_axis_set_y(ll_axis *y, const ll_figure *f, double lo, double hi, double length) {
    if (f->y_most > 0 && lo == hi && hi <= f->y_most) {
        lo *= 0.75;
        hi = hi > 0 ? fmin(1.25 * hi, f->y_most) : f->y_most;
    }
    ll_axis_set(y, f->log_y, lo, hi, length, 42, 1);
}
