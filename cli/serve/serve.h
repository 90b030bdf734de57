/* What all of `longline serve` uses: its options, memory, texts. */
#ifndef LL_SERVE_H
#define LL_SERVE_H

#include "cli.h"
#include "serve/request.h"

/* ---- Options ---- */

typedef struct {
    const char *listen, *models, *state_dir, *keys, *chat_template, *weights;
    int64_t batch, block, queue, body, prompt, input, most, sessions, memory, quota, connections, idle, send, drain;
} ll_serve_options;
extern ll_serve_options ll_serve;

/* ---- Memory, with a reserve ---- */

/* Zeroed memory. Where there is none, a reserve is given back; if that is not enough, the program ends. */
void *ll_serve_alloc(size_t n, size_t size);
/* The same or NULL, for what a client may make large. The request is then refused (503; returns -1). */
void *ll_serve_try(size_t n, size_t size);
int ll_refuse_memory(ll_refusal *why);
/* Has the server its reserve, or can it have one now? If not, a request must be refused. */
int ll_serve_has_reserve(void);

/* ---- Buffers, UTF-8, base64, files ---- */

typedef struct {
    char *data;
    size_t size, capacity;
} ll_buffer;
void ll_buffer_add(ll_buffer *b, const void *data, size_t n);
void ll_buffer_text(ll_buffer *b, const char *text);
void ll_buffer_drop(ll_buffer *b, size_t n); /* the first n bytes */
void ll_buffer_free(ll_buffer *b);
/* Any bytes as a JSON string. Bytes that are not UTF-8 become U+FFFD. */
json_t *ll_json_text(const char *text, size_t size);
/* The number of bytes of the first UTF-8 character. A byte that begins none counts as one. */
size_t ll_character(const char *text, size_t size);
/* Base64 of n bytes, to be freed. */
char *ll_base64(const void *data, size_t n);
/* Opens a file for reading. NULL and errno, which is EISDIR for a folder, as fopen does not say. */
FILE *ll_serve_open(const char *path);

#endif
