/* The safetensors format. Sizes, depth, overlaps and overflow are checked before use. */
#ifndef LL_SAFETENSORS_H
#define LL_SAFETENSORS_H

#include "base/file.h"

enum ll_dtype { LL_F32, LL_F64, LL_I32, LL_I64, LL_U8, LL_ST_I8, LL_ST_F16, LL_ST_BF16, LL_OTHER };

enum { LL_ST_RANK_MOST = 8 };

typedef struct {
    char *name;
    enum ll_dtype dtype;
    int rank;
    size_t shape[LL_ST_RANK_MOST];
    size_t count; /* elements */
    size_t bytes;
    const void *data; /* inside the file's bytes; may be unaligned */
} ll_st_tensor;

typedef struct ll_safetensors ll_safetensors;

/* Opens a file, maps it, and checks everything, the checksums of tensors too, on all threads. */
LL_MUST_USE ll_status ll_safetensors_open(ll_safetensors **file, const char *path);
/* The same for bytes in memory, which must outlive the object. `name` is how messages call them. */
LL_MUST_USE ll_status ll_safetensors_parse(ll_safetensors **file, const void *bytes, size_t size, const char *name);
/* The same for bytes that belong to the object from now on, also where this fails. */
LL_MUST_USE ll_status ll_safetensors_take(ll_safetensors **file, ll_bytes *bytes, const char *name);
void ll_safetensors_free(ll_safetensors *file);
const char *ll_safetensors_path(const ll_safetensors *file);
/* The header as it stands in the file. */
const char *ll_safetensors_header(const ll_safetensors *file, size_t *size);
/* All bytes of the file. */
const ll_bytes *ll_safetensors_bytes(const ll_safetensors *file);
/* The metadata value of a key, or NULL. */
const char *ll_safetensors_meta(const ll_safetensors *file, const char *key);
int ll_safetensors_count(const ll_safetensors *file);
const ll_st_tensor *ll_safetensors_at(const ll_safetensors *file, int i);
const ll_st_tensor *ll_safetensors_find(const ll_safetensors *file, const char *name); /* or NULL */
/* The number of tensors that had a checksum in the file; the others had none. A file with a wrong checksum does not
 * open. */
int ll_safetensors_checked(const ll_safetensors *file);
/* Copies a numeric tensor of any type into floats or doubles; `count` elements. LL_OTHER becomes NaN. */
void ll_st_floats(float *out, const ll_st_tensor *tensor);
void ll_st_doubles(double *out, const ll_st_tensor *tensor);

/* An LL_ST_F16 or LL_ST_BF16 number as a float, and a float rounded to such a number, ties to even. */
float ll_float16_to_float(enum ll_dtype dtype, uint16_t bits);
uint16_t ll_float16_from_float(enum ll_dtype dtype, float x);

/* Writing: add metadata and tensors, then save atomically. Data are borrowed until then. The data begin at a multiple
 * of 64 in the file. Since the format allows no gaps, a tensor is aligned only to the size of its element. */
typedef struct ll_st_writer ll_st_writer;
LL_MUST_USE ll_status ll_st_writer_create(ll_st_writer **writer);
void ll_st_writer_free(ll_st_writer *writer);
LL_MUST_USE ll_status ll_st_meta(ll_st_writer *writer, const char *key, const char *value);
LL_MUST_USE ll_status ll_st_add(ll_st_writer *writer, const char *name, enum ll_dtype dtype, int rank,
                                const size_t *shape, const void *data);
LL_MUST_USE ll_status ll_st_save(ll_st_writer *writer, const char *path);
/* Saves into memory, which the caller frees with ll_free. */
LL_MUST_USE ll_status ll_st_bytes(ll_st_writer *writer, ll_bytes *bytes);
/* The metadata key of a tensor's checksum, "xxh3.NAME", in new memory (NULL if there is none); and the checksum: 64-bit
 * XXH3 of the tensor's bytes, as 16 hexadecimal digits. */
enum { LL_CHECKSUM_TEXT = 17 };
char *ll_st_checksum_key(const char *name);
void ll_st_checksum(char hex[LL_CHECKSUM_TEXT], const void *data, size_t size);

/* An identifier of the contents so far: metadata, tensors and their bytes. It does not
 * depend on the file. Different contents do not get the same identifier by accident, but somebody could construct
 * such contents. */
enum { LL_DIGEST_TEXT = 33 };
void ll_st_digest(const ll_st_writer *writer, char hex[LL_DIGEST_TEXT]);

#endif
