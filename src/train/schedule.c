/* Learning rates. Updates are counted from 1. So the first update of a warm-up has a rate above zero, and update number
 * `warmup` has the full rate. */
#include <math.h>

#include "base/integer.h"
#include "train/train_internal.h"

double ll_schedule_rate(const ll_config *c, int64_t step) {
    const double peak = c->train.learning_rate, last = c->train.final_rate;
    const int64_t warmup = ll_max_int64(c->train.warmup, 0);
    if (step < warmup) return peak * (double)step / (double)warmup;
    if (c->train.schedule == LL_LR_CONSTANT) return peak;
    if (c->train.schedule == LL_LR_INVERSE_SQRT) return peak * sqrt((double)ll_max_int64(warmup, 1) / (double)step);
    if (step >= c->train.steps) return last;
    const double x =
        (double)(step - warmup) / (double)(c->train.steps - warmup); /* 0 at the peak, 1 at the last step */
    if (c->train.schedule == LL_LR_COSINE) return last + (peak - last) * 0.5 * (1 + cos(3.14159265358979323846 * x));
    return peak + (last - peak) * x;
}
