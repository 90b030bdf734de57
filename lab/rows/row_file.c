/* Writes rows of floats to files whose headers contain the number of rows. A header of fixed size is written first, and
 * again when the number is known. For safetensors, names and numbers of rows are collected in temporary files without a
 * name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "longline-lab.h"

enum { NPY_HEAD = 128, ST_HEAD = 512, PART = 1 << 14 };
enum { NAMES, COUNTS, SPOOLS };

struct ll_row_file {
    ll_writer *file;
    enum { CSV, NPY, SAFETENSORS } kind;
    int C, per_token;
    int64_t sequences, rows;
    FILE *spool[SPOOLS]; /* safetensors */
    int64_t bytes[SPOOLS];
};

/* ---- Headers ---- */

static void npy_head(char head[NPY_HEAD], const ll_row_file *r) {
    memset(head, ' ', NPY_HEAD);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = NPY_HEAD - 10;
    head[9] = 0;
    const int n = snprintf(head + 10, NPY_HEAD - 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }",
                           (long long)r->rows, r->C);
    head[10 + n] = ' ';
    head[NPY_HEAD - 1] = '\n';
}

static void safetensors_head(char head[ST_HEAD], const ll_row_file *r) {
    const long long x = r->rows * r->C * 4, counts = x + r->bytes[COUNTS], names = counts + r->bytes[NAMES];
    const uint64_t size = ST_HEAD - 8;
    char rows[128] = "";
    memset(head, ' ', ST_HEAD);
    memcpy(head, &size, 8);
    if (r->per_token)
        snprintf(rows, sizeof rows, ",\"rows\":{\"dtype\":\"I32\",\"shape\":[%lld],\"data_offsets\":[%lld,%lld]}",
                 (long long)r->sequences, x, counts);
    const int n = snprintf(head + 8, ST_HEAD - 8,
                           "{\"__metadata__\":{\"format\":\"longline-embeddings\",\"version\":\"1\"},"
                           "\"embeddings\":{\"dtype\":\"F32\",\"shape\":[%lld,%d],\"data_offsets\":[0,%lld]}%s,"
                           "\"ids\":{\"dtype\":\"U8\",\"shape\":[%lld],\"data_offsets\":[%lld,%lld]}}",
                           (long long)r->rows, r->C, x, rows, (long long)r->bytes[NAMES], counts, names);
    head[8 + n] = ' ';
}

static ll_status csv_head(ll_row_file *r) {
    char text[32];
    ll_status status = ll_writer_put(r->file, "id", 2);
    if (!status && r->per_token) status = ll_writer_put(r->file, ",position", 9);
    for (int c = 0; c <= r->C && !status; c++) {
        const int n = c < r->C ? snprintf(text, sizeof text, ",e%d", c) : snprintf(text, sizeof text, "\n");
        status = ll_writer_put(r->file, text, (size_t)n);
    }
    return status;
}

static ll_status put_head(ll_row_file *r, int again) {
    char head[ST_HEAD];
    const size_t size = r->kind == NPY ? NPY_HEAD : ST_HEAD;
    if (r->kind == CSV) return again ? LL_OK : csv_head(r);
    if (r->kind == NPY)
        npy_head(head, r);
    else
        safetensors_head(head, r);
    return again ? ll_writer_patch(r->file, head, size) : ll_writer_put(r->file, head, size);
}

/* ---- Create ---- */

/* A file beside the target that disappears when it is closed. */
static ll_status open_spool(FILE **spool, const char *path, int number) {
    const size_t size = strlen(path) + 48;
    char *name = ll_alloc(size, 1);
    if (!name) return LL_ENOMEM;
    snprintf(name, size, "%s.part%d-%ld", path, number, (long)getpid());
    const int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    *spool = fd < 0 ? NULL : fdopen(fd, "w+");
    ll_status status = *spool ? LL_OK : ll_fail(LL_EIO, "cannot write %s: %s", name, strerror(errno));
    if (fd >= 0) unlink(name);
    if (fd >= 0 && !*spool) close(fd);
    ll_free(name);
    return status;
}

static ll_status open_files(ll_row_file *r, const char *path) {
    ll_status status = LL_OK;
    if (!strcmp(path, "-"))
        status = ll_writer_output(&r->file);
    else
        status = ll_writer_open(&r->file, path);
    for (int i = 0; i < SPOOLS && r->kind == SAFETENSORS && !status; i++) status = open_spool(&r->spool[i], path, i);
    return status ? status : put_head(r, 0);
}

