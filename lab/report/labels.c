/* Names at the ends of curves: text that fits, and does not cover other text. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "report/report_internal.h"

/* The size of the UTF-8 character at s; 0 if there is none that can be drawn. */
static int character(const unsigned char *s, size_t left) {
    const int n = ll_utf8_length(s, left);
    return n == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe ? 0 : n; /* U+FFFE, U+FFFF: not in XML */
}

static double width_of(cairo_t *cr, const char *text) {
    cairo_text_extents_t e;
    cairo_text_extents(cr, text, &e);
    return e.x_advance;
}

double ll_label_fit(cairo_t *cr, char *out, size_t size, const char *text, double most) {
    const char dots[] = "\xe2\x80\xa6";
    size_t n = 0, start[512], count = 0;
    const unsigned char *s = (const unsigned char *)(text ? text : ""), *end = s + strlen((const char *)s);
    while (*s && n + 4 + sizeof dots < size && count < 512) {
        const int bytes = character(s, (size_t)(end - s));
        start[count++] = n;
        if (bytes) {
            memcpy(out + n, s, (size_t)bytes);
        } else {
            out[n] = '?';
        }
        n += bytes ? (size_t)bytes : 1;
        s += bytes ? bytes : 1;
    }
    out[n] = 0;
    int cut = *s != 0;
    if (cut) memcpy(out + n, dots, sizeof dots);
    double width = width_of(cr, out);
    while (width > most && count > 0) {
        memcpy(out + start[--count], dots, sizeof dots);
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

void ll_labels_spread(ll_label *label, int n, double line, double top, double bottom) {
    for (int i = 1; i < n; i++) /* from top to bottom */
        for (int j = i; j > 0 && label[j].y < label[j - 1].y; j--) {
            const ll_label t = label[j];
            label[j] = label[j - 1];
            label[j - 1] = t;
        }
    for (int round = 0; round < 200; round++) {
        int moved = 0;
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++) {
                const double lacking = line - (label[j].y - label[i].y);
                if (lacking < 0.01 || !overlap(&label[i], &label[j])) continue;
                label[i].y -= lacking / 2;
                label[j].y += lacking / 2;
                moved = 1;
            }
        for (int i = 0; i < n; i++) keep_inside(&label[i], top, bottom);
        if (!moved) return;
    }
}
