/* Rows of numbers into files. */
#ifndef LL_ROWS_API_H
#define LL_ROWS_API_H

#include "longline/base.h"

LL_C_BEGIN

/* A file of rows of C floats, by its ending .safetensors, .npy or .csv (docs/format.md), written as they come: memory
 * does not grow, and the name is there when the file is whole. "-" is CSV on standard output. */
typedef struct ll_row_file ll_row_file;

/* per_token: a sequence has a row for every token, else one. LL_EINVAL for other endings. */
LL_API LL_MUST_USE ll_status ll_row_file_create(ll_row_file **rows, const char *path, int C, int per_token);
/* The n rows (n, C) of the next sequence. */
LL_API LL_MUST_USE ll_status ll_row_file_add(ll_row_file *rows, const char *id, const float *x, int n);
LL_API LL_MUST_USE ll_status ll_row_file_commit(ll_row_file *rows); /* frees, also on failure */
LL_API void ll_row_file_abandon(ll_row_file *rows);                 /* NULL is fine */

/* ---- Files that are whole or not there ---- */

/* Writes a text to `path`, which has its old content or this one, whatever happens meanwhile. LL_EIO says why not; a
 * device or a pipe is written to as it is. */
LL_API LL_MUST_USE ll_status ll_text_save(const char *path, const char *text, size_t size);
/* Reads a safetensors file and compares every tensor with its checksum: how many there are, and how many of them had
 * one, which was right. LL_EFORMAT names the first that is not what was written. O(bytes). */
LL_API LL_MUST_USE ll_status ll_tensor_file_check(const char *path, int *tensors, int *checked);

LL_C_END

#endif
