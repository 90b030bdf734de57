/* Any bytes as CIFAR-10: refused, or whole records of classes that exist. */
#include "data/image/cifar.h"
#include "fuzz/read_all.h"

/* As a file, and as one of the published folder, in colours and in gray. */
static void as_data(const uint8_t *data, size_t size) {
    ll_reader_options c = {.task = LL_TASK_CLASSIFY, .batch = 2, .data = {.format = LL_DATA_CIFAR10}};
    char *path = strdup(in_memory(data, size));
    c.data.test = path;
    read_all(&c, "test");
    c.channels = 3;
    read_all(&c, "test");
    c.classes = 3;
    read_all(&c, "test");
    c.classes = 10;
    (void)file_of("data_batch_1.bin", data, size);
    c.data.train = own_folder;
    c.data.test = own_folder;
    read_all(&c, "train");
    read_all(&c, "test"); /* there is no test_batch.bin */
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t count = -1;
    as_data(data, size);
    if (ll_cifar_check(&count, &(ll_bytes){(uint8_t *)data, size}, "input")) {
        check(count == -1);
        return 0;
    }
    check(count >= 1 && (size_t)count * LL_CIFAR_RECORD == size);
    uint8_t *pixels = malloc((size_t)count * LL_CIFAR_PIXELS), *labels = malloc((size_t)count);
    check(pixels && labels);
    ll_cifar_pixels(pixels, 1, labels, data, count);
    for (int64_t i = 0; i < count; i++) check(labels[i] <= 9);
    free(pixels);
    free(labels);
    return 0;
}
