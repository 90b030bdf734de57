/* The experiments by name. */
#include "analyse/analyse_internal.h"

#include <string.h>

#include "base/float_mode.h"

static const struct {
    ll_experiment about;
    ll_status (*run)(ll_table **table, const ll_analysis *how);
    const char *old_name; /* name in version 0.1, or NULL */
} experiments[] = {
    {{"features", "error of linear attention against the number of random features", "Performer, Fig. 4"},
     ll_analyse_features},
    {{"lengths", "the same error against the length, and the rounding in it", "Performer, Theorem 4"},
     ll_analyse_lengths},
    {{"moments", "mean squared errors of the estimators against their formulas", "Performer, Lemma 2, Theorem 2"},
     ll_analyse_moments},
    {{"layers", "error of random features through the layers of a Transformer", "Performer, Fig. 14"},
     ll_analyse_layers},
    {{"periods", "distances that permutations of the features can distinguish", "PermuteFormer, section 3"},
     ll_analyse_periods},
    {{"positions", "weights that positions give by themselves: invariance, monotonicity", "SPE, Fig. 4"},
     ll_analyse_positions},
    {{"stream-error", "deviation of long streams from double precision and from tiles", "Katharopoulos, section 3.4"},
     ll_analyse_stream_error,
     "drift"},
};
enum { EXPERIMENTS = sizeof experiments / sizeof *experiments };

const ll_experiment *ll_experiment_at(int i) {
    return i >= 0 && i < EXPERIMENTS ? &experiments[i].about : NULL;
}

ll_status ll_analyse(ll_table **out, const char *name, const ll_analysis *how) {
    LL_FLOAT_MODE;
    for (int i = 0; i < EXPERIMENTS; i++) {
        const char *old_name = experiments[i].old_name;
        if (strcmp(experiments[i].about.name, name) && (!old_name || strcmp(old_name, name))) continue;
        ll_table *table = NULL;
        const ll_status status = experiments[i].run(&table, how);
        if (status) {
            ll_table_free(table);
            return status;
        }
        *out = table;
        return LL_OK;
    }
    return ll_fail(LL_EINVAL, "there is no experiment \"%.40s\"", name);
}
