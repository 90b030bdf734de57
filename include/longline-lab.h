/* longline-lab: tools to study models and attention: reports and figures, experiments with the papers' claims,
 * comparisons of systems, attention cases in files, data sets to download. It is a library of its own, liblongline-lab.
 * It needs liblongline, and draws with cairo. The conventions in longline.h apply here, too. */
#ifndef LONGLINE_LAB_H
#define LONGLINE_LAB_H

#include "longline.h"

#include "longline-lab/attention_maps.h" /* attention matrices, errors of streams, cases in files */
#include "longline-lab/report.h"         /* pictures, reports */
#include "longline-lab/analyse.h"        /* experiments */
#include "longline-lab/compare.h"        /* baselines, systems of the papers' tables */
#include "longline-lab/measure.h"        /* the machine's limits */
#include "longline-lab/sets.h"           /* data sets */
#include "longline-lab/music.h"          /* music compared */
#include "longline-lab/hugging_face.h"   /* models of other programs */
#include "longline-lab/rows.h"           /* rows of numbers into files */

#endif
