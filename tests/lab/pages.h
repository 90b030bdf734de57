/* Checks of HTML pages, and folders of runs that pages are made of. */
#ifndef LL_PAGES_H
#define LL_PAGES_H

#include "runs.h"

#include <dirent.h>

#include "base/memory.h"
#include "base/text.h"

static inline int files_in(const char *folder, const char *part) {
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.' && strstr(e->d_name, part) != NULL;
    closedir(d);
    return n;
}

static inline char *page_at(const char *path) {
    ll_bytes b = slurp(path);
    return (char *)b.data; /* one zero byte follows; freed with ll_free */
}

static inline void has(const char *page, const char *text) {
    if (!strstr(page, text)) fail_msg("the page lacks %s", text);
}
static inline void lacks(const char *page, const char *text) {
    if (strstr(page, text)) fail_msg("the page has %s", text);
}

static inline int is_void(const char *name) {
    static const char *const list[] = {"meta", "img", "input", "br"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(name, list[i])) return 1;
    return 0;
}

/* Tags are closed in the order in which they were opened, each id occurs once, and nothing is loaded or run. */
static inline void check_page(const char *page) {
    char open[64][32];
    int depth = 0;
    for (const char *s = page; (s = strchr(s, '<')); s++) {
        char name[32] = "";
        const char *end = strchr(s, '>');
        assert_non_null(end);
        if (s[1] == '!') continue;
        if (s[1] == '/') {
            sscanf(s + 2, "%31[^ >]", name);
            if (!depth || strcmp(name, open[depth - 1]))
                fail_msg("</%s> closes <%s>: %.60s", name, depth ? open[depth - 1] : "", s);
            depth--;
            continue;
        }
        sscanf(s + 1, "%31[^ />]", name);
        if (end[-1] == '/' || is_void(name)) continue;
        assert_true(depth < 64);
        strcpy(open[depth++], name);
    }
    assert_int_equal(depth, 0);
    for (const char *s = page; (s = strstr(s, " id=\"")); s += 5) {
        char id[128];
        const size_t n = strcspn(s + 5, "\"");
        snprintf(id, sizeof id, " id=\"%.*s\"", (int)n, s + 5);
        if (strstr(s + 5, id)) fail_msg("%s is there twice", id);
    }
    lacks(page, "<script");
    lacks(page, "http:");
    lacks(page, "https:");
    lacks(page, "url(");
    lacks(page, "@import");
    has(page, "<!doctype html>");
    has(page, "default-src 'none'");
    has(page, "prefers-color-scheme: dark");
    has(page, "width=device-width");
    for (const char *s = page; (s = strstr(s, "<img ")); s++) {
        const char *end = strchr(s, '>'), *alt = strstr(s, "alt=\"");
        assert_true(alt && alt < end && alt[5] != '"');
    }
    for (const char *s = page; (s = strstr(s, "src=\"")); s++) assert_memory_equal(s + 5, "data:image/png;base64,", 22);
}

/* ---- Folders of runs ---- */

#define HEADER                                                                                                         \
    "step,seconds,tokens,loss,bits,valid_loss,valid_bits,valid_accuracy,learning_rate,gradient_norm,"                  \
    "tokens_per_second,memory_mib\n"

static inline size_t rows_of_metrics(char *csv, size_t capacity, int rows, int every) {
    size_t n = (size_t)snprintf(csv, capacity, "%s", HEADER);
    for (int i = 1; i <= rows; i++)
        n += (size_t)ll_format_text(csv + n, capacity - n, "%d,%d.5,%d,2,%.4f,%s,0.001,1.5,%d,%d\n", i * 10, i, i * 640,
                                    8.0 / i + 2, i % every ? ",," : "1.5,2.25,0.5", 1000 + i % 7, 20 + i);
    return n;
}

static inline void write_run(const char *folder, const char *recipe, int rows, int every) {
    const size_t capacity = 100 * (size_t)rows + 1000;
    char *csv = malloc(capacity), path[512];
    CHECK_OK(ll_folder_create(folder));
    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    CHECK_OK(ll_file_write(path, csv, rows_of_metrics(csv, capacity, rows, every)));
    snprintf(path, sizeof path, "%s/recipe.ini", folder);
    CHECK_OK(ll_file_write(path, recipe, strlen(recipe)));
    free(csv);
}

/* The beginning of a run in the key. */
#define KEY(look)                                                                                                      \
    "<li><svg viewBox=\"0 0 36 6\" aria-hidden=\"true\"><path class=\"line " look "\" d=\"M2 3H34\"/></svg>"

#endif
