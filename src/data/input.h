/* Inside the input: what its formats share. */
#ifndef LL_INPUT_H
#define LL_INPUT_H

#include <jansson.h>

#include "base/unpack.h"
#include "data/image/idx.h"

enum { LL_INPUT_BLOCK = 1 << 16 };

/* A format has two functions: one finds the next sequence and its name, `more` returns its next piece. */
typedef struct {
    ll_status (*begin)(ll_input *in, int *found);
    ll_status (*more)(ll_input *in, int *ends);
    int lines; /* is it text, whose errors name a line? */
} ll_input_kind;

extern const ll_input_kind ll_input_json, ll_input_fasta, ll_input_idx, ll_input_midi, ll_input_png;

struct ll_input {
    char **path, *text_key, *id_key, *label_key, *labels;
    int files, file; /* number of files; the next one to open */
    int fine;        /* grid of music */
    int width, height, channels, side, bicubic; /* what pictures become; 0: as they are */
    ll_input_format format;
    size_t piece;
    int64_t before, total; /* bytes of the files before this one; of all files */
    int over;              /* the end, or an error */

    /* The open file. */
    ll_unpack *source;
    const ll_input_kind *kind;
    uint8_t block[LL_INPUT_BLOCK];
    size_t at, size;
    int64_t line;     /* number of the line that the next byte is in */
    ll_status status; /* status of reading the file */

    /* The current sequence. */
    int open;           /* more of it follows */
    int64_t begin_line; /* the line in which it begins */
    char *id, *label;   /* label: NULL, or in ... */
    size_t id_capacity, label_capacity;
    char *label_text;
    const uint8_t *text;
    size_t n;
    uint8_t *buffer; /* (capacity) the memory of text, except in JSON */
    size_t capacity;

    json_t *json;       /* the object that text and id point into */
    size_t given, left; /* bytes of its text (or of music) that were returned; that remain */
    ll_idx images;
    int64_t image;
    ll_unpack *label_source;
};

/* The next byte, or -1 at the end and if reading fails (in->status). */
int ll_input_peek(ll_input *in);
int ll_input_take(ll_input *in);
/* Reads n bytes, or fewer at the end of the file. */
size_t ll_input_bytes(ll_input *in, uint8_t *to, size_t n);
/* Makes space for n bytes at in->buffer; its first `keep` bytes stay. */
LL_MUST_USE ll_status ll_input_reserve(ll_input *in, size_t n, size_t keep);
/* Names the sequence by n bytes, or by its line (images: by its number). */
LL_MUST_USE ll_status ll_input_name(ll_input *in, const char *id, size_t n);
LL_MUST_USE ll_status ll_input_number(ll_input *in, int64_t number);
LL_MUST_USE ll_status ll_input_label(ll_input *in, const char *label, size_t n);
/* A picture becomes in->text, in its size and kind of pixels. pixels: not in->buffer. */
LL_MUST_USE ll_status ll_input_picture(ll_input *in, const uint8_t *pixels, int width, int height, int channels);
/* LL_EFORMAT: "FILE: line N: what". */
LL_MUST_USE ll_status ll_input_wrong(const ll_input *in, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
