/* Files: read whole (plain, .gz, .xz and .zst, recognised by their first bytes) and written atomically. */
#ifndef LL_FILE_H
#define LL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    uint8_t *data; /* one extra zero byte follows, so text can be parsed as a string */
    size_t size;
    int mapped; /* the bytes are those of a file (ll_file_map, ll_spill_end): only pages that are read are in memory */
} ll_bytes;

/* Reads and unpacks a file of at most `limit` unpacked bytes; a longer one is LL_EFORMAT. A truncated or corrupt
 * archive is LL_EFORMAT with the file's name. Free with ll_bytes_free. */
LL_MUST_USE ll_status ll_file_read(ll_bytes *bytes, const char *path, uint64_t limit);
/* The same for a file whose beginning says how long it is. Where it goes on beyond `limit`, `next` sees all bytes so
 * far, of which there are more than that, and sets a higher limit. It is an error if it sets none. */
typedef ll_status ll_limit_fn(uint64_t *limit, const ll_bytes *so_far, void *arg);
LL_MUST_USE ll_status ll_file_read_by(ll_bytes *bytes, const char *path, uint64_t limit, ll_limit_fn *next, void *arg);
/* As ll_file_read, but a plain file is mapped, not copied. Writing to the bytes does not change the file. If another
 * file takes its name, as all writers here do it, the mapped bytes stay the same. If another program shortens the file
 * while it is mapped, reading the missing bytes ends this program (SIGBUS). */
LL_MUST_USE ll_status ll_file_map(ll_bytes *bytes, const char *path);
/* Maps the first `size` bytes of an open file. `name` is how errors call it. */
LL_MUST_USE ll_status ll_descriptor_map(ll_bytes *bytes, int fd, size_t size, const char *name);
void ll_bytes_free(ll_bytes *bytes);
/* The size of a file that is not packed; -1 for others, pipes, and files that cannot be opened. */
int64_t ll_file_plain_size(const char *path);
/* The next three are for bytes that are mapped; nothing else has pages to give back. The first one gives all of them
 * back, which are read again when they are needed. What was written to them is lost. */
void ll_bytes_leave(const ll_bytes *bytes);
/* For one pass over the bytes, called on the way: gives the pages before `at` back, every LL_PAGES_MOST bytes;
 * and reports the progress (read_progress.h). *left: 0, then the place where that was done last. */
void ll_bytes_pass(const ll_bytes *bytes, size_t at, size_t *left);
/* For reading here and there: `size` bytes were read in one place. Gives the pages back when they are due. */
void ll_bytes_touch(const ll_bytes *bytes, size_t size, size_t *touched);
enum { LL_PAGES_MOST = 1 << 26 };
/* Were about LL_PAGES_MOST bytes read since the last time? *touched counts them, with what the system reads around
 * them. */
static inline int ll_pages_due(size_t *touched, size_t size) {
    enum { AROUND = 1 << 16 };
    *touched += size + AROUND;
    if (*touched < LL_PAGES_MOST) return 0;
    *touched = 0;
    return 1;
}

int ll_is_folder(const char *path);
/* Is there nothing of this name? What may not be looked at counts as there: opening it says why. */
int ll_is_absent(const char *path);
/* Creates a folder and its parents where they are missing. */
LL_MUST_USE ll_status ll_folder_create(const char *path);
/* Creates the folder that contains the file of this path. */
LL_MUST_USE ll_status ll_folder_create_for(const char *path);
/* The names of the regular files of a folder and its subfolders as "folder/name", sorted, without hidden ones and
 * without subfolders that are folders of runs (LL_LOCK_FILE). Links that lead nowhere are among them, and cannot be
 * opened. */
LL_MUST_USE ll_status ll_folder_list(char ***paths, int *count, const char *path);
void ll_names_free(char **paths, int count);

/* Writes a file atomically. The bytes go to "path.tmp-longline", or to a file of this writer alone if that cannot be
 * locked. ll_writer_commit flushes that file and renames it to the target; ll_writer_abandon removes it. A full disk or
 * a short write is LL_EIO, and the target stays as it was. A file that is replaced keeps its permissions. */
typedef struct ll_writer ll_writer;
LL_MUST_USE ll_status ll_writer_open(ll_writer **writer, const char *path);
/* Writes to standard output instead of a file. Nothing is renamed. */
LL_MUST_USE ll_status ll_writer_output(ll_writer **writer);
/* The unfinished file, for who writes to it without ll_writer_put. */
int ll_writer_descriptor(const ll_writer *writer);
LL_MUST_USE ll_status ll_writer_put(ll_writer *writer, const void *data, size_t size);
/* Overwrites the first bytes of what has been written. */
LL_MUST_USE ll_status ll_writer_patch(ll_writer *writer, const void *data, size_t size);
LL_MUST_USE ll_status ll_writer_commit(ll_writer *writer); /* frees the writer, also on failure */
void ll_writer_abandon(ll_writer *writer);                 /* NULL is fine */
LL_MUST_USE ll_status ll_file_write(const char *path, const void *data, size_t size);
LL_MUST_USE ll_status ll_file_copy(const char *to, const char *from); /* `to` is whole, or what it was */

/* Does the open file still have this name? */
int ll_file_is_named(int fd, const char *path);

/* Reserves a folder for one run, by a lock on the file LL_LOCK_FILE in it. close(*lock) releases it, and so does the
 * end of the process. LL_EIO if another run has the lock, or if the folder cannot be written to. If the file system has
 * no locks, the call succeeds, *without is the errno that says why, and *lock may be -1; otherwise *without is 0. */
#define LL_LOCK_FILE ".lock"
LL_MUST_USE ll_status ll_folder_lock(int *lock, int *without, const char *folder);
/* Is this the folder of a run that contains a file of this name? If not, LL_EIO says what it is instead. */
LL_MUST_USE ll_status ll_run_folder_check(const char *folder, const char *name);

/* "folder/name" in new memory; NULL if there is no memory. */
char *ll_path_join(const char *folder, const char *name);

#endif
