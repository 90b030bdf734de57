/* The bytes of one or several files, as if they were one after the other. Large plain files are mapped, so that only
 * the pages that are read are in memory. All others are unpacked and joined, in a temporary file if they are large
 * together (base/spill.h). */
#ifndef LL_CORPUS_H
#define LL_CORPUS_H

#include "base/spill.h"

typedef struct {
    char **name;
    ll_bytes *file;
    ll_bytes joined; /* the files that are not mapped one by one: file[] points into it; a zero byte after each */
    int64_t *begin;  /* (files + 1) the number of bytes before each file */
    int files;
    size_t touched; /* for ll_bytes_touch */
} ll_corpus;

/* path: a file, a folder, or several with ":" between them. A failure leaves it closed. */
LL_MUST_USE ll_status ll_corpus_open(ll_corpus *o, const char *path);
void ll_corpus_close(ll_corpus *o);
/* `size` bytes were read in one place: ll_bytes_touch of all files. */
void ll_corpus_touch(ll_corpus *o, size_t size);
/* Gives the pages of all files back. */
void ll_corpus_leave(const ll_corpus *o);
/* The file that has byte number `byte` of all, where `gap` bytes stand between two files and belong to the first. */
int ll_corpus_file(const ll_corpus *o, int64_t byte, int gap);

/* The files of a path as one text, with one zero byte between two of them. */
LL_MUST_USE ll_status ll_text_take(ll_bytes *text, const char *path);

#endif
