/* Keys that another key switches off: where `longline train` says that a key has no effect, a run with it is the same
 * as without; where what it needs is set, they differ. */
#include "folder.h"

#include <math.h>

#include "cli.h"

/* Four steps, so that features are drawn again. */
static const char recipe_text[] = "[model]\nlayers = 1\nwidth = 16\nheads = 2\nff = 16\n"
                                  "[train]\nbatch = 2\nlength = 24\nsteps = 4\nwarmup = 1\nlearning-rate = 0.01\n"
                                  "eval-batches = 1\nreport = off\n[data]\nformat = demo\n";

#define FAVOR "attention.kernel=favor attention.num-features=8"
#define RELU "attention.kernel=relu"
#define PAIRS "model.task=seq2seq data.format=copy data.longest=9 model.vocab=259"

/* Settings with which the key has no effect, and some with which it has one. */
static const struct {
    const char *assignment, *unmet, *met;
} cases[] = {
    {"attention.features=hyperbolic", RELU, FAVOR},
    {"attention.num-features=6", RELU, FAVOR},
    {"attention.num-features=6", "", RELU " attention.projection=iid"},
    {"attention.row-norms=sqrt-d", RELU, FAVOR},
    {"attention.redraw=2", RELU, FAVOR},
    {"attention.normalise=off", "", RELU},
    {"attention.feature-eps=0.1", "attention.kernel=local", RELU},
    {"attention.window=3", "", "attention.kernel=local"},
    {"attention.landmarks=4", FAVOR, "model.task=mlm model.vocab=257 attention.kernel=nystrom attention.landmarks=8"},
    {"attention.iterations=2", "", "model.task=mlm model.vocab=257 attention.kernel=nystrom attention.landmarks=8"},
    {"attention.projected-length=4", "", "model.task=mlm model.vocab=257 attention.kernel=linformer"},
    {"attention.buckets=8", "", "attention.kernel=reformer attention.chunk=4"},
    {"attention.chunk=2", "", "attention.kernel=reformer attention.buckets=2"},
    {"attention.rounds=2", "", "attention.kernel=reformer attention.chunk=4"},
    {"attention.compat=google", "", "model.task=mlm model.vocab=257 " FAVOR},
    {"position.cycles=random", RELU " position.type=rope-linear", RELU " position.type=permute"},
    {"position.decay-first=0", RELU, RELU " position.decay=fixed"},
    {"position.decay-last=9", RELU, RELU " position.decay=fixed"},
    {"position.cross=start", "position.type=rope", PAIRS " position.type=rope"},
    {"position.max-length=64", "position.type=rope", NULL},
    {"position.offset=2", "position.type=rope", "position.type=learned"},
    {"position.base=100", "position.type=permute attention.kernel=relu", "position.type=rope"},
    {"position.base=100", RELU " position.type=rope-linear", NULL},
    {"position.base=100", "position.type=sinusoidal", NULL},
    {"position.rotary=2", "position.type=none", "position.type=rope"},
    {"position.scaling=4", "position.type=sinusoidal", "position.type=rope"},
    {"position.scaling-length=16", "position.type=sinusoidal", "position.type=rope position.scaling=4"},
    {"position.scaling-low=2", "", "position.type=rope position.scaling=4 position.scaling-length=15"},
    {"position.scaling-high=8", "", "position.type=rope position.scaling=4 position.scaling-length=15"},
    {"position.realizations=8", "", "position.type=sine-spe"},
    {"position.realizations=8", RELU, "position.type=conv-spe"},
    {"position.sines=2", "position.type=conv-spe", "position.type=sine-spe"},
    {"position.taps=4", "position.type=sine-spe", "position.type=conv-spe"},
    {"position.gated=off", "position.type=relative-s1", "position.type=sine-spe"},
    {"position.shared=on", "position.type=rope model.layers=2", "position.type=sine-spe model.layers=2"},
    {"position.shared=on", "position.type=learned model.layers=2", "position.type=shaw model.layers=2"},
    {"position.scales=3", "position.type=relative-s2", "position.type=relative-s1"},
    {"position.clip=2", "position.type=relative-s1", "position.type=relative-s2"},
    {"position.clip=2", "position.type=t5", "position.type=shaw"},
    {"position.values=off", "position.type=relative-s2", "position.type=shaw"},
    {"train.final-rate=0.005", "train.schedule=constant", "train.schedule=linear"},
    {"train.final-rate=0.005", "train.schedule=inverse-sqrt", "train.schedule=cosine"},
    {"train.distil-weight=0.9", "", NULL},
    {"train.distil-temperature=3", "", NULL},
    {"train.distil-until=2", "", NULL},
    {"train.distil-switch=2", "", NULL},
    {"model.encoder-layers=1", "model.layers=2", PAIRS " model.layers=2"},
    {"model.classes=3", "", NULL},
    {"model.head-transform=on", "", "model.task=mlm model.vocab=257"},
    {"model.pool=first", "", NULL},
    {"model.final-norm=off", "model.norm=post", "model.norm=pre"},
    {"data.symbols=7", "", PAIRS},
    {"data.longest=4", "", PAIRS},
    {"data.shortest=4", "", PAIRS},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Sets words like "KEY=VALUE KEY=VALUE". */
static void set_all(ll_recipe *recipe, const char *words) {
    char copy[400], *rest = copy;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word; (word = strtok_r(rest, " ", &rest));) CHECK_OK(ll_recipe_set(recipe, word));
}

