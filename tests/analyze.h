/* For tests/analyze.sh, before each source of the library: what tools that see one file at a time cannot know. */
#include "base/memory.h"
#include "base/status.h"
/* These return their status. */
#define ll_fail(status, ...) ((void)(ll_fail)(status, __VA_ARGS__), (status))
#define ll_fail_in(status, where) ((void)(ll_fail_in)(status, where), (status))
/* Where an arena has no memory, its pieces are only counted, and nobody reads or writes them. */
void *ll_arena_piece(ll_arena *a, size_t count, size_t size) __attribute__((returns_nonnull));
#define ll_arena_take(a, floats) ((float *)ll_arena_piece(a, floats, sizeof(float)))
#define ll_arena_bytes(a, count, size) ll_arena_piece(a, count, size)
