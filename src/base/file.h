/* Files: whole reads (plain, .gz and .xz, recognised by their first bytes), atomic writes. */
#ifndef LL_FILE_H
#define LL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    uint8_t *data; /* one extra zero byte follows, so text can be parsed as a string */
    size_t size;
} ll_bytes;

/* Reads and unpacks a file; at most `limit` unpacked bytes (LL_EFORMAT beyond). A truncated or corrupt
 * archive is LL_EFORMAT with the file's name. Free with ll_bytes_free. */
LL_MUST_USE ll_status ll_file_read(ll_bytes *bytes, const char *path, size_t limit);
/* The same, of a file that is mapped rather than copied when it is plain: for models. Its bytes may be written over,
 * which the file does not see. A file that is replaced under its name, as every writer here does it, stays what it was;
 * one that is cut short in place while it is mapped ends the program (SIGBUS) where the missing bytes are touched. */
LL_MUST_USE ll_status ll_file_map(ll_bytes *bytes, const char *path);
void ll_bytes_free(ll_bytes *bytes);
void ll_bytes_unmap(ll_bytes *bytes);

/* Is it a folder? Creates a folder (and its parents) if it is missing. */
int ll_is_folder(const char *path);
LL_MUST_USE ll_status ll_folder_create(const char *path);
/* Creates the folder that a file of this path lies in. */
LL_MUST_USE ll_status ll_folder_create_for(const char *path);
/* Names of the regular files of a folder and its subfolders, sorted, as "folder/name"; hidden ones left out. */
LL_MUST_USE ll_status ll_folder_list(char ***paths, int *count, const char *path);
void ll_names_free(char **paths, int count);

/* A file written beside its target ("path.tmp-longline"), flushed and renamed over it by commit; or removed
 * by abandon. A full disk or short write is LL_EIO, and the target stays as it was. */
typedef struct ll_writer ll_writer;
LL_MUST_USE ll_status ll_writer_open(ll_writer **writer, const char *path);
/* Standard output instead of a file: nothing to be renamed. */
LL_MUST_USE ll_status ll_writer_output(ll_writer **writer);
LL_MUST_USE ll_status ll_writer_put(ll_writer *writer, const void *data, size_t size);
/* Writes over the first bytes, which have been put. */
LL_MUST_USE ll_status ll_writer_patch(ll_writer *writer, const void *data, size_t size);
LL_MUST_USE ll_status ll_writer_commit(ll_writer *writer); /* frees the writer, also on failure */
void ll_writer_abandon(ll_writer *writer);                 /* NULL is fine */
LL_MUST_USE ll_status ll_file_write(const char *path, const void *data, size_t size);

/* Has the file that is open still this name? */
int ll_file_is_named(int fd, const char *path);

/* Takes a folder for one run at a time, by a lock on the file LL_LOCK_FILE in it. close(*lock) lets it go, as the end
 * of the process does. LL_EIO where another run has it, or nobody can write there. Where files cannot be locked,
 * *without is the errno that says why, and the call succeeds; else it is 0. *lock may then be -1. */
#define LL_LOCK_FILE ".lock"
LL_MUST_USE ll_status ll_folder_lock(int *lock, int *without, const char *folder);
/* Is this the folder of a run, with a file of this name in it? LL_EIO says what it is instead. */
LL_MUST_USE ll_status ll_run_folder_check(const char *folder, const char *name);

/* "folder/name" in new memory; NULL if memory is refused. */
char *ll_path_join(const char *folder, const char *name);

#endif
