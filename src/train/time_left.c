/* The time that is left of a run. Steps and evaluations are timed apart, because the last evaluation comes after all
 * steps, and one of a whole split may take longer than the steps before it. */
#include <math.h>

#include "train/train_internal.h"

int64_t ll_evaluations_after(int64_t step, int64_t steps, int64_t every) {
    if (step >= steps) return 0;
    return every > 0 ? (steps - 1) / every - step / every + 1 : 1;
}

/* Before the first evaluation, a batch of it counts as a third of a step: it has a forward pass, and a step has a
 * backward pass of twice that, too. */
double ll_time_left(const ll_pace *p) {
    const double step = p->steps > 0 ? p->step_seconds / p->steps : NAN;
    const double evaluation =
        p->evaluations > 0 ? p->evaluation_seconds / p->evaluations : step / 3 * (double)p->batches;
    double left = 0;
    if (p->steps_left > 0) left += step * p->steps_left;
    if (p->evaluations_left > 0) left += evaluation * p->evaluations_left;
    return left;
}
