/* Matrices and images on the page. Of several groups of matrices each has a tab. Tabs are radio buttons, which every
 * browser makes usable by keyboard, with styles that show the chosen one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/html.h"

/* ---- Matrices ---- */

static int has_negative(const ll_html_maps *m) {
    for (int g = 0; g < m->groups; g++)
        if (ll_shades_signed(&m->group[g])) return 1;
    return 0;
}

static void quantise(const ll_heat_map *m, int panel, int sign, unsigned char *index) {
    const ll_panel *p = &m->panels[panel];
    ll_shade_range range = ll_shade_range_of(m, panel, 0);
    for (int r = 0; r < p->rows; r++) {
        if (m->shades == LL_SHADES_ROW) range = ll_shade_range_of(m, panel, r);
        for (int c = 0; c < p->cols; c++) {
            const double v = (double)p->value[(size_t)r * (size_t)p->cols + (size_t)c], t = ll_shade_of(&range, v);
            *index++ = (unsigned char)(sign && !isfinite(v) ? LL_PNG_BLANK
                                       : sign               ? lround(127 + 127 * t)
                                                            : lround(255 * fmax(t, 0)));
        }
    }
}

/* The bytes of the first n characters. */
static size_t bytes_of(const char *name, size_t size, int n) {
    size_t at = 0, bytes;
    for (int i = 0; i < n && at < size; i++, at += bytes) ll_char_at((const uint8_t *)name + at, size - at, &bytes);
    return at;
}

/* As much of a long name as fits beside an image. Names often differ only at their ends, so the middle is left out. */
static void short_name(ll_html *h, const char *name) {
    enum { CHARACTERS = 24, END = 11 };
    const size_t size = strlen(name);
    int characters = 0;
    size_t bytes;
    for (size_t at = 0; at < size; at += bytes, characters++) ll_char_at((const uint8_t *)name + at, size - at, &bytes);
    if (characters <= CHARACTERS) {
        ll_html_bytes(h, name, size);
        return;
    }
    const size_t end = bytes_of(name, size, characters - END);
    ll_html_bytes(h, name, bytes_of(name, size, CHARACTERS - END));
    ll_html_put(h, "\u2026");
    ll_html_bytes(h, name + end, size - end);
}

/* As many lines of text fit beside the smallest picture of a class of panels, and for NAMES_PHONE on a phone. */
enum { NAMES_SMALL = 10, NAMES_LARGE = 40, NAMES_PHONE = 13 };

/* Each row or column has a span, so that names are beside their own. Where there is no space for all names, only every
 * `every`-th is shown, and on a phone (style.css) fewer. */
static void names(ll_html *h, const char *kind, int n, const char *const *name) {
    const int every = n > NAMES_SMALL ? ll_ceil_div(n, NAMES_LARGE) : 1;
    const int phone = n > NAMES_SMALL ? every * ll_ceil_div(n, every * NAMES_PHONE) : 1;
    ll_html_print(h, "<div class=\"%s\" aria-hidden=\"true\">", kind);
    for (int i = 0; i < n; i++) {
        ll_html_put(h, i % every == 0 && i % phone ? "<span class=\"more\">" : "<span>");
        if (i % every == 0) short_name(h, name[i]);
        ll_html_put(h, "</span>");
    }
    ll_html_put(h, "</div>\n");
}

static void panels(ll_html *h, const ll_html_maps *m, int g, int sign) {
    const ll_heat_map *map = &m->group[g];
    const int wide = map->panels->cols > 2 * map->panels->rows;
    const int many = map->panels->rows > NAMES_SMALL || map->panels->cols > NAMES_SMALL;
    ll_html_print(h, "<div class=\"maps%s\">\n", !map->names ? wide ? " wide" : "" : many ? " largest" : " large");
    for (int i = 0; i < map->n && !h->status; i++) {
        const ll_panel *p = &map->panels[i];
        char alt[300];
        unsigned char *index = ll_alloc((size_t)p->rows * (size_t)p->cols, 1);
        if (!index) {
            ll_html_fail(h, LL_ENOMEM);
            return;
        }
        snprintf(alt, sizeof alt, "%s%s%s: %d x %d numbers as shades", map->title ? map->title : "Matrix",
                 *p->label ? ", " : "", p->label, p->rows, p->cols);
        quantise(map, i, sign, index);
        ll_html_put(h, "<figure>");
        if (map->names) {
            ll_html_put(h, "<div class=\"named\">\n");
            names(h, "rows", p->rows, map->names);
        }
        ll_html_png(h, sign ? LL_PNG_SIGNED : LL_PNG_SHADES, p->rows, p->cols, index, alt);
        if (map->names) {
            names(h, ll_heat_map_short_names(map) ? "cols" : "cols long", p->cols, ll_heat_map_columns(map));
            ll_html_put(h, "</div>\n");
        }
        ll_html_put(h, "<figcaption>");
        ll_html_text(h, p->label);
        ll_html_put(h, "</figcaption></figure>\n");
        ll_free(index);
    }
    ll_html_put(h, "</div>\n");
}