/* Sums up all losses. */
static int add_loss(const ll_progress *p, void *arg) {
    double *sum = arg;
    if (!p->event) *sum += p->loss * (double)p->step;
    if (p->event && isfinite(p->valid_loss)) *sum += 1e3 * p->valid_loss;
    return 0;
}

/* A number that follows from the losses of a run; NAN if it is refused. unmet: what the key of the assignment would
 * need. */
static double outcome(const char *settings, const char *assignment, const char **unmet) {
    static int runs;
    char name[32], key[64];
    ll_recipe *recipe = NULL;
    ll_trainer *trainer = NULL;
    double sum = 0;
    CHECK_OK(ll_recipe_parse(&recipe, recipe_text, "a recipe"));
    set_all(recipe, settings);
    if (assignment) {
        CHECK_OK(ll_recipe_set(recipe, assignment));
        snprintf(key, sizeof key, "%.*s", (int)strcspn(assignment, "="), assignment);
        *unmet = ll_unmet(recipe, key);
    }
    snprintf(name, sizeof name, "run%d", runs++);
    const ll_status status = ll_trainer_create(&trainer, recipe, at(name), NULL);
    if (!status) CHECK_OK(ll_trainer_run(trainer, add_loss, &sum));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return status ? NAN : sum;
}

static void keys_have_the_effect_they_are_said_to_have(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < CASES; i++) {
        const char *word = cases[i].assignment, *unmet;
        const double without = outcome(cases[i].unmet, NULL, NULL), with = outcome(cases[i].unmet, word, &unmet);
        if (!unmet || isnan(without) || (with != without && !isnan(with))) {
            print_error("%s with %s has an effect\n", word, cases[i].unmet);
            wrong++;
        }
        if (!cases[i].met) continue;
        const double used = outcome(cases[i].met, word, &unmet), other = outcome(cases[i].met, NULL, NULL);
        if (unmet || !(fabs(used - other) > 0)) {
            print_error("%s with %s has no effect: %s\n", word, cases[i].met, ll_error());
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* What a key needs: a choice that another key has. */
static void needs_are_choices(void **state) {
    (void)state;
    const ll_recipe_key *k;
    int found = 0;
    for (int i = 0; (k = ll_recipe_key_at(i)); i++) {
        char needs[400], *rest = needs;
        if (!k->needs) continue;
        snprintf(needs, sizeof needs, "%s", k->needs);
        for (char *one; (one = strtok_r(rest, " ", &rest));) {
            if (!strcmp(one, "or")) continue;
            char *value = strchr(one, '='), text[100];
            *value++ = 0;
            for (char *choice; (choice = strtok_r(value, "|", &value)); found++) {
                ll_recipe *recipe = NULL;
                CHECK_OK(ll_recipe_create(&recipe));
                snprintf(text, sizeof text, "%s=%s", one, choice);
                CHECK_OK(ll_recipe_set(recipe, text));
                assert_null(ll_unmet(recipe, k->name));
                ll_recipe_free(recipe);
            }
        }
    }
    assert_true(found > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(needs_are_choices),
        cmocka_unit_test(keys_have_the_effect_they_are_said_to_have),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
