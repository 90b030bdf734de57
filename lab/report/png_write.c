/* Small PNG images with a palette, for pages. The shades of heat maps are one colour with different opacity, so that
 * the same image fits white and black pages. (cairo only writes true colour, and its premultiplied alpha would lose the
 * palest shades.) Format: PNG 1.2, W3C 2003. */
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "base/memory.h"
#include "report/html.h"

enum { CHUNK = 12, POSITIVE = 0x2f86d2, NEGATIVE = 0xe0701e };

static void put32(unsigned char *p, size_t v) {
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (24 - 8 * i));
}

/* Ends the chunk that begins at p and has n bytes; returns the position of the next one. */
static unsigned char *chunk(unsigned char *p, const char *type, size_t n) {
    put32(p, n);
    memcpy(p + 4, type, 4);
    put32(p + 8 + n, crc32(crc32(0, NULL, 0), p + 4, (uInt)n + 4));
    return p + CHUNK + n;
}

/* Colours and their opacity. */
static void palette(int kind, unsigned char rgb[256][3], unsigned char alpha[256]) {
    for (int i = 0; i < 256; i++) {
        const int offset = i - 127, negative = kind == LL_PNG_SIGNED && offset < 0;
        const int shade = negative ? NEGATIVE : POSITIVE;
        for (int k = 0; k < 3; k++) rgb[i][k] = (unsigned char)(kind == LL_PNG_GREY ? i : shade >> (16 - 8 * k) & 255);
        alpha[i] = (unsigned char)(kind == LL_PNG_GREY ? 255 : i);
        if (kind != LL_PNG_SIGNED) continue;
        alpha[i] = (unsigned char)(i == LL_PNG_BLANK ? 0 : (offset < 0 ? -offset : offset) * 255 / 127);
    }
}

ll_status ll_png(unsigned char **png, size_t *size, int kind, int rows, int cols, const unsigned char *index) {
    static const unsigned char magic[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    const size_t line = (size_t)cols + 1, raw_size = line * (size_t)rows;
    uLongf packed = compressBound((uLong)raw_size);
    unsigned char rgb[256][3], alpha[256];
    unsigned char *raw = ll_alloc(raw_size, 1), *out = ll_alloc(sizeof magic + 5 * CHUNK + 13 + 768 + 256 + packed, 1);
    if (!raw || !out) {
        ll_free(raw);
        ll_free(out);
        return LL_ENOMEM;
    }
    for (int r = 0; r < rows; r++) memcpy(raw + (size_t)r * line + 1, index + (size_t)r * (size_t)cols, (size_t)cols);
    palette(kind, rgb, alpha);
    memcpy(out, magic, sizeof magic);
    unsigned char *p = out + sizeof magic;
    put32(p + 8, (size_t)cols);
    put32(p + 12, (size_t)rows);
    memcpy(p + 16, (const unsigned char[]){8, 3, 0, 0, 0}, 5); /* 8 bits, palette, no filter */
    p = chunk(p, "IHDR", 13);
    memcpy(p + 8, rgb, sizeof rgb);
    p = chunk(p, "PLTE", sizeof rgb);
    memcpy(p + 8, alpha, sizeof alpha);
    if (kind != LL_PNG_GREY) p = chunk(p, "tRNS", sizeof alpha);
    const int failed = compress2(p + 8, &packed, raw, (uLong)raw_size, 9) != Z_OK;
    ll_free(raw);
    if (failed) {
        ll_free(out);
        return ll_fail(LL_ENOMEM, "no memory to pack an image of %d x %d", cols, rows);
    }
    p = chunk(p, "IDAT", packed);
    p = chunk(p, "IEND", 0);
    *png = out;
    *size = (size_t)(p - out);
    return LL_OK;
}

static void base64(ll_html *h, const unsigned char *data, size_t size) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[4 * 64 + 1];
    size_t n = 0;
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const unsigned v = (unsigned)data[i] << 16 | (left > 1 ? (unsigned)data[i + 1] << 8 : 0) |
                           (left > 2 ? (unsigned)data[i + 2] : 0);
        for (int k = 0; k < 4; k++) text[n++] = k && (size_t)k > left ? '=' : digit[v >> (18 - 6 * k) & 63];
        if (n == sizeof text - 1 || left <= 3) {
            text[n] = 0;
            ll_html_put(h, text);
            n = 0;
        }
    }
}

void ll_html_png(ll_html *h, int kind, int rows, int cols, const unsigned char *index, const char *alt) {
    unsigned char *png = NULL;
    size_t size = 0;
    if (h->status) return;
    const ll_status status = ll_png(&png, &size, kind, rows, cols, index);
    if (status) {
        ll_html_fail(h, status);
        return;
    }
    ll_html_print(h, "<img class=\"%s\" width=\"%d\" height=\"%d\" alt=\"", kind == LL_PNG_GREY ? "grey" : "shades",
                  cols, rows);
    ll_html_text(h, alt);
    ll_html_put(h, "\" src=\"data:image/png;base64,");
    base64(h, png, size);
    ll_html_put(h, "\">");
    ll_free(png);
}
