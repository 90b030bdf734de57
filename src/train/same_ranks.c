/* Do all ranks begin with the same? Machines may have other versions, files or settings than rank 0. Without this check
 * a run would go on and learn something else. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "longline/base.h"
#include "train/train_internal.h"

enum { VALUE = 64, ROWS = 8, LENGTH_MOST = 1 << 16 };

/* What a rank has, and what to do if it is not what rank 0 has. */
typedef struct {
    char value[VALUE];
    const char *what, *remedy;
} fact;

enum { VERSION, CPU, TRAIN, VALID, ROWS_OF_TRAIN, ROWS_OF_VALID, MODEL, FACTS };

/* LL_EINVAL names the first line that differs. */
static ll_status compare_lines(const char *mine, const char *first) {
    while (*mine || *first) {
        const size_t n = strcspn(mine, "\n"), m = strcspn(first, "\n");
        if (n != m || memcmp(mine, first, n))
            return ll_fail(LL_EINVAL,
                           "its recipe is not that of rank 0: \"%.*s\", and there \"%.*s\"; give all ranks the same "
                           "arguments and recipe",
                           n > 200 ? 200 : (int)n, mine, m > 200 ? 200 : (int)m, first);
        mine += n + (mine[n] == '\n');
        first += m + (first[m] == '\n');
    }
    return LL_OK;
}

/* Compares the recipe with that of rank 0. */
static ll_status compare_recipes(const ll_group *all, const ll_recipe *recipe) {
    char *mine = NULL, *first = NULL;
    ll_status status = ll_group_agree(all, ll_recipe_text(recipe, &mine));
    uint64_t size = status ? 0 : strlen(mine) + 1;
    if (!status) status = ll_group_broadcast(all, &size, sizeof size, 0);
    if (!status) status = ll_group_agree(all, (first = ll_alloc((size_t)size, 1)) ? LL_OK : LL_ENOMEM);
    if (!status && !all->me) memcpy(first, mine, (size_t)size);
    if (!status) status = ll_group_broadcast(all, first, (size_t)size, 0);
    if (!status) status = ll_group_agree(all, compare_lines(mine, first));
    ll_free(first);
    ll_free(mine);
    return status;
}

/* A checksum of some rows, from all over the data. */
static ll_status describe_rows(fact *f, const ll_reader *reader, const ll_config *c, int train) {
    ll_config one = *c;
    ll_batch b;
    char sums[ROWS][LL_CHECKSUM_TEXT];
    one.train.batch = 1;
    if (c->model.task != LL_TASK_SEQ2SEQ && one.train.length > LENGTH_MOST) one.train.length = LENGTH_MOST;
    const ll_status status = ll_batch_create(&b, &one);
    if (status) return status;
    const int64_t n = ll_reader_eval_batches(reader);
    for (int i = 0; i < ROWS; i++) {
        if (train)
            ll_reader_rows(reader, &b, c->train.seed, i);
        else
            ll_reader_eval_rows(reader, &b, n / ROWS * i);
        ll_st_checksum(sums[i], b.tokens, (size_t)b.B * (size_t)b.T * sizeof *b.tokens);
    }
    ll_st_checksum(f->value, sums, sizeof sums);
    ll_batch_free(&b);
    return LL_OK;
}

static ll_status describe(fact *f, const ll_trainer *t) {
    static const char data[] = "give all machines the same files";
    const ll_config *c = &t->recipe->c;
    for (int i = 0; i < FACTS; i++) f[i] = (fact){.what = "", .remedy = data};
    f[VERSION].what = "the version of longline", f[VERSION].remedy = "install the same one on all machines";
    f[CPU].what = "the instruction tier of its processor", f[CPU].remedy = "set LL_CPU to one that all machines have";
    f[TRAIN].what = "the size of data.train";
    f[VALID].what = "the size of the held-out data";
    f[ROWS_OF_TRAIN].what = "a checksum of some rows of data.train";
    f[ROWS_OF_VALID].what = "a checksum of some held-out rows";
    f[MODEL].what = "the model at the beginning", f[MODEL].remedy = "give all ranks the same train.from or --resume";
    snprintf(f[VERSION].value, VALUE, "%s", ll_version());
    snprintf(f[CPU].value, VALUE, "%s", ll_cpu());
    snprintf(f[TRAIN].value, VALUE, "%lld", (long long)ll_reader_size(t->train));
    if (t->valid) snprintf(f[VALID].value, VALUE, "%lld", (long long)ll_reader_size(t->valid));
    ll_status status = describe_rows(&f[ROWS_OF_TRAIN], t->train, c, 1);
    if (!status && t->valid) status = describe_rows(&f[ROWS_OF_VALID], t->valid, c, 0);
    return status ? status : ll_model_digest(t->model, f[MODEL].value);
}

ll_status ll_same_ranks(const ll_trainer *t) {
    const ll_group all = ll_group_all();
    fact mine[FACTS];
    char first[FACTS][VALUE];
    if (all.count == 1) return LL_OK;
    ll_status status = compare_recipes(&all, t->recipe);
    if (!status) status = ll_group_agree(&all, describe(mine, t));
    if (status) return status;
    for (int i = 0; i < FACTS; i++) memcpy(first[i], mine[i].value, VALUE);
    status = ll_group_broadcast(&all, first, sizeof first, 0);
    for (int i = 0; i < FACTS && !status; i++)
        if (strcmp(first[i], mine[i].value))
            status = ll_fail(LL_EINVAL, "%s is not that of rank 0: %s, and there %s; %s", mine[i].what, mine[i].value,
                             first[i], mine[i].remedy);
    return ll_group_agree(&all, status);
}
