/* Any bytes as CIFAR-10: refused, or whole records of classes that exist. */
#include "data/image/cifar.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t count = -1;
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
