/* How libFuzzer changes an input that is a safetensors file: mostly within the header or within the data, with the
 * length in front made to fit again, so that what lies behind the first check is reached; else anywhere. */
#ifndef LL_SAFETENSORS_MUTATOR_H
#define LL_SAFETENSORS_MUTATOR_H

#include <string.h>

#include "fuzz/fuzz.h"

__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    uint64_t header = 0;
    if (size >= sizeof header) memcpy(&header, data, sizeof header);
    if (seed % 4 == 0 || size < sizeof header || header > size - sizeof header)
        return LLVMFuzzerMutate(data, size, most);
    const size_t begin = sizeof header + (size_t)header, rest = size - begin;
    const size_t room = most - sizeof header - (seed % 4 == 1 ? (size_t)header : rest);
    if (!room) return LLVMFuzzerMutate(data, size, most); /* the part is empty and has to stay so */
    if (seed % 4 == 1) return begin + LLVMFuzzerMutate(data + begin, rest, room);
    uint8_t *behind = malloc(rest + 1);
    check(behind != NULL);
    memcpy(behind, data + begin, rest);
    header = LLVMFuzzerMutate(data + sizeof header, (size_t)header, room);
    memcpy(data, &header, sizeof header);
    memcpy(data + sizeof header + header, behind, rest);
    free(behind);
    return sizeof header + (size_t)header + rest;
}

#endif
