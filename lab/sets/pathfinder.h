/* Pathfinder (Linsley et al. 2018; Kim et al. 2020): are two dots joined by a dashed path? */
#ifndef LL_PATHFINDER_H
#define LL_PATHFINDER_H

#include "base/file.h"

typedef struct {
    int side;             /* side of the image */
    int padding;          /* pixels at its borders where no path is */
    int segments, length; /* segments of each of the two paths, and pixels of a segment */
    int margin;           /* free pixels around segments */
    double thickness;     /* width of a segment */
    double distance;      /* distance between the first ends of the two paths */
    double continuity;    /* how straight a path is: factor of the angle between segments */
    double radius;        /* radius of a dot */
    double contrast;      /* brightness of segments */
    int distractors, distractor_segments;
} ll_pathfinder;

/* The settings of the Long-Range Arena, for images of side 32, 64, 128 and 256, and paths of 6, 9 and 14 segments: its
 * easy ("curv_baseline"), intermediate and hard images. The number of distractors of the first two is our choice. Also
 * ours, for the steps of learning between: paths of all other lengths up to 14, without distractors up to 5, and images
 * of side 16, in which 6 segments fit. LL_EINVAL for others. */
LL_MUST_USE ll_status ll_pathfinder_standard(ll_pathfinder *p, int side, int segments);
/* Image number i of a seed: `pixels` (side, side) and its class, 1 if the dots are joined. LL_EINVAL if the paths do
 * not fit into the image. */
LL_MUST_USE ll_status ll_pathfinder_draw(uint8_t *pixels, uint8_t *label, const ll_pathfinder *p, uint64_t seed,
                                         int64_t i);
/* Writes `count` of them as two idx files; progress as ll_data_make. */
LL_MUST_USE ll_status ll_pathfinder_write(const char *images, const char *labels, const ll_pathfinder *p, int64_t count,
                                          uint64_t seed, ll_done_fn *progress, void *arg);

#endif
