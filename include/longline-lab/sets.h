/* Data sets that are known, drawn, checked, fetched and unpacked. */
#ifndef LL_SETS_API_H
#define LL_SETS_API_H

#include "longline/base.h"

LL_C_BEGIN

typedef struct {
    const char *set;    /* "mnist": data sets are files with the same name here */
    const char *file;   /* name of the file, perhaps in a folder of its own: "train/x" */
    const char *url;    /* where its makers publish it */
    const char *sha256; /* of the published file, 64 digits; NULL: not known */
    const char *what;   /* one line */
    int archive, strip; /* to be unpacked? folders that are left out of its names then, see ll_data_unpack */
} ll_known_file;
/* File number i that is known, or NULL past the last. */
LL_API const ll_known_file *ll_data_known(int i);

/* Draws a data set. "listops": a table of `count` expressions of up to `size` tokens (0: 2000) in the file `out`.
 * "pathfinder": `count` images of `size` by `size` pixels (32, 64, 128 or 256; 0: 32) as images-idx3-ubyte and
 * labels-idx1-ubyte in the folder `out`, with paths of 14 segments; "pathfinder-9" and "pathfinder-6" have shorter
 * paths, the arena's intermediate and easy images; "pathfinder-5" to "pathfinder-1" have shorter ones still and
 * nothing to distract, and with 6 and fewer there is a size of 16. "music": `count` MIDI files of `size` bars (0: 32)
 * in the folder `out`, a melody over chords and a bass, some with drums. A function of the seed. progress, or NULL, is
 * told examples. LL_EINVAL names what cannot be; LL_ESTOPPED on request leaves no file, but of music the pieces that
 * are done. */
LL_API LL_MUST_USE ll_status ll_data_make(const char *what, const char *out, int64_t count, int size, uint64_t seed,
                                          ll_done_fn *progress, void *arg);

/* SHA-256 of a file as it lies there (packed if it is), as 64 digits and a zero; and its bytes. */
LL_API LL_MUST_USE ll_status ll_data_checksum(const char *path, char digits[65], int64_t *bytes);

/* Fetches url (http, https) into `path`, whose folder is made where it is missing: what is there of "path.part" is gone
 * on with, and the file gets its name when it is whole and has this checksum (NULL: any). "path.part.version" has what
 * the server said of the file's version: a file that changed meanwhile comes anew. progress, or NULL, is told bytes.
 * LL_EIO says why not; LL_EFORMAT where the checksum differs, which leaves nothing; LL_ESTOPPED on request. */
LL_API LL_MUST_USE ll_status ll_data_fetch(const char *url, const char *path, const char *sha256, ll_done_fn *progress,
                                           void *arg);
/* Unpacks the files of an archive (tar, also packed, or zip) into `folder` and folders below it; the first `strip`
 * folders of their names are left out, links and the like too. A file that is there with the same size stays as it is;
 * each is whole or not there. LL_EFORMAT where the archive is damaged or a name would lead out of the folder; LL_EIO
 * where a file cannot be written, or the library was built without libarchive; LL_ESTOPPED on request (progress is told
 * bytes of the archive). */
LL_API LL_MUST_USE ll_status ll_data_unpack(const char *archive, const char *folder, int strip, ll_done_fn *progress,
                                            void *arg);

LL_C_END

#endif
