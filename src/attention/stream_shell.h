/* Streams of shells (shell.c): tokens are encoded at the running position and fed to a stream of the engine. */
#ifndef LL_STREAM_SHELL_H
#define LL_STREAM_SHELL_H

#include "attention/attention.h"

typedef struct ll_shell_stream ll_shell_stream;

LL_MUST_USE ll_status ll_shell_stream_create(ll_shell_stream **s, const ll_attention *op, int B);
void ll_shell_stream_free(ll_shell_stream *s);
void ll_shell_stream_reset(ll_shell_stream *s);
size_t ll_shell_stream_bytes(const ll_shell_stream *s);
LL_MUST_USE ll_status ll_shell_stream_feed(ll_shell_stream *s, int n, ll_view q, ll_view k, ll_view v, ll_view y);

/* Room for n more tokens, so that feeding them cannot fail for it (stream.c). */
LL_MUST_USE ll_status ll_attention_stream_reserve(ll_attention_stream *s, int n);

#endif
