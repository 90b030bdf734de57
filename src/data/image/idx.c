/* Images with labels in the idx format (MNIST, Fashion-MNIST). All numbers are big-endian:
 *
 *     images   0x00000803, count, height, width (4 bytes each), then one byte a pixel, row by row
 *     colours  0x00000804, count, height, width, 3 (4 bytes each), then red, green and blue of each pixel
 *     labels   0x00000801, count               (4 bytes each), then one byte a label
 *
 * An image becomes a sequence of numbers 0..255 in the order of the file. A file that differs from what
 * its header says is refused, because a wrong byte in the middle of data is seldom the only one. Offsets in errors
 * count unpacked bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/image/idx.h"
#include "data/image/image.h"

enum { MAGIC_LABELS = 0x801, MAGIC_IMAGES = 0x803, MAGIC_COLOURS = 0x804 };

static uint32_t number(const uint8_t *p) { return ll_big_endian(p, 4); }

size_t ll_idx_header_size(const uint8_t header[LL_IDX_HEADER]) {
    return number(header) == MAGIC_COLOURS ? LL_IDX_HEADER_COLOURS : LL_IDX_HEADER;
}

/* What both kinds of file share: enough bytes for a header, and the right magic. */
static ll_status check_header(const uint8_t *data, size_t size, const char *name, uint32_t magic) {
    const int is_images = magic == MAGIC_IMAGES;
    const char *const kind = is_images ? "images" : "labels";
    const int colours = is_images && size >= 4 && number(data) == MAGIC_COLOURS;
    const size_t header = colours ? LL_IDX_HEADER_COLOURS : is_images ? LL_IDX_HEADER : 8;
    if (size < header)
        return ll_fail(LL_EFORMAT, "%s: the file ends at byte %zu; an idx file of %s has a header of %zu bytes", name,
                       size, kind, header);
    const uint32_t found = number(data);
    if (found == magic || colours) return LL_OK;
    const char *const hint =
        found == (is_images ? MAGIC_LABELS : MAGIC_IMAGES) ? "; images and labels seem to be exchanged" : "";
    return ll_fail(LL_EFORMAT, "%s: byte 0 has magic 0x%08" PRIx32 ", expected 0x%08" PRIx32 " for idx %s%s", name,
                   found, magic, kind, hint);
}

static ll_status check_size(size_t size, uint64_t expected, const char *name, const char *what) {
    if (size < expected)
        return ll_fail(LL_EFORMAT, "%s: the file ends at byte %zu, expected %" PRIu64 " bytes for %s; it is truncated",
                       name, size, expected, what);
    if (size > expected)
        return ll_fail(LL_EFORMAT,
                       "%s: %zu bytes, expected %" PRIu64 " for %s; from byte %" PRIu64 " on they are too many", name,
                       size, expected, what, expected);
    return LL_OK;
}

static ll_status check_side(const uint8_t *data, int at, const char *name, const char *what) {
    const uint32_t side = number(data + at);
    if (side >= 1 && side <= LL_SIDE_MOST) return LL_OK;
    return ll_fail(LL_EFORMAT, "%s: byte %d has %s %" PRIu32 ", expected 1..%d", name, at, what, side, LL_SIDE_MOST);
}

ll_status ll_idx_images_header(ll_idx *images, const uint8_t *data, size_t size, const char *name) {
    ll_status status = check_header(data, size, name, MAGIC_IMAGES);
    if (!status) status = check_side(data, 8, name, "height");
    if (!status) status = check_side(data, 12, name, "width");
    if (status) return status;
    const uint32_t count = number(data + 4), height = number(data + 8), width = number(data + 12);
    if (count == 0) return ll_fail(LL_EFORMAT, "%s: byte 4 has count 0, expected at least 1 image", name);
    const int channels = ll_idx_header_size(data) == LL_IDX_HEADER_COLOURS ? 3 : 1;
    if (channels == 3 && number(data + 16) != 3)
        return ll_fail(LL_EFORMAT, "%s: byte 16 has %" PRIu32 " numbers a pixel, expected 3: red, green, blue", name,
                       number(data + 16));
    *images = (ll_idx){count, (int)width, (int)height, channels, NULL};
    return LL_OK;
}

ll_status ll_idx_labels_header(int64_t *count, const uint8_t *data, size_t size, const char *name) {
    const ll_status status = check_header(data, size, name, MAGIC_LABELS);
    if (!status) *count = number(data + 4);
    return status;
}

