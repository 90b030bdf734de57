/* Names at the ends of curves: text that fits, and covers neither other text nor, where there is space, a curve. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "report/report_internal.h"

int ll_xml_character(const unsigned char *s, size_t left) {
    const int n = ll_utf8_length(s, left);
    return n == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe ? 0 : n; /* U+FFFE, U+FFFF: not in XML */
}

static double width_of(cairo_t *cr, const char *text) {
    cairo_text_extents_t e;
    cairo_text_extents(cr, text, &e);
    return e.x_advance;
}

enum { CHARACTERS = 512 };

/* The first characters of a text, each of which is XML; start[i] is where number i begins. Returns how many. */
static size_t take_characters(char out[4 * CHARACTERS + 1], size_t start[CHARACTERS + 1], const char *text) {
    const unsigned char *s = (const unsigned char *)text, *end = s + strlen(text);
    size_t n = 0, count = 0;
    while (*s && count < CHARACTERS) {
        const int bytes = ll_xml_character(s, (size_t)(end - s));
        start[count++] = n;
        if (bytes)
            memcpy(out + n, s, (size_t)bytes);
        else
            out[n] = '?';
        n += bytes ? (size_t)bytes : 1;
        s += bytes ? bytes : 1;
    }
    start[count] = n;
    out[n] = 0;
    return count;
}

/* Names often differ only at their ends, so the middle is left out. */
double ll_label_fit(cairo_t *cr, char *out, size_t size, const char *text, double most) {
    static const char dots[] = "\xe2\x80\xa6";
    char all[4 * CHARACTERS + 1];
    size_t start[CHARACTERS + 1];
    const size_t count = take_characters(all, start, text ? text : "");
    out[0] = 0;
    double width = start[count] < size ? width_of(cr, all) : INFINITY;
    if (width <= most) {
        memcpy(out, all, start[count] + 1);
        return width;
    }
    for (size_t kept = count; kept-- > 0 && width > most;) {
        const size_t front = start[(kept + 1) / 2], back = start[count - kept / 2], end = start[count] - back;
        if (front + sizeof dots + end > size) continue;
        memcpy(out, all, front);
        memcpy(out + front, dots, sizeof dots - 1);
        memcpy(out + front + sizeof dots - 1, all + back, end + 1);
        width = width_of(cr, out);
    }
    return width;
}

static int overlap(const ll_label *a, const ll_label *b) {
    return a->x < b->x + b->width + 4 && b->x < a->x + a->width + 4;
}

static void keep_inside(ll_label *l, double top, double bottom) {
    l->y = fmin(fmax(l->y, top), bottom);
}

static void sort(ll_label *label, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && label[j].y < label[j - 1].y; j--) {
            const ll_label t = label[j];
            label[j] = label[j - 1];
            label[j - 1] = t;
        }
}

/* What is left to separate: labels are pushed down, and then up from the bottom. If n lines fit, no two overlap then.
 */
static void separate(ll_label *label, int n, double line, double bottom) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (overlap(&label[i], &label[j]) && label[i].y < label[j].y + line - 0.01) label[i].y = label[j].y + line;
    for (int i = n - 1; i >= 0; i--) {
        label[i].y = fmin(label[i].y, bottom);
        for (int j = i + 1; j < n; j++)
            if (overlap(&label[i], &label[j]) && label[i].y > label[j].y - line + 0.01) label[i].y = label[j].y - line;
    }
}

void ll_labels_spread(ll_label *label, int n, double line, double top, double bottom) {
    int moved = 1;
    sort(label, n);
    for (int round = 0; round < 200 && moved; round++) {
        moved = 0;
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++) {
                const double lacking = line - (label[j].y - label[i].y);
                if (lacking < 0.01 || !overlap(&label[i], &label[j])) continue;
                label[i].y -= lacking / 2;
                label[j].y += lacking / 2;
                moved = 1;
            }
        for (int i = 0; i < n; i++) keep_inside(&label[i], top, bottom);
    }
    sort(label, n);
    separate(label, n, line, bottom);
}

