/* The page: opens and closes it, writes its text and tables. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "report/html.h"

/* ---- The file ---- */

/* "report.html" -> "figures"; "a/b.html" -> "b-figures". */
static void name_figures(char *out, size_t size, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = strlen(name), ending = n > 5 && !strcmp(name + n - 5, ".html") ? 5 : 0;
    if (!strcmp(name, "report.html"))
        snprintf(out, size, "figures");
    else
        snprintf(out, size, "%.*s-figures", (int)(n - ending), name);
}

static char *folder_of(const char *path) {
    char *folder = ll_strdup(path);
    if (!folder) return NULL;
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    else
        strcpy(folder, *folder ? "." : "");
    return folder;
}

static void begin(ll_html *h, const char *title) {
    ll_html_put(h, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                   /* The page loads nothing from outside and has no script, so nothing can be missing. */
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'; img-src data:\">\n"
                   "<meta name=\"color-scheme\" content=\"light dark\">\n");
    ll_html_print(h, "<meta name=\"generator\" content=\"longline %s\">\n<title>", ll_version());
    ll_html_text(h, title);
    ll_html_put(h, "</title>\n<style>\n");
    ll_html_put(h, ll_html_style);
    ll_html_put(h, "</style>\n</head>\n<body>\n<main>\n<h1>");
    ll_html_text(h, title);
    ll_html_put(h, "</h1>\n");
}

/* Keeps the name of a figure's file, if it is new. */
static ll_status keep_made(ll_html *h, const char *path) {
    if (!access(path, F_OK)) return LL_OK;
    if (h->made_count == h->made_most) {
        const int most = h->made_most ? 2 * h->made_most : 16;
        char **bigger = ll_alloc((size_t)most, sizeof *bigger);
        if (!bigger) return LL_ENOMEM;
        if (h->made_count) memcpy(bigger, h->made, (size_t)h->made_count * sizeof *bigger);
        ll_free(h->made);
        h->made = bigger;
        h->made_most = most;
    }
    char *copy = ll_strdup(path);
    if (!copy) return LL_ENOMEM;
    h->made[h->made_count++] = copy;
    return LL_OK;
}

static void remove_made(const ll_html *h) {
    for (int i = 0; i < h->made_count; i++) unlink(h->made[i]);
    if (h->made_folder) rmdir(h->figures);
}

/* Removes the unfinished page. */
static void abandon(ll_html *h) {
    ll_writer_abandon(h->writer);
    ll_free(h->figures);
    ll_names_free(h->made, h->made_count);
    *h = (ll_html){.status = h->status};
}

ll_status ll_html_open(ll_html *h, const char *path, const char *title) {
    *h = (ll_html){0};
    name_figures(h->shown, sizeof h->shown, path);
    char *folder = folder_of(path);
    if (folder) h->figures = ll_path_join(folder, h->shown);
    h->made_folder = h->figures && !ll_is_folder(h->figures);
    ll_status status = h->figures ? ll_folder_create(h->figures) : LL_ENOMEM;
    if (!status) status = ll_writer_open(&h->writer, path);
    ll_free(folder);
    if (status) {
        if (h->figures) remove_made(h);
        abandon(h);
        return status;
    }
    begin(h, title);
    return LL_OK;
}

void ll_html_fail(ll_html *h, ll_status status) {
    if (h->status || !status) return;
    h->status = status;
    ll_writer_abandon(h->writer);
    h->writer = NULL;
}

ll_status ll_html_finish(ll_html *h) {
    if (h->open) ll_html_put(h, "</section>\n");
    ll_html_print(h, "</main>\n<footer>longline %s</footer>\n</body>\n</html>\n", ll_version());
    ll_status status = h->status;
    if (!status) {
        status = ll_writer_commit(h->writer);
        h->writer = NULL;
    }
    if (status) remove_made(h);
    abandon(h);
    return status;
}

/* ---- Text ---- */

static void put(ll_html *h, const void *data, size_t size) {
    if (!h->status) ll_html_fail(h, ll_writer_put(h->writer, data, size));
}

void ll_html_put(ll_html *h, const char *html) {
    put(h, html, strlen(html));
}

void ll_html_print(ll_html *h, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    ll_format_text_list(text, sizeof text, format, list);
    va_end(list);
    ll_html_put(h, text);
}

