/* What the reader and the writer of safetensors must agree on. */
#ifndef LL_SAFETENSORS_FORMAT_H
#define LL_SAFETENSORS_FORMAT_H

#include "base/safetensors.h"

/* The metadata key of the header's own checksum: the sum of that of each item, modulo 2^64, as 16 hexadecimal digits.
 * Items are the other metadata, key and value, and tensors, name, type and shape. Their order does not matter, so that
 * a program that writes the same header in another way keeps it. */
#define LL_ST_HEADER_KEY "xxh3"
uint64_t ll_st_item_sum(const char *key, const char *value, const size_t *shape, int rank);

/* A header of this size describes 100,000 tensors. Parsed, it takes about twenty times as much memory. */
enum { LL_ST_HEADER_MOST = 1 << 24 };

/* Types as a header names them, with the bytes of an element. Row t is that of type t. Types whose numbers are not read
 * follow. */
static const struct {
    const char *name;
    enum ll_dtype dtype;
    size_t size;
} ll_st_types[] = {
    [LL_F32] = {"F32", LL_F32, 4},
    [LL_F64] = {"F64", LL_F64, 8},
    [LL_I32] = {"I32", LL_I32, 4},
    [LL_I64] = {"I64", LL_I64, 8},
    [LL_U8] = {"U8", LL_U8, 1},
    [LL_ST_I8] = {"I8", LL_ST_I8, 1},
    [LL_ST_F16] = {"F16", LL_ST_F16, 2},
    [LL_ST_BF16] = {"BF16", LL_ST_BF16, 2},
    [LL_OTHER] = {"BOOL", LL_OTHER, 1},
    {"F8_E4M3", LL_OTHER, 1},
    {"F8_E5M2", LL_OTHER, 1},
    {"F8_E8M0", LL_OTHER, 1},
    {"I16", LL_OTHER, 2},
    {"U16", LL_OTHER, 2},
    {"U32", LL_OTHER, 4},
    {"U64", LL_OTHER, 8},
    {"C64", LL_OTHER, 8},
};

#endif
