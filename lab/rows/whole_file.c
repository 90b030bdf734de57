/* Files that are written as a whole, and the check of a tensor file's checksums. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "longline-lab.h"

/* /dev/stdout, or a pipe: it cannot be replaced. */
static ll_status write_through(const char *path, const char *text, size_t size) {
    FILE *file = fopen(path, "we");
    int bad = !file || fwrite(text, 1, size, file) != size;
    if (file && fclose(file)) bad = 1;
    return bad ? ll_fail(LL_EIO, "cannot write %s: %s", path, strerror(errno)) : LL_OK;
}

ll_status ll_text_save(const char *path, const char *text, size_t size) {
    struct stat about;
    const int other = !stat(path, &about) && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
    return other ? write_through(path, text, size) : ll_file_write(path, text, size);
}

struct ll_text_file {
    ll_writer *writer;
};

ll_status ll_text_file_create(ll_text_file **file, const char *path, int *fd) {
    ll_text_file *f = ll_alloc(1, sizeof *f);
    if (!f) return LL_ENOMEM;
    const ll_status status = ll_writer_open(&f->writer, path);
    if (status) {
        ll_free(f);
        return status;
    }
    *fd = ll_writer_descriptor(f->writer);
    *file = f;
    return LL_OK;
}

ll_status ll_text_file_commit(ll_text_file *f) {
    const ll_status status = ll_writer_commit(f->writer);
    ll_free(f);
    return status;
}

void ll_text_file_abandon(ll_text_file *f) {
    if (!f) return;
    ll_writer_abandon(f->writer);
    ll_free(f);
}

ll_status ll_tensor_file_check(const char *path, int *tensors, int *checked) {
    ll_safetensors *file = NULL;
    const ll_status status = ll_safetensors_open(&file, path);
    if (status) return status;
    *tensors = ll_safetensors_count(file);
    *checked = ll_safetensors_checked(file);
    ll_safetensors_free(file);
    return LL_OK;
}
