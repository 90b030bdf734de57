/* CIFAR-10 in its binary form: for each image a byte 0..9, then 32 x 32 bytes each of red, green and blue, row by row.
 * Images are read as gray sequences of 1024 tokens, as in the Long-Range Arena, or with model.channels = 3 in colour.
 * The files are data_batch_1.bin .. data_batch_5.bin and test_batch.bin. */
#include "data/image/cifar.h"

#include <inttypes.h>
#include <string.h>

#include "data/file_list.h"
#include "data/image/image.h"

enum { CLASSES = 10 };

ll_status ll_cifar_check(int64_t *count, const ll_bytes *file, const char *name) {
    const uint8_t *data = file->data;
    const size_t size = file->size;
    size_t left = 0;
    if (!size || size % LL_CIFAR_RECORD)
        return ll_fail(LL_EFORMAT,
                       "%s: %zu bytes; a file of CIFAR-10's binary version has %d for each image; it is truncated, or "
                       "another version",
                       name, size, LL_CIFAR_RECORD);
    for (size_t at = 0; at < size; at += LL_CIFAR_RECORD) {
        ll_bytes_pass(file, at, &left);
        if (data[at] >= CLASSES)
            return ll_fail(LL_EFORMAT, "%s: byte %zu has label %d, expected 0..%d", name, at, data[at], CLASSES - 1);
    }
    *count = (int64_t)(size / LL_CIFAR_RECORD);
    return LL_OK;
}

/* The result of TensorFlow's rgb_to_grayscale for bytes, to the last bit: a weighted mean in 0..1, in float, then 255.5
 * times that, rounded down. */
static uint8_t gray(uint8_t red, uint8_t green, uint8_t blue) {
    const float unit = 1.0f / 255, r = (float)red * unit, g = (float)green * unit, b = (float)blue * unit;
    return (uint8_t)((r * 0.2989f + g * 0.5870f + b * 0.1140f) * 255.5f);
}

void ll_cifar_pixels(uint8_t *pixels, int channels, uint8_t *labels, const uint8_t *data, int64_t count) {
    for (int64_t i = 0; i < count; i++, data += LL_CIFAR_RECORD) {
        const uint8_t *red = data + 1, *green = red + LL_CIFAR_PIXELS, *blue = green + LL_CIFAR_PIXELS;
        labels[i] = data[0];
        for (int p = 0; p < LL_CIFAR_PIXELS; p++) {
            if (channels == 1) {
                *pixels++ = gray(red[p], green[p], blue[p]);
            } else {
                *pixels++ = red[p], *pixels++ = green[p], *pixels++ = blue[p];
            }
        }
    }
}

/* Does a list of paths with ':' between them name this file itself, and not a folder that has it? */
static int is_named(const char *list, const char *file) {
    const size_t n = strlen(file);
    for (const char *p = list; (p = strstr(p, file)); p++)
        if ((p == list || p[-1] == ':') && (!p[n] || p[n] == ':')) return 1;
    return 0;
}

/* Of an unpacked folder the files that belong to a split; and every file that is named itself. */
static int belongs(const char *list, const char *file, int split) {
    const char *name = strrchr(file, '/'), *start = split == LL_SPLIT_TEST ? "test_batch" : "data_batch";
    name = name ? name + 1 : file;
    return is_named(list, file) || !strncmp(name, start, strlen(start));
}

/* A folder has no files of valid, so that those of train would be measured on. */
static ll_status check_valid(const ll_reader_options *c, const char *path, int split) {
    char shared[8];
    if (split != LL_SPLIT_VALID || ll_split_is_cut(c) || !c->data.train || !ll_is_folder(path) ||
        !ll_is_folder(c->data.train) ||
        !ll_files_shared(shared, sizeof shared, belongs, path, split, c->data.train, LL_SPLIT_TRAIN))
        return LL_OK;
    return ll_fail(
        LL_EINVAL,
        "data.valid is the folder of data.train, %s, whose images are trained on; name files of their own, or "
        "in a new run leave data.valid empty: data.valid-fraction of data.train is held out",
        path);
}

/* Adds the images of a file, one by one, in the kind of pixels that the recipe asks for. */
static ll_status add_file(ll_spill set[2], int channels, const char *path) {
    ll_bytes file = {0};
    int64_t count = 0;
    uint8_t image[3 * LL_CIFAR_PIXELS], label;
    size_t left = 0;
    ll_status status = ll_file_take(&file, path);
    if (!status) status = ll_cifar_check(&count, &file, path);
    for (size_t at = 0; !status && at < file.size; at += LL_CIFAR_RECORD) {
        ll_cifar_pixels(image, channels, &label, file.data + at, 1);
        status = ll_spill_add(&set[0], image, LL_CIFAR_PIXELS * (size_t)channels);
        if (!status) status = ll_spill_add(&set[1], &label, 1);
        ll_bytes_pass(&file, at, &left);
    }
    ll_bytes_free(&file);
    return status;
}

static ll_status open_cifar(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    char **names = NULL;
    int files = 0;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (!status) status = check_valid(c, from.path, split);
    if (!status) status = ll_files_list(&names, &files, from.path);
    if (status) return status;
    ll_spill set[2] = {{.name = from.path}, {.name = from.path}};
    for (int i = 0; i < files && !status; i++)
        if (belongs(from.path, names[i], split)) status = add_file(set, ll_channels(c), names[i]);
    const int64_t count = (int64_t)set[1].bytes.size;
    for (int i = 0; i < 2; i++) {
        if (!status) status = ll_spill_end(&set[i], &r->file[i]);
        ll_spill_free(&set[i]);
    }
    ll_names_free(names, files);
    if (!status && !count)
        status = ll_fail(LL_EINVAL, "%s: no %s in this folder", from.path,
                         split == LL_SPLIT_TEST ? "test_batch.bin" : "data_batch_1.bin or the like");
    if (status) return ll_fail_in(status, from.key);
    r->classes = c->classes > 0 ? c->classes : CLASSES;
    if (r->classes < CLASSES)
        return ll_fail(LL_EINVAL, "model.classes is %d, and CIFAR-10 has %d classes; set model.classes=%d",
                       c->classes, CLASSES, CLASSES);
    const ll_image_set all = {r->file[0].data, r->file[1].data, count,
                              LL_CIFAR_SIDE,   LL_CIFAR_SIDE,   ll_channels(c)};
    return ll_images_use(r, c, split, from.path, &all);
}

const ll_format ll_format_cifar10 = {
    "cifar10", 1u << LL_TASK_CLASSIFY, open_cifar, ll_images_fill, sizeof(ll_images), ll_images_close, .pick = belongs,
    .images = 1, .unit = "number", .cut = LL_CUT_BYTE};
