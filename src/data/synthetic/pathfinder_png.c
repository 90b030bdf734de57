/* Pathfinder in its original folders, as the archive of the Long-Range Arena contains them:
 *
 *     metadata/NAME.npy text, in spite of its name. A line is an image. Its words 1, 2 and 4 are the folder, the file
 *                           and the class: "imgs/0 sample_12.png 12 1 1.0 14 4 2 0.5 1 1"
 *     imgs/0/sample_12.png */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/image/image.h"
#include "data/image/png_read.h"

enum { WORDS = 4, PATH = 4096 };

static const size_t FILE_MOST = (size_t)1 << 30;

typedef struct {
    const char *folder;
    ll_spill pixels, labels;
    uint8_t *image; /* one of them, (height, width) */
    int width, height;
} gallery;

static ll_status add_image(gallery *g, const char *path, int label) {
    ll_bytes file = {0};
    int width = 0, height = 0;
    ll_status status = ll_file_read(&file, path, FILE_MOST);
    if (!status) status = ll_png_size(&width, &height, file.data, file.size, path);
    if (!status && !g->image) {
        g->width = width, g->height = height;
        if (!(g->image = ll_alloc((size_t)width, (size_t)height))) status = LL_ENOMEM;
    }
    if (!status && (width != g->width || height != g->height))
        status = ll_fail(LL_EFORMAT, "%s: %d x %d pixels, but the first image has %d x %d", path, width, height,
                         g->width, g->height);
    if (!status) status = ll_png_pixels(g->image, 1, file.data, file.size, path);
    if (!status) status = ll_spill_add(&g->pixels, g->image, (size_t)width * (size_t)height);
    if (!status) status = ll_spill_add(&g->labels, &(uint8_t){(uint8_t)label}, 1);
    ll_bytes_free(&file);
    return status;
}

/* A name that does not lead out of the folder. */
static int is_inside(const char *word, size_t n) {
    if (!n || word[0] == '/') return 0;
    for (size_t i = 0; i + 1 < n; i++)
        if (word[i] == '.' && word[i + 1] == '.') return 0;
    return 1;
}

static ll_status add_line(gallery *g, const char *text, const char *name, int64_t line) {
    const char *word[WORDS];
    size_t size[WORDS];
    char path[PATH];
    for (int i = 0; i < WORDS; i++) {
        text += strspn(text, " \t");
        word[i] = text;
        size[i] = strcspn(text, " \t\r\n");
        text += size[i];
    }
    if (size[3] != 1 || (word[3][0] != '0' && word[3][0] != '1') || !is_inside(word[0], size[0]) ||
        !is_inside(word[1], size[1]))
        return ll_fail(LL_EFORMAT, "%s: line %" PRId64 " is not: a folder, a file, a number, a class 0 or 1, ...", name,
                       line);
    const int n = snprintf(path, sizeof path, "%s/%.*s/%.*s", g->folder, (int)size[0], word[0], (int)size[1], word[1]);
    if (n < 0 || n >= (int)sizeof path)
        return ll_fail(LL_EFORMAT, "%s: line %" PRId64 " names too long a path", name, line);
    return add_image(g, path, word[3][0] - '0');
}

static ll_status add_list(gallery *g, const char *name) {
    ll_bytes text = {0};
    int64_t line = 0;
    ll_status status = ll_file_read(&text, name, FILE_MOST);
    if (!status && text.size >= 6 && !memcmp(text.data, "\x93NUMPY", 6))
        status = ll_fail(LL_EFORMAT, "%s is an array of NumPy; the arena's lists are lines of text", name);
    for (const char *at = (const char *)text.data, *end; !status && at && *at; at = end) {
        end = strchr(at, '\n');
        end = end ? end + 1 : at + strlen(at);
        line++;
        if (at[strspn(at, " \t\r\n")] && at + strspn(at, " \t\r") < end && at[strspn(at, " \t\r")] != '\n')
            status = add_line(g, at, name, line);
    }
    ll_bytes_free(&text);
    return status;
}

static ll_status open_pathfinder(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    char **names = NULL;
    int lists = 0;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    char *metadata = ll_path_join(from.path, "metadata");
    if (!metadata) return LL_ENOMEM;
    gallery g = {.folder = from.path, .pixels.name = from.path, .labels.name = from.path};
    status = ll_folder_list(&names, &lists, metadata);
    for (int i = 0; i < lists && !status; i++) status = add_list(&g, names[i]);
    const int64_t count = (int64_t)g.labels.bytes.size;
    if (!status && !count) status = ll_fail(LL_EFORMAT, "%s: its lists name no image", metadata);
    if (!status) status = ll_spill_end(&g.pixels, &r->file[0]);
    if (!status) status = ll_spill_end(&g.labels, &r->file[1]);
    ll_spill_free(&g.pixels);
    ll_spill_free(&g.labels);
    ll_free(g.image);
    ll_names_free(names, lists);
    ll_free(metadata);
    if (status) return ll_fail_in(status, from.key);
    r->classes = c->classes > 0 ? c->classes : 2;
    if (r->classes < 2)
        return ll_fail(LL_EINVAL, "model.classes is %d, and pathfinder has 2 classes; set model.classes=2",
                       c->classes);
    const ll_image_set set = {r->file[0].data, r->file[1].data, count, g.width, g.height, 1};
    return ll_images_use(r, c, split, from.path, &set);
}

const ll_format ll_format_pathfinder = {
    "pathfinder", 1u << LL_TASK_CLASSIFY, open_pathfinder, ll_images_fill, sizeof(ll_images), ll_images_close,
    .images = 1, .unit = "number", .cut = LL_CUT_BYTE};