/* The escape of one of HTML's own characters, or NULL. */
static const char *entity(unsigned char c) {
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void ll_html_bytes(ll_html *h, const void *bytes, size_t size) {
    const unsigned char *s = bytes;
    for (size_t i = 0; i < size;) {
        const int n = ll_utf8_length(s + i, size - i);
        const char *name = entity(s[i]);
        if (s[i] == '\r' && i + 1 < size && s[i + 1] == '\n') {
            i++; /* the line end of another system */
            continue;
        }
        if (name)
            ll_html_put(h, name);
        else if (n || s[i] == '\n' || s[i] == '\t')
            put(h, s + i, n ? (size_t)n : 1);
        else
            ll_html_put(h, "\xef\xbf\xbd");
        i += n ? (size_t)n : 1;
    }
}

void ll_html_text(ll_html *h, const char *text) {
    ll_html_bytes(h, text, strlen(text));
}

void ll_html_section(ll_html *h, const char *id, const char *title) {
    if (h->open) ll_html_put(h, "</section>\n");
    h->open = 1;
    ll_html_print(h, "<section id=\"%s\">\n<h2>", id);
    ll_html_text(h, title);
    ll_html_put(h, "</h2>\n");
}

static void element(ll_html *h, const char *tag, const char *text) {
    ll_html_print(h, "<p%s>", tag);
    ll_html_text(h, text);
    ll_html_put(h, "</p>\n");
}

void ll_html_paragraph(ll_html *h, const char *text) {
    element(h, "", text);
}

void ll_html_note(ll_html *h, const char *text) {
    element(h, " class=\"note\"", text);
}

void ll_html_sample(ll_html *h, const char *label, const void *prompt, size_t prompt_size, const void *text,
                    size_t size) {
    ll_html_put(h, "<figure class=\"sample\">\n<figcaption>");
    ll_html_text(h, label);
    ll_html_put(h, "</figcaption>\n<blockquote dir=\"auto\"><span class=\"prompt\">");
    ll_html_bytes(h, prompt, prompt_size);
    ll_html_put(h, "</span>");
    ll_html_bytes(h, text, size);
    ll_html_put(h, "</blockquote>\n</figure>\n");
}

/* ---- Tables ---- */

static void cells(ll_html *h, const char *first, const char *other, const char *end, int cols,
                  const char *const *cell) {
    for (int i = 0; i < cols; i++) {
        ll_html_put(h, i ? other : first);
        ll_html_text(h, cell[i]);
        ll_html_put(h, i ? end : "</th>");
    }
}

void ll_html_table_begin(ll_html *h, const ll_html_table *t) {
    /* A table wider than the screen scrolls by itself, also with the keyboard. */
    ll_html_put(h, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"");
    ll_html_text(h, t->label);
    ll_html_print(h, "\">\n<table%s>\n", t->numbers ? " class=\"numbers\"" : "");
    if (t->head) {
        ll_html_put(h, "<thead><tr>");
        cells(h, "<th scope=\"col\">", "<th scope=\"col\">", "</th>", t->cols, t->head);
        ll_html_put(h, "</tr></thead>\n");
    }
    ll_html_put(h, "<tbody>\n");
}

void ll_html_row(ll_html *h, int cols, const char *const *cell, int marked) {
    ll_html_put(h, marked ? "<tr class=\"marked\">" : "<tr>");
    cells(h, "<th scope=\"row\">", "<td>", "</td>", cols, cell);
    ll_html_put(h, "</tr>\n");
}

void ll_html_table_end(ll_html *h) {
    ll_html_put(h, "</tbody>\n</table>\n</div>\n");
}

/* ---- What the figures share ---- */

char *ll_html_path(ll_html *h, const char *name, const char *ending) {
    char file[128];
    if (h->status) return NULL;
    snprintf(file, sizeof file, "%s.%s", name, ending);
    char *path = ll_path_join(h->figures, file);
    const ll_status status = path ? keep_made(h, path) : LL_ENOMEM;
    if (!status) return path;
    ll_html_fail(h, status);
    ll_free(path);
    return NULL;
}

static void address(ll_html *h, const char *path) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    for (const char *c = path; *c; c++)
        if (strchr(plain, *c))
            put(h, c, 1);
        else
            ll_html_print(h, "%%%02X", (unsigned char)*c);
}

void ll_html_files(ll_html *h, const char *name) {
    for (int i = 0; i < 2; i++) {
        const char *ending = i ? "csv" : "svg";
        ll_html_put(h, i ? ", <a href=\"" : "<p class=\"note\">In files: <a href=\"");
        address(h, h->shown);
        ll_html_print(h, "/%s.%s\">%s.%s</a>", name, ending, name, ending);
    }
    ll_html_put(h, "</p>\n");
}
