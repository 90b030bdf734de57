/* Any bytes as a file of images and as a file of labels: refused, or read within their bounds. */
#include "data/image/idx.h"
#include "fuzz/read_all.h"

static void as_images(const uint8_t *data, size_t size) {
    ll_idx images = {0};
    if (ll_idx_images(&images, data, size, "input")) {
        check(images.pixels == NULL);
        return;
    }
    const size_t pixels = (size_t)images.count * (size_t)images.height * (size_t)images.width * (size_t)images.channels;
    check(images.count > 0 && images.width > 0 && images.height > 0);
    check(images.pixels + pixels == data + size);
}

static void as_labels(const uint8_t *data, size_t size, int64_t count, int classes) {
    const uint8_t *labels = NULL;
    int most = -1;
    int64_t said = -1;
    (void)!ll_idx_labels_header(&said, data, size, "input");
    if (ll_idx_labels(&labels, &most, data, size, "input", count, "images", classes)) {
        check(labels == NULL && most == -1);
        return;
    }
    check(labels + count == data + size);
    for (int64_t i = 0; i < count; i++) check(labels[i] <= most);
    check(classes == 0 || most < classes);
}

/* The file with labels for it, of 0 to 9: beside it under the published name, or named by the recipe. */
static void as_data(const uint8_t *data, size_t size) {
    static uint8_t labels[8 + 4096] = {0, 0, 8, 1};
    char images[160];
    ll_idx found = {0};
    const int bad = ll_idx_images(&found, data, size, "input") != LL_OK;
    const int64_t count = bad ? 3 : found.count;
    if (count > 4096) return;
    labels[6] = (uint8_t)(count >> 8), labels[7] = (uint8_t)count;
    for (int64_t i = 0; i < count; i++) labels[8 + i] = (uint8_t)(i * 7 % 10);
    ll_reader_options c = {.task = LL_TASK_CLASSIFY, .batch = 2, .data = {.format = LL_DATA_IDX}};
    char *named = strdup(in_memory(data, size));
    c.data.test = named;
    read_all(&c, "test"); /* no labels */
    c.data.test_labels = named;
    read_all(&c, "test"); /* images are no labels */
    c.data.test_labels = NULL;
    (void)snprintf(images, sizeof images, "%s", file_of("t10k-images-idx3-ubyte", data, size));
    c.data.train = images;
    c.data.valid_fraction = 0.4;
    (void)unlink(file_of("t10k-labels-idx1-ubyte", labels, 0));
    read_all(&c, "train");
    file_of("t10k-labels-idx1-ubyte", labels, 8 + (size_t)count);
    read_all(&c, "train");
    read_all(&c, "valid");
    free(named);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    as_data(data, size);
    as_images(data, size);
    as_labels(data, size, 3, 10);
    as_labels(data, size, size > 8 ? (int64_t)size - 8 : 0, 0);
    return 0;
}
