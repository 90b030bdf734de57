/* A small table of systems, and its files. */
#ifndef LL_TABLES_H
#define LL_TABLES_H

#include "pages.h"

static const char base_recipe[] =
    "[model]\nlayers = 1\nwidth = 16\nheads = 2\nff = 16\n[train]\nlength = 24\nbatch = 4\n"
    "warmup = 2\nlearning-rate = 0.01\nreport = off\neval-batches = 2\n[data]\n";

static const char systems[] =
    "[table]\ntitle = \"Small <things>\"\npaper = Nobody, Table 9\nrecipe = sub/base.ini\n"
    "metric = bits\nsplit = valid\nbatches = 3\ndiffers.data = little\nmodel.ff = 32\n\n"
    "[soft]\nlabel = Transformer\npublished = 1.5\nattention.kernel = softmax\n"
    "position.type = rope\nposition.decay = none\n\n"
    "[permute]\npublished = 2.5\nattention.kernel = relu\nposition.type = permute\nmodel.ff = 24\n\n"
    "[letters]\nbaseline = unigram\n";

static inline void write_text(const char *path, const char *text) { CHECK_OK(ll_file_write(path, text, strlen(text))); }

static inline int make_table(void **state) {
    char recipe[1000];
    if (make_data(state)) return -1;
    snprintf(recipe, sizeof recipe, "%strain = %s\nvalid = %s\n", base_recipe, at("train.txt"), at("valid.txt"));
    if (ll_folder_create(at("sub"))) return -1;
    write_text(at("sub/base.ini"), recipe);
    write_text(at("table.ini"), systems);
    return 0;
}

static inline ll_comparison *load(const char *path) {
    ll_comparison *c = NULL;
    CHECK_OK(ll_comparison_load(&c, path));
    return c;
}

static inline ll_system system_at(const ll_comparison *c, int i) {
    ll_system s;
    assert_int_equal(ll_comparison_system(c, i, &s), 1);
    return s;
}

#endif
