/* Any bytes as CIFAR-10: refused, or whole records of classes that exist. */
#include <stdlib.h>

#include "data/cifar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t count = -1;
    if (ll_cifar_check(&count, data, size, "input")) {
        if (count != -1) abort();
        return 0;
    }
    if (count < 1 || (size_t)count * LL_CIFAR_RECORD != size) abort();
    uint8_t *pixels = malloc((size_t)count * LL_CIFAR_PIXELS), *labels = malloc((size_t)count);
    if (!pixels || !labels) abort();
    ll_cifar_gray(pixels, labels, data, count);
    for (int64_t i = 0; i < count; i++)
        if (labels[i] > 9) abort();
    free(pixels);
    free(labels);
    return 0;
}
