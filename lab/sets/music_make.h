/* Generated pieces of music. */
#ifndef LL_MUSIC_MAKE_H
#define LL_MUSIC_MAKE_H

#include "data/music/score.h"
#include "longline-lab.h"

/* Piece number i of a seed, with `bars` bars. */
LL_MUST_USE ll_status ll_music_draw(ll_score *grid, int bars, uint64_t seed, int64_t i);
/* Writes `count` of them as music-NNNNNN.mid into a folder. */
LL_MUST_USE ll_status ll_music_write(const char *folder, int bars, int64_t count, uint64_t seed, ll_done_fn *progress,
                                     void *arg);

#endif