ll_status ll_idx_images(ll_idx *images, const uint8_t *data, size_t size, const char *name) {
    ll_idx found;
    ll_status status = ll_idx_images_header(&found, data, size, name);
    if (status) return status;
    char what[64];
    const size_t header = ll_idx_header_size(data);
    const uint64_t image = (uint64_t)found.height * (uint64_t)found.width * (uint64_t)found.channels;
    snprintf(what, sizeof what, "%" PRId64 " images of %d x %d", found.count, found.width, found.height);
    status = check_size(size, header + (uint64_t)found.count * image, name, what);
    if (status) return status;
    found.pixels = data + header;
    *images = found;
    return LL_OK;
}

ll_status ll_idx_labels(const uint8_t **labels, int *most, const uint8_t *data, size_t size, const char *name,
                        int64_t count, const char *images, int classes) {
    ll_status status = check_header(data, size, name, MAGIC_LABELS);
    if (status) return status;
    const uint32_t found = number(data + 4);
    if (found != count)
        return ll_fail(LL_EFORMAT, "%s: byte 4 has %" PRIu32 " labels, expected %" PRId64 ", one for each image of %s",
                       name, found, count, images);
    char what[32];
    snprintf(what, sizeof what, "%" PRIu32 " labels", found);
    status = check_size(size, 8 + (uint64_t)found, name, what);
    if (status) return status;
    int largest = 0;
    for (size_t i = 0; i < found; i++) {
        const int label = data[8 + i];
        if (classes > 0 && label >= classes)
            return ll_fail(LL_EFORMAT, "%s: byte %zu has label %d, expected 0..%d (model.classes=%d)", name, 8 + i,
                           label, classes - 1, classes);
        if (label > largest) largest = label;
    }
    *labels = data + 8;
    *most = largest;
    return LL_OK;
}

/* Published images are called "train-images-idx3-ubyte.gz" or "t10k-images.idx3-ubyte", and the labels beside them
 * "train-labels-idx1-ubyte.gz". Both names have the same length. Overwrites the name of the images with that of the
 * labels; 0: the name is not of this form. */
static int name_labels(char *path) {
    static const char *const published[] = {"images-idx3-ubyte", "images.idx3-ubyte"};
    const char *slash = strrchr(path, '/');
    for (int i = 0; i < 2; i++) {
        char *at = strstr(slash ? slash + 1 : path, published[i]);
        if (!at) continue;
        memcpy(at, "labels", 6);
        memcpy(at + 7, "idx1", 4);
        return 1;
    }
    return 0;
}

/* Opens the labels that the recipe names, or else those beside images with a published name; *beside is then their
 * path. */
static ll_status find_labels(ll_source *labels, char **beside, const ll_reader_options *c, int split,
                             const char *images) {
    static const char *const keys[3] = {"data.train-labels", "data.valid-labels", "data.test-labels"};
    const char *const named[3] = {c->data.train_labels, c->data.valid_labels, c->data.test_labels};
    const int from = split == LL_SPLIT_VALID && ll_split_is_cut(c) ? LL_SPLIT_TRAIN : split;
    const int is_named = (named[from] && *named[from]) || (named[split] && *named[split]);
    char *path = ll_strdup(images);
    if (!path) return LL_ENOMEM;
    if (is_named || !name_labels(path)) {
        ll_free(path);
        return ll_split_source(labels, c, split, 1);
    }
    *labels = (ll_source){keys[from], path};
    *beside = path;
    return LL_OK;
}

static ll_status open_idx(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from[2] = {{0}};
    ll_idx images = {0};
    const uint8_t *labels = NULL;
    char *beside = NULL;
    int most = 0;
    ll_status status = ll_split_source(&from[0], c, split, 0);
    for (int i = 0; i < 2 && !status; i++) {
        if (i) status = find_labels(&from[1], &beside, c, split, from[0].path);
        if (status) break;
        status = ll_file_take(&r->file[i], from[i].path);
        if (status == LL_EIO && from[i].path == beside)
            status = ll_fail(LL_EINVAL, "no labels beside the images: %s; name them in %s", ll_error(), from[i].key);
        else if (status)
            status = ll_fail_in(status, from[i].key);
        /* Before the labels are looked for: these may be the labels. */
        if (!i && !status) status = ll_idx_images(&images, r->file[0].data, r->file[0].size, from[0].path);
    }
    if (!status)
        status = ll_idx_labels(&labels, &most, r->file[1].data, r->file[1].size, from[1].path, images.count,
                               from[0].path, c->classes);
    ll_free(beside);
    if (status) return status;
    r->classes = c->classes > 0 ? c->classes : most + 1;
    const ll_image_set set = {images.pixels, labels, images.count, images.width, images.height, images.channels};
    return ll_images_use(r, c, split, from[0].path, &set);
}

const ll_format ll_format_idx = {
    "idx", 1u << LL_TASK_CLASSIFY, open_idx, ll_images_fill, sizeof(ll_images), ll_images_close, .images = 1,
    .unit = "number", .cut = LL_CUT_BYTE};
