/* Rows of numbers into files. */
#ifndef LL_ROWS_API_H
#define LL_ROWS_API_H

#include "longline/base.h"

LL_C_BEGIN

/* A file of rows of C floats; its ending .safetensors, .npy or .csv gives the format (docs/format.md). Rows are written
 * as they arrive, so memory does not grow. The file gets its name when it is complete. "-" is CSV on standard
 * output. */
typedef struct ll_row_file ll_row_file;

/* per_token: a sequence has a row for every token, else one. LL_EINVAL for other endings. */
LL_API LL_MUST_USE ll_status ll_row_file_create(ll_row_file **rows, const char *path, int C, int per_token);
/* The n rows (n, C) of the next sequence. */
LL_API LL_MUST_USE ll_status ll_row_file_add(ll_row_file *rows, const char *id, const float *x, int n);
LL_API LL_MUST_USE ll_status ll_row_file_commit(ll_row_file *rows); /* frees, also on failure */
LL_API void ll_row_file_abandon(ll_row_file *rows);                 /* NULL is fine */

/* ---- Files written as a whole ---- */

/* Writes a text to `path` atomically: the file has either its old content or this one. LL_EIO says why it failed.
 * Devices and pipes are written to directly. */
LL_API LL_MUST_USE ll_status ll_text_save(const char *path, const char *text, size_t size);
/* The same for a text that does not fit into memory. It is written to the descriptor *fd, and gets its name when it is
 * complete. Devices and pipes are LL_EIO. */
typedef struct ll_text_file ll_text_file;
LL_API LL_MUST_USE ll_status ll_text_file_create(ll_text_file **file, const char *path, int *fd);
LL_API LL_MUST_USE ll_status ll_text_file_commit(ll_text_file *file); /* frees, also on failure */
LL_API void ll_text_file_abandon(ll_text_file *file);                 /* NULL is fine */
/* Reads a safetensors file and compares every tensor with its checksum. Counts the tensors, and those with a checksum,
 * which was right. LL_EFORMAT names the first damaged tensor. O(bytes). */
LL_API LL_MUST_USE ll_status ll_tensor_file_check(const char *path, int *tensors, int *checked);

LL_C_END

#endif
