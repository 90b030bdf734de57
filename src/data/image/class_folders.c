/* Folders of PNG files: a folder for each class, as torchvision's ImageFolder has them. Pictures are decoded and
 * resized one after the other. What the model reads is kept, in a temporary file if it is large. */
#include "base/file.h"
#include "base/memory.h"
#include "base/wrong_files.h"
#include "data/image/image.h"
#include "data/image/png_read.h"
#include "data/text/class_files.h"

enum { FILE_MOST = 1 << 28 };

typedef struct {
    const ll_reader_options *c;
    ll_class_files files;
    ll_resizing to; /* all have this size, that of ... */
    const char *first;
    int channels;
    uint8_t *image;  /* (height, width, channels) one of them */
    ll_spill pixels; /* (files, height, width, channels) */
} pictures;

/* Number i in an order that is the same each time, so that what is held out has all classes. */
static const ll_class_file *picture_at(const pictures *p, int64_t i) {
    return &p->files.file[ll_shuffle(i, p->files.count, 0, 0)];
}

static size_t numbers_of(const pictures *p) {
    return (size_t)p->to.width * (size_t)p->to.height * (size_t)p->channels;
}

/* Adds the pixels of a file of width x height. */
static ll_status resize(pictures *p, const uint8_t *pixels, int width, int height) {
    ll_resizer *resizer = NULL;
    ll_status status = ll_resizer_create(&resizer, p->channels, width, height, &p->to);
    if (!status) ll_resize(resizer, pixels, p->image);
    if (!status) status = ll_spill_add(&p->pixels, p->image, numbers_of(p));
    ll_resizer_free(resizer);
    return status;
}

/* The first picture says how large all are, unless the recipe does. */
static ll_status find_size(pictures *p, const char *path, int width, int height) {
    const int side = p->c->data.resize;
    p->first = path;
    p->to = (ll_resizing){side ? side : width, side ? side : height, side ? p->c->data.resize_side : 0,
                          p->c->data.resize_filter};
    p->image = ll_alloc(numbers_of(p), 1);
    return p->image ? LL_OK : LL_ENOMEM;
}

static ll_status read_one(pictures *p, int64_t i) {
    const char *path = picture_at(p, i)->path;
    ll_bytes file = {0};
    int width = 0, height = 0;
    uint8_t *pixels = NULL;
    ll_status status = ll_file_read(&file, path, FILE_MOST);
    if (!status) status = ll_png_size(&width, &height, file.data, file.size, path);
    if (!status && !p->image) status = find_size(p, path, width, height);
    if (!status && !p->c->data.resize && (width != p->to.width || height != p->to.height))
        status =
            ll_fail(LL_EINVAL, "%s has %d x %d pixels, and %s has %d x %d; set data.resize, which makes all as large",
                    path, width, height, p->first, p->to.width, p->to.height);
    if (!status && !(pixels = ll_alloc((size_t)width * (size_t)height, (size_t)p->channels))) status = LL_ENOMEM;
    if (!status) status = ll_png_pixels(pixels, p->channels, file.data, file.size, path);
    if (!status) status = resize(p, pixels, width, height);
    ll_free(pixels);
    ll_bytes_free(&file);
    return status;
}

/* Numbers of the classes, and their names where the recipe has none. */
static ll_status number_classes(ll_reader *r, const pictures *p, ll_labels *labels, const char *folder) {
    int most = 0;
    const int64_t count = p->files.count;
    ll_status status = LL_OK;
    for (int64_t i = 0; i < count && !status; i++) status = ll_labels_see(labels, &picture_at(p, i)->label, 0);
    if (!status) status = ll_labels_end(labels, &most, &r->class_names);
    if (!status && !(r->file[1].data = ll_alloc((size_t)count, 1))) status = LL_ENOMEM;
    const char *list = ll_class_list(p->c) ? ll_class_list(p->c) : r->class_names;
    for (int64_t i = 0; i < count && !status; i++)
        r->file[1].data[i] = (uint8_t)ll_label_number(list, &picture_at(p, i)->label);
    r->classes = p->c->classes > 0 ? p->c->classes : most + 1;
    if (!status && most >= r->classes)
        status = ll_fail(LL_EINVAL, "model.classes is %d, and %s has %d classes; set model.classes=%d", r->classes,
                         folder, most + 1, most + 1);
    return status;
}

static ll_status read_all(ll_reader *r, pictures *p, int split, const char *folder) {
    ll_labels *labels = NULL;
    ll_wrong_files wrong = {0};
    ll_status status = ll_labels_create(&labels, p->c, split, folder, NULL);
    if (!status) status = ll_class_files_find(&p->files, p->c, folder);
    if (!status) status = number_classes(r, p, labels, folder);
    for (int64_t i = 0; i < p->files.count && !status; i++)
        status = ll_wrong_files_add(&wrong, read_one(p, i), picture_at(p, i)->path);
    if (!status) status = ll_wrong_files_end(&wrong);
    if (!status) status = ll_spill_end(&p->pixels, &r->file[0]);
    r->left_out = p->files.left_out;
    ll_spill_free(&p->pixels);
    ll_free(p->image);
    ll_labels_free(labels);
    return status;
}

static ll_status open_folders(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    ll_status status = ll_split_source(&from, c, split, 0);
    pictures p = {.c = c, .channels = ll_channels(c), .pixels.name = from.path};
    if (!status && !ll_is_folder(from.path))
        status = ll_fail(LL_EINVAL, "%s is not a folder with a folder of PNG files for each class", from.path);
    if (!status) status = read_all(r, &p, split, from.path);
    const int64_t count = p.files.count;
    ll_class_files_free(&p.files);
    if (status) return ll_fail_in(status, from.key);
    const ll_image_set set = {r->file[0].data, r->file[1].data, count, p.to.width, p.to.height, p.channels, 1};
    return ll_images_use(r, c, split, from.path, &set);
}

const ll_format ll_format_png = {
    "png", 1u << LL_TASK_CLASSIFY, open_folders, ll_images_fill, sizeof(ll_images), ll_images_close, .images = 1,
    .unit = "number", .cut = LL_CUT_BYTE};
