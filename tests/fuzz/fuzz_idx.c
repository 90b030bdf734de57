/* Any bytes as a file of images and as a file of labels: refused, or read within their bounds. */
#include "data/image/idx.h"
#include "fuzz/fuzz.h"

static void as_images(const uint8_t *data, size_t size) {
    ll_idx images = {0};
    if (ll_idx_images(&images, data, size, "input")) {
        check(images.pixels == NULL);
        return;
    }
    const size_t pixels =
        (size_t)images.count * (size_t)images.height * (size_t)images.width * (size_t)images.channels;
    check(images.count > 0 && images.width > 0 && images.height > 0);
    check(images.pixels + pixels == data + size);
}

static void as_labels(const uint8_t *data, size_t size, int64_t count, int classes) {
    const uint8_t *labels = NULL;
    int most = -1;
    if (ll_idx_labels(&labels, &most, data, size, "input", count, "images", classes)) {
        check(labels == NULL && most == -1);
        return;
    }
    check(labels + count == data + size);
    for (int64_t i = 0; i < count; i++) check(labels[i] <= most);
    check(classes == 0 || most < classes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    as_images(data, size);
    as_labels(data, size, 3, 10);
    as_labels(data, size, size > 8 ? (int64_t)size - 8 : 0, 0);
    return 0;
}