static void summary(ll_html *h, const ll_html_maps *m, int g) {
    const ll_html_table t = {.label = "Summary of the panels", .cols = m->cols, .head = m->head, .numbers = 1};
    const int rows = m->group[g].n;
    if (!m->summary) return;
    ll_html_table_begin(h, &t);
    for (int i = 0; i < rows; i++) ll_html_row(h, m->cols, m->summary + (g * rows + i) * m->cols, 0);
    ll_html_table_end(h);
}

static void write_files(ll_html *h, const char *name, const ll_heat_map *p) {
    char *svg = ll_html_path(h, name, "svg"), *csv = ll_html_path(h, name, "csv");
    if (svg && csv) {
        ll_html_fail(h, ll_heat_map_write(p, svg));
        if (!h->status) ll_html_fail(h, ll_csv_heat_map(csv, p));
    }
    ll_free(svg);
    ll_free(csv);
}

/* Buttons come first, so that a style can select what follows the chosen one. */
static void tabs(ll_html *h, const char *name, const ll_html_maps *m) {
    ll_html_put(h, "<fieldset class=\"tabs\">\n<legend>");
    ll_html_text(h, m->tab);
    ll_html_put(h, "</legend>\n<style>\n");
    for (int g = 0; g < m->groups; g++)
        ll_html_print(h, "#%s-tab-%d:checked~#%s-%d%s", name, m->number[g], name, m->number[g],
                      g + 1 < m->groups ? "," : "{display:block}\n");
    ll_html_put(h, "</style>\n");
    for (int g = 0; g < m->groups; g++) {
        const int n = m->number[g];
        ll_html_print(h, "<input type=\"radio\" name=\"%s\" id=\"%s-tab-%d\"%s><label for=\"%s-tab-%d\">%d</label>\n",
                      name, name, n, g == 0 ? " checked" : "", name, n, n);
    }
    if (m->groups < m->of) ll_html_print(h, "<span class=\"note\">of %d</span>\n", m->of);
}

void ll_html_maps_write(ll_html *h, const ll_html_about *about, const ll_html_maps *m) {
    const int sign = has_negative(m), many = m->groups > 1;
    ll_html_print(h, "<figure class=\"chart\" id=\"%s\" data-figure=\"map\">\n<figcaption>", about->name);
    ll_html_text(h, about->caption);
    ll_html_put(h, "</figcaption>\n");
    if (many) tabs(h, about->name, m);
    for (int g = 0; g < m->groups && !h->status; g++) {
        char name[96];
        snprintf(name, sizeof name, many ? "%s-%d" : "%s", about->name, many ? m->number[g] : 0);
        write_files(h, name, &m->group[g]);
        if (many) ll_html_print(h, "<div class=\"panel\" id=\"%s\">\n", name);
        panels(h, m, g, sign);
        ll_html_put(h, "<details>\n<summary>Data</summary>\n");
        ll_html_files(h, name);
        summary(h, m, g);
        ll_html_put(h, "</details>\n");
        if (many) ll_html_put(h, "</div>\n");
    }
    if (many) ll_html_put(h, "</fieldset>\n");
    ll_html_put(h, "</figure>\n");
}

/* ---- Images ---- */

enum { SIDE = 64 }; /* larger images are reduced: the page shows their content, not every pixel */

/* Means of rectangles of (high, wide) pixels. */
static void shrink(const ll_html_images *m, int number, int high, int wide, unsigned char *out) {
    const unsigned char *in = m->pixels + (size_t)number * (size_t)m->width * (size_t)m->height;
    const int rows = m->height / high, cols = m->width / wide, n = high * wide;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++) {
            int sum = 0;
            for (int i = 0; i < n; i++)
                sum += in[(size_t)(r * high + i / wide) * (size_t)m->width + (size_t)(c * wide + i % wide)];
            out[r * cols + c] = (unsigned char)((sum + n / 2) / n);
        }
}

void ll_html_images_write(ll_html *h, const ll_html_images *m) {
    const int high = ll_ceil_div(m->height, SIDE), wide = ll_ceil_div(m->width, SIDE);
    const int rows = m->height / high, cols = m->width / wide;
    unsigned char *small = ll_alloc((size_t)rows * (size_t)cols, 1);
    if (!small) ll_html_fail(h, LL_ENOMEM);
    ll_html_put(h, "<div class=\"images\" data-figure=\"images\">\n");
    for (int i = 0; i < m->n && !h->status; i++) {
        shrink(m, i, high, wide, small);
        ll_html_put(h, "<figure>");
        ll_html_png(h, LL_PNG_GREY, rows, cols, small, m->captions[i]);
        ll_html_put(h, "<figcaption>");
        ll_html_text(h, m->captions[i]);
        ll_html_put(h, "</figcaption></figure>\n");
    }
    ll_html_put(h, "</div>\n");
    ll_free(small);
}