ll_status ll_row_file_create(ll_row_file **rows, const char *path, int C, int per_token) {
    static const char *const ending[] = {[CSV] = ".csv", [NPY] = ".npy", [SAFETENSORS] = ".safetensors"};
    int kind = 0;
    while (kind <= SAFETENSORS && !ll_text_ends(path, ending[kind])) kind++;
    if (!strcmp(path, "-")) kind = CSV;
    if (kind > SAFETENSORS)
        return ll_fail(LL_EINVAL, "%s: a file of embeddings must end with .safetensors, .npy or .csv", path);
    if (C < 1) return ll_fail(LL_EINVAL, "%s: rows of %d numbers; there must be at least 1", path, C);
    ll_row_file *r = ll_alloc(1, sizeof *r);
    if (!r) return LL_ENOMEM;
    *r = (ll_row_file){.C = C, .per_token = per_token};
    r->kind = kind == CSV ? CSV : kind == NPY ? NPY : SAFETENSORS;
    const ll_status status = open_files(r, path);
    if (status) {
        ll_row_file_abandon(r);
        return status;
    }
    *rows = r;
    return LL_OK;
}

/* ---- Rows ---- */

/* A field as in RFC 4180. */
static ll_status put_field(ll_row_file *r, const char *text) {
    if (!text[strcspn(text, ",\"\r\n")]) return ll_writer_put(r->file, text, strlen(text));
    ll_status status = ll_writer_put(r->file, "\"", 1);
    for (; *text && !status; text++) {
        status = ll_writer_put(r->file, text, 1);
        if (!status && *text == '"') status = ll_writer_put(r->file, "\"", 1);
    }
    return status ? status : ll_writer_put(r->file, "\"", 1);
}

static ll_status put_csv(ll_row_file *r, const char *id, const float *x, int n) {
    char text[48];
    ll_status status = LL_OK;
    for (int i = 0; i < n && !status; i++) {
        status = put_field(r, id);
        if (!status && r->per_token)
            status = ll_writer_put(r->file, text, (size_t)snprintf(text, sizeof text, ",%d", i));
        for (int c = 0; c < r->C && !status; c++, x++)
            status = ll_writer_put(r->file, text, (size_t)ll_format_text(text, sizeof text, ",%.9g", (double)*x));
        if (!status) status = ll_writer_put(r->file, "\n", 1);
    }
    return status;
}

static ll_status spool_put(ll_row_file *r, int which, const void *data, size_t size) {
    if (fwrite(data, 1, size, r->spool[which]) != size)
        return ll_fail(LL_EIO, "cannot write the names of embeddings: %s", strerror(errno));
    r->bytes[which] += (int64_t)size;
    return LL_OK;
}

/* A line; characters that would break it become blanks. */
static ll_status spool_name(ll_row_file *r, const char *id) {
    ll_status status = LL_OK;
    for (; *id && !status; id++) status = spool_put(r, NAMES, *id == '\n' ? " " : id, 1);
    return status ? status : spool_put(r, NAMES, "\n", 1);
}

ll_status ll_row_file_add(ll_row_file *r, const char *id, const float *x, int n) {
    ll_status status = LL_OK;
    if (r->kind == CSV) {
        status = put_csv(r, id, x, n);
    } else {
        status = ll_writer_put(r->file, x, (size_t)n * (size_t)r->C * sizeof *x);
    }
    if (!status && r->kind == SAFETENSORS) {
        const int32_t count = n;
        status = spool_name(r, id);
        if (!status && r->per_token) status = spool_put(r, COUNTS, &count, sizeof count);
    }
    r->sequences++;
    r->rows += n;
    return status;
}

/* ---- The end ---- */

static ll_status copy_spool(ll_row_file *r, int which) {
    char part[PART];
    ll_status status = LL_OK;
    FILE *f = r->spool[which];
    if (fflush(f)) return ll_fail(LL_EIO, "cannot write the names of embeddings: %s", strerror(errno));
    rewind(f);
    for (size_t n; !status && (n = fread(part, 1, sizeof part, f)) > 0;) status = ll_writer_put(r->file, part, n);
    if (!status && ferror(f)) status = ll_fail(LL_EIO, "cannot read the names of embeddings: %s", strerror(errno));
    return status;
}

ll_status ll_row_file_commit(ll_row_file *r) {
    ll_status status = LL_OK;
    if (r->kind == SAFETENSORS) {
        status = copy_spool(r, COUNTS);
        if (!status) status = copy_spool(r, NAMES);
    }
    if (!status) status = put_head(r, 1);
    if (!status) {
        status = ll_writer_commit(r->file);
        r->file = NULL;
    }
    ll_row_file_abandon(r);
    return status;
}

void ll_row_file_abandon(ll_row_file *r) {
    if (!r) return;
    for (int i = 0; i < SPOOLS; i++)
        if (r->spool[i]) fclose(r->spool[i]);
    ll_writer_abandon(r->file);
    ll_free(r);
}
