/* Do all ranks begin with the same? Machines may have other versions, files or settings than rank 0. Without this check
 * a run would go on and learn something else. A run that is resumed knows its data by the same checksum as ranks. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "longline/base.h"
#include "train/train_internal.h"

enum { ROWS = 8, LENGTH_MOST = 1 << 16 };

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

/* The sum of all that a batch has: its tokens, and what is learned of them. */
static void sum_batch(char sum[LL_CHECKSUM_TEXT], const ll_batch *b, int task) {
    const size_t rows = (size_t)b->B, tokens = rows * (size_t)b->T, source = rows * (size_t)b->S;
    const size_t targets = ll_task_per_token(task) ? tokens : rows / (size_t)ll_task_sequences(task);
    const struct {
        const int *data;
        size_t count;
    } parts[] = {
        {b->tokens, tokens}, {b->targets, targets}, {b->lengths, rows}, {b->source, source}, {b->source_lengths, rows}};
    char sums[5][LL_CHECKSUM_TEXT] = {{0}};
    for (int i = 0; i < 5; i++)
        if (parts[i].data) ll_st_checksum(sums[i], parts[i].data, parts[i].count * sizeof(int));
    ll_st_checksum(sum, sums, sizeof sums);
}

ll_status ll_rows_checksum(char sum[LL_CHECKSUM_TEXT], const ll_reader *reader, const ll_config *c, int train) {
    ll_config one = *c;
    ll_batch b;
    char sums[ROWS][LL_CHECKSUM_TEXT];
    one.train.batch = 1;
    if (c->model.task != LL_TASK_SEQ2SEQ && one.train.length > LENGTH_MOST) one.train.length = LENGTH_MOST;
    const ll_status status = ll_batch_create(&b, &one);
    if (status) return status;
    const int64_t rows = ll_reader_eval_batches(reader) * c->train.batch; /* the last ones may be empty */
    for (int i = 0; i < ROWS; i++) {
        if (train)
            ll_reader_rows(reader, &b, c->train.seed, i);
        else
            ll_reader_eval_rows(reader, &b, rows * i / ROWS);
        sum_batch(sums[i], &b, c->model.task);
    }
    ll_st_checksum(sum, sums, sizeof sums);
    ll_batch_free(&b);
    return LL_OK;
}

static ll_status compare_data(const char *name, const ll_reader *reader, const ll_config *c, int train) {
    static const char remedy[] = "give all machines the same files";
    const ll_group all = ll_group_all();
    char size[24], sum[LL_CHECKSUM_TEXT] = "", what[80];
    snprintf(size, sizeof size, "%lld", (long long)ll_reader_size(reader));
    snprintf(what, sizeof what, "the size of %s", name);
    ll_status status = ll_dist_same(what, size, remedy);
    if (!status) status = ll_group_agree(&all, ll_rows_checksum(sum, reader, c, train));
    snprintf(what, sizeof what, "a checksum of some rows of %s", name);
    return status ? status : ll_dist_same(what, sum, remedy);
}

static ll_status compare_programs(void) {
    const ll_status status =
        ll_dist_same("the version of longline", ll_version(), "install the same one on all machines");
    if (status) return status;
    return ll_dist_same("the instruction tier of its processor", ll_cpu(), "set LL_CPU to one that all machines have");
}

static ll_status compare_models(const ll_model *model, const char *what, const char *remedy) {
    const ll_group all = ll_group_all();
    char digest[LL_DIGEST_TEXT] = "";
    const ll_status status = ll_group_agree(&all, ll_model_digest(model, digest));
    return status ? status : ll_dist_same(what, digest, remedy);
}

ll_status ll_dist_same_model(const ll_model *model) {
    if (ll_group_all().count == 1) return LL_OK;
    const ll_status status = compare_programs();
    return status ? status : compare_models(model, "its model", "give all machines the same model file");
}

ll_status ll_same_data(const ll_model *model, const ll_reader *reader) {
    const ll_group all = ll_group_all();
    if (all.count == 1) return LL_OK;
    const ll_status status = compare_recipes(&all, model->recipe);
    return status ? status : compare_data("the evaluated data", reader, &model->recipe->c, 0);
}

ll_status ll_same_ranks(const ll_trainer *t) {
    const ll_group all = ll_group_all();
    const ll_config *c = &t->recipe->c;
    if (all.count == 1) return LL_OK;
    ll_status status = compare_programs();
    if (!status) status = compare_recipes(&all, t->recipe);
    if (!status) status = compare_data("data.train", t->train, c, 1);
    if (!status && t->valid) status = compare_data("the held-out data", t->valid, c, 0);
    if (!status && t->teacher)
        status = ll_dist_same("its teacher", t->engine->taught_by, "give all ranks the same train.teacher");
    if (status) return status;
    return compare_models(t->model, "the model at the beginning", "give all ranks the same train.from or --resume");
}