/* ---- Apart from curves ---- */

static int cell(double at, double size, int cells) {
    const double i = floor(at / size * cells);
    return i < 0 ? 0 : i >= cells ? cells - 1 : (int)i;
}

void ll_cover_line(ll_cover *c, double x0, double y0, double x1, double y1) {
    const double columns = fabs(x1 - x0) / c->width * LL_COVER_COLUMNS,
                 rows = fabs(y1 - y0) / c->height * LL_COVER_ROWS;
    const int steps = (int)ceil(2 * fmin(fmax(columns, rows), LL_COVER_COLUMNS)) + 1;
    for (int i = 0; i <= steps; i++) {
        const double t = (double)i / steps;
        c->covered[cell(y0 + t * (y1 - y0), c->height, LL_COVER_ROWS)]
                  [cell(x0 + t * (x1 - x0), c->width, LL_COVER_COLUMNS)] = 1;
    }
}

/* How many cells of the page below the text are covered. */
static int covered(const ll_cover *c, const ll_label *l, double line) {
    const int first = cell(l->x - 2, c->width, LL_COVER_COLUMNS);
    const int last = cell(l->x + l->width + 2, c->width, LL_COVER_COLUMNS);
    const int bottom = cell(l->y + 0.42 * line, c->height, LL_COVER_ROWS);
    int n = 0;
    for (int row = cell(l->y - 0.36 * line, c->height, LL_COVER_ROWS); row <= bottom; row++)
        for (int column = first; column <= last; column++) n += c->covered[row][column];
    return n;
}

/* Covering a cell is as bad as a distance of CELL. */
static double cost_of(const ll_cover *c, const ll_label *l, double line, double distance) {
    enum { CELL = 40 };
    return CELL * covered(c, l, line) + distance;
}

/* Is it on the page, and apart from the other labels? */
static int fits(const ll_label *label, int n, int i, const ll_label *at, const ll_cover *c, double line) {
    if (at->x < c->left || at->x + at->width > c->right || at->y < c->top || at->y > c->bottom) return 0;
    for (int j = 0; j < n; j++)
        if (j != i && overlap(at, &label[j]) && fabs(at->y - label[j].y) < line - 0.01) return 0;
    return 1;
}

/* Tries the right and the left side of the curve's end, up to two lines higher or lower, and above and below it.
 * Returns the cost of the best one. */
static double place(ll_label *label, int n, int i, const ll_cover *c, double line) {
    enum { STEPS = 8, SIDES = 3 };
    static const double dislike[SIDES] = {0, 6, 10}; /* of the left side, and of the middle */
    ll_label best = label[i];
    double least = cost_of(c, &best, line, fabs(best.y - best.end_y));
    for (int side = 0; side < SIDES && covered(c, &label[i], line); side++)
        for (int step = -STEPS; step <= STEPS; step++) {
            ll_label at = label[i];
            at.x = side == 0   ? at.end_x + LL_LABEL_GAP
                   : side == 1 ? at.end_x - LL_LABEL_GAP - at.width
                               : at.end_x - at.width / 2;
            at.y = at.end_y + 2 * line * step / STEPS;
            if (!fits(label, n, i, &at, c, line)) continue;
            const double cost = cost_of(c, &at, line, fabs(at.y - at.end_y) + dislike[side]);
            if (cost < least - 0.01) least = cost, best = at;
        }
    label[i] = best;
    return least;
}

void ll_labels_clear(ll_label *label, int n, const ll_cover *c, double line) {
    ll_label up[LL_CURVES_MOST], down[LL_CURVES_MOST];
    double cost_up = 0, cost_down = 0;
    memcpy(up, label, (size_t)n * sizeof *label);
    memcpy(down, label, (size_t)n * sizeof *label);
    for (int i = 0; i < n; i++) cost_down += place(down, n, i, c, line);
    for (int i = n - 1; i >= 0; i--) cost_up += place(up, n, i, c, line);
    memcpy(label, cost_up < cost_down ? up : down, (size_t)n * sizeof *label);
}
