/* A figure as a file. cairo's output goes to the disk through the writer that replaces the target only when it is
 * complete. */
#include <cairo/cairo-svg.h>
#include <fontconfig/fontconfig.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/memory.h"
#include "report/report_internal.h"

enum { WIDTH = 960, HEIGHT = 540, LEAST = 120, MOST = 16384 };

typedef struct {
    ll_writer *writer;
    ll_status status;
    const char *title; /* still to be written, or NULL */
    size_t tag;        /* characters of "<svg" that were written */
} sink;

static void put_bytes(sink *s, const void *data, size_t size) {
    if (!s->status && size) s->status = ll_writer_put(s->writer, data, size);
}

static void put_title(sink *s) {
    const char *const escapes[] = {"&&amp;", "<&lt;", ">&gt;"};
    const unsigned char *at = (const unsigned char *)s->title, *end = at + strlen(s->title);
    put_bytes(s, "\n<title>", 8);
    while (at < end) {
        const int n = ll_xml_character(at, (size_t)(end - at));
        const char *escape = NULL;
        for (size_t i = 0; i < 3; i++)
            if (*at == (unsigned char)escapes[i][0]) escape = escapes[i] + 1;
        if (escape)
            put_bytes(s, escape, strlen(escape));
        else
            put_bytes(s, n ? (const void *)at : "?", n ? (size_t)n : 1);
        at += n ? n : 1;
    }
    put_bytes(s, "</title>", 8);
    s->title = NULL;
}

/* cairo has no call for the title of an SVG document, which viewers show and screen readers read. So it is put behind
 * the tag that begins the document. */
static cairo_status_t put(void *arg, const unsigned char *data, unsigned int size) {
    static const char tag[] = "<svg";
    sink *s = arg;
    unsigned int written = 0;
    for (unsigned int i = 0; i < size && s->title; i++) {
        if (s->tag < sizeof tag - 1) {
            s->tag = data[i] == (unsigned char)tag[s->tag] ? s->tag + 1 : data[i] == '<';
        } else if (data[i] == '>') {
            put_bytes(s, data, i + 1);
            put_title(s);
            written = i + 1;
        }
    }
    put_bytes(s, data + written, size - written);
    return s->status ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

static int has_ending(const char *path, const char *ending) {
    const size_t n = strlen(path), m = strlen(ending);
    return n > m && !strcasecmp(path + n - m, ending);
}

static ll_status check(const char *path, int width, int height) {
    if (!has_ending(path, ".svg") && !has_ending(path, ".png"))
        return ll_fail(LL_EINVAL, "%s: a picture's name must end in .svg or .png", path);
    if (width < LEAST || width > MOST || height < LEAST || height > MOST)
        return ll_fail(LL_EINVAL, "%s: a picture has %d to %d pixels a side, not %d x %d", path, LEAST, MOST, width,
                       height);
    return LL_OK;
}

/* cairo, and fontconfig, which finds its fonts, crash in some functions if memory runs out. So enough memory is
 * allocated and freed before: what they need for a page of text and curves, and two copies of the pixels. */
static ll_status check_memory(const char *path, int width, int height, int svg) {
    enum { TAKEN = 16 << 20, PIXEL = 4 };
    void *block = ll_alloc(TAKEN + (svg ? 0 : 2 * PIXEL * (size_t)width * (size_t)height), 1);
    if (!block) return ll_fail_in(LL_ENOMEM, path);
    ll_free(block);
    return LL_OK;
}

static atomic_int own_fonts;

void ll_figure_own_fonts(void) { atomic_store(&own_fonts, 1); }

/* Where there is no memory for its default configuration, fontconfig would try again for ever to load it when cairo
 * asks for it. So it is loaded here before the first picture. In a program with fonts of its own that is a trial, and
 * FcInit keeps the configuration that is there. */
static ll_status find_fonts(const char *path) {
    static atomic_int found;
    if (atomic_load(&found)) return LL_OK;
    FcConfig *config = FcInitLoadConfigAndFonts();
    const int fine = config && (atomic_load(&own_fonts) ? FcConfigSetCurrent(config) : FcInit());
    if (config) FcConfigDestroy(config);
    if (!fine) return ll_fail(LL_ENOMEM, "%s: no memory for the fonts", path);
    atomic_store(&found, 1);
    return LL_OK;
}

/* Writes the picture, and turns cairo's status into ours. */
static ll_status draw(const char *path, int width, int height, ll_painter *paint, const void *what, sink *out) {
    const int svg = has_ending(path, ".svg");
    ll_status status = check_memory(path, width, height, svg);
    if (!status) status = find_fonts(path);
    if (status) return status;
    cairo_surface_t *surface = svg ? cairo_svg_surface_create_for_stream(put, out, width, height)
                                   : cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    const int drawn = paint(surface, what, width, height);
    cairo_status_t verdict = cairo_surface_status(surface);
    if (drawn > 0 && !svg && !verdict) verdict = cairo_surface_write_to_png_stream(surface, put, out);
    cairo_surface_finish(surface);
    if (!verdict) verdict = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (out->status) return out->status;
    if (drawn == 0) return ll_fail(LL_EINVAL, "%s: the figure has no point that its axes can show", path);
    if (verdict == CAIRO_STATUS_NO_MEMORY || (drawn < 0 && !verdict))
        return ll_fail(LL_ENOMEM, "%s: no memory for the picture", path);
    if (drawn < 0 || verdict) return ll_fail(LL_EIO, "%s cannot be drawn: %s", path, cairo_status_to_string(verdict));
    return LL_OK;
}

ll_status ll_picture_write(const char *path, const char *title, int width, int height, ll_painter *paint,
                           const void *what) {
    ll_status status = check(path, width, height);
    if (status) return status;
    sink out = {.title = title && *title && has_ending(path, ".svg") ? title : NULL};
    status = ll_writer_open(&out.writer, path);
    if (status) return status;
    status = draw(path, width, height, paint, what, &out);
    if (!status) return ll_writer_commit(out.writer);
    ll_writer_abandon(out.writer);
    return status;
}

typedef struct {
    const ll_figure *figure;
    const int *faint;
} page;

static int paint_page(cairo_surface_t *surface, const void *what, int width, int height) {
    const page *p = what;
    return ll_page_draw(surface, p->figure, p->faint, width, height);
}

ll_status ll_figure_draw(const ll_figure *f, const int *faint, const char *path) {
    if (f->n < 1 || f->n > LL_CURVES_MOST)
        return ll_fail(LL_EINVAL, "%s: a figure has 1 to %d curves, not %d", path, LL_CURVES_MOST, f->n);
    for (int i = 0; i < f->n; i++)
        if (f->curves[i].n < 0 || (f->curves[i].n > 0 && (!f->curves[i].x || !f->curves[i].y)))
            return ll_fail(LL_EINVAL, "%s: curve %d has no points", path, i);
    const page p = {f, faint};
    return ll_picture_write(path, f->title, f->width ? f->width : WIDTH, f->height ? f->height : HEIGHT, paint_page,
                            &p);
}

ll_status ll_figure_write(const ll_figure *figure, const char *path) {
    return ll_figure_draw(figure, NULL, path);
}
