/* longline-lab: what one looks at models and attention with. Reports and figures, experiments with the papers' claims,
 * comparisons of systems, attention cases in files, data sets to fetch. A library of its own, liblongline-lab, which
 * stands on liblongline and draws with cairo; longline.h has the conventions, which hold here, too. */
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
#include "longline-lab/rows.h"           /* rows of numbers into files */

#endif
