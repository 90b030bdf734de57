/* Data sets: known ones are listed, generated, checked, downloaded and unpacked. */
#ifndef LL_SETS_API_H
#define LL_SETS_API_H

#include "longline/base.h"
#include "longline/files.h"

LL_C_BEGIN

typedef struct {
    const char *set;    /* "mnist": the data set is all files with this name */
    const char *file;   /* name of the file, perhaps in a folder of its own: "train/x" */
    const char *url;    /* published address */
    const char *sha256; /* of the published file, 64 digits; NULL: not known */
    const char *what;   /* one line */
    int archive, strip; /* is it an archive? number of leading folders to remove from its names, see ll_data_unpack */
} ll_known_file;
/* Known file number i, or NULL after the last. */
LL_API const ll_known_file *ll_data_known(int i);

/* Formats by their names in data.format. Does the library make the data itself? Are they images? Are frequencies of
 * tokens (ll_unigram) shown beside a loss? */
LL_API int ll_format_makes(const char *name);
LL_API int ll_format_has_images(const char *name);
LL_API int ll_format_has_baseline(const char *name);
/* What a token is: "byte", "word"; "" for an unknown name. Also where a loss is counted in examples. */
LL_API const char *ll_format_unit(const char *name);
/* Are the tokens of a text those of its lines, one after the other? And those of its bytes? */
LL_API int ll_format_cuts_lines(const char *name);
LL_API int ll_format_cuts_bytes(const char *name);
/* What files of sequences are, if they are of one kind; else LL_INPUT_AUTO. */
LL_API ll_input_format ll_format_input(const char *name);

/* Generates a data set. "listops": a table of `count` expressions of fewer than `size` tokens (0: 2000) in the file
 * `out`. "pathfinder": `count` images of `size` by `size` pixels (32, 64, 128 or 256; 0: 32) as images-idx3-ubyte and
 * labels-idx1-ubyte in the folder `out`, with paths of 14 segments. "pathfinder-9" and "pathfinder-6" have shorter
 * paths: the arena's intermediate and easy images. "pathfinder-5" to "pathfinder-1" have still shorter ones and no
 * distractors; with 6 and fewer there is also a size of 16. "pathfinder-6-3" has 3 distractors. "music": `count` MIDI
 * files of `size` bars (0: 32) in the folder `out`, a melody over chords and a bass, some with drums. All are functions
 * of the seed. progress, or NULL, counts examples. LL_EINVAL names what is impossible. LL_ESTOPPED on request leaves no
 * file, except finished pieces of music. */
LL_API LL_MUST_USE ll_status ll_data_make(const char *what, const char *out, int64_t count, int size, uint64_t seed,
                                          ll_done_fn *progress, void *arg);

/* From now on `watch` is called while this thread reads files of data and models; not of pipes. NULL: no longer. */
LL_API void ll_data_watch(ll_reading_fn *watch, void *arg);

/* SHA-256 of a file on disk (packed if it is), as 64 digits and a zero; and its size in bytes. */
LL_API LL_MUST_USE ll_status ll_data_checksum(const char *path, char digits[65], int64_t *bytes);

/* Downloads url (http, https) to `path`, whose folder is created if it is missing. A part in "path.part" is continued.
 * The file gets its name when it is complete and has this checksum (NULL: any). "path.part.version" has the version of
 * the file on the server; if that has changed, the download starts again. progress, or NULL, counts bytes. LL_EIO says
 * why it failed; LL_EFORMAT if the checksum differs, which leaves nothing; LL_ESTOPPED on request. */
LL_API LL_MUST_USE ll_status ll_data_fetch(const char *url, const char *path, const char *sha256, ll_done_fn *progress,
                                           void *arg);
/* Unpacks the files of an archive (tar, also packed, or zip) into `folder` and folders below it. The first `strip`
 * folders of their names are removed; links and the like are skipped. A file that exists with the same size stays as it
 * is. Each file is complete or absent. LL_EFORMAT if the archive is damaged or a name would lead out of the folder;
 * LL_EIO if a file cannot be written, or if the library was built without libarchive; LL_ESTOPPED on request (progress
 * counts bytes of the archive). */
LL_API LL_MUST_USE ll_status ll_data_unpack(const char *archive, const char *folder, int strip, ll_done_fn *progress,
                                            void *arg);

LL_C_END

#endif
