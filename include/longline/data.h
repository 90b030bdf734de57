/* Text as a model's tokens, and back; data sets that are known, drawn, checked, fetched. */
#ifndef LL_DATA_API_H
#define LL_DATA_API_H

#include "longline/base.h"
#include "longline/model.h"

LL_C_BEGIN

/* ---- Text and tokens ---- */

typedef struct ll_tokenizer ll_tokenizer;

/* How the model's data.format makes tokens of text (bytes, words, letters of proteins, events of music), from the model
 * alone. Borrows the model, which must outlive it. LL_EFORMAT where its vocabulary is damaged. */
LL_API LL_MUST_USE ll_status ll_tokenizer_create(ll_tokenizer **tokenizer, const ll_model *model);
LL_API void ll_tokenizer_free(ll_tokenizer *tokenizer);
/* Tokens that stand for text are in [0, this); a model may have more (a mask). */
LL_API int ll_tokenizer_vocab(const ll_tokenizer *tokenizer);
/* The tokens of a text, in memory that the caller frees with ll_tokens_free. LL_EINVAL for text that has none.
 * O(size). */
LL_API LL_MUST_USE ll_status ll_tokenizer_encode(const ll_tokenizer *tokenizer, const void *text, size_t size,
                                                 int **tokens, size_t *count);
LL_API void ll_tokens_free(int *tokens);
/* What a token stands for, *size bytes; tokens put one after the other make a text. Valid until the next call. */
LL_API const char *ll_tokenizer_text(ll_tokenizer *tokenizer, int token, size_t *size);

/* ---- Music ---- */

/* The token that stands before every piece of music, and ends the one before it; -1: the model is of something else. */
LL_API int ll_tokenizer_piece(const ll_tokenizer *tokenizer);
/* Writes tokens of a model of music (data.format = midi) as a standard MIDI file. Tokens before number `first` say
 * where in a bar, how fast and on what instruments the music goes on, but are not heard: the file begins with the bar
 * that `first` is in. Any tokens will do; what makes no sense among them is passed over. LL_EINVAL for other models,
 * and where no note is left. O(count). */
LL_API LL_MUST_USE ll_status ll_tokenizer_write_midi(const ll_tokenizer *tokenizer, const char *path, const int *tokens,
                                                     size_t count, size_t first);

/* How alike two styles are (Cifka et al. 2020; docs/math.md): cosines between histograms of two files of music, or of
 * all files of folders, 0 to 1. */
typedef struct {
    double time_pitch;     /* of distances in time and pitch between notes */
    double onset_duration; /* of places in the bar and durations of notes */
    int64_t notes[2];      /* that were counted, without drums */
} ll_likeness;
/* MIDI files, or the text of their events. LL_EINVAL where one has no notes to be counted. Time: notes times those
 * that begin within four quarters after them. */
LL_API LL_MUST_USE ll_status ll_music_compare(ll_likeness *likeness, const char *a, const char *b);

/* How much of music is on the grids that its events can be on (data.grid), 4 and 12 places a quarter note. A time is on
 * one that has a place less than a tick of the file away. */
typedef struct {
    int64_t files, notes;
    double held; /* share of notes that the sustain pedal makes longer */
    struct {
        int places;
        double onsets_off, durations_off; /* shares of those that are not on it; strokes of drums have no duration */
        double moved;                     /* quarter notes that a note's beginning is moved by, the mean */
    } grid[2];
} ll_music_fit;
/* Of a file or a folder, as above. LL_EINVAL where there are no notes. O(notes). */
LL_API LL_MUST_USE ll_status ll_music_measure(ll_music_fit *fit, const char *path);

/* ---- Data sets ---- */

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
