/* A table's file:
 *
 *     [table]                          title, paper, metric, split, batches, recipe; differs.WHAT = text;
 *     model.layers = 2                 keys of recipes, for all systems
 *     [permute]                        a system: label, published, recipe (another one), keys of recipes; or
 *                                      baseline = unigram
 *
 * Recipes are named from where the file is. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ini.h"
#include "base/memory.h"
#include "base/text.h"
#include "compare/compare_internal.h"

enum { SETTINGS_MOST = 512 };

typedef struct {
    int system, line; /* -1: for all systems */
    char *text;       /* "key=value" */
} setting;

typedef struct {
    ll_comparison *c;
    const char *path;
    int in_table, is_table, settings;
    char *recipe[LL_SYSTEMS_MOST + 1]; /* recipes of systems, then the table's; NULL: not named */
    setting set[SETTINGS_MOST];
} reading;

static const char *const METRIC[] = {"perplexity", "accuracy", "bits", "loss"};

/* ---- One key ---- */

static ll_status keep(const char **to, const char *value) {
    ll_free((void *)*to);
    *to = ll_strdup(value);
    return *to ? LL_OK : LL_ENOMEM;
}

static ll_status keep_difference(ll_comparison *c, const char *what, const char *how) {
    if (c->about.differences == LL_DIFFERENCES_MOST)
        return ll_fail(LL_EINVAL, "a table states at most %d differences", (int)LL_DIFFERENCES_MOST);
    ll_difference *d = &c->difference[c->about.differences++];
    const ll_status status = keep(&d->what, what);
    return status ? status : keep(&d->how, how);
}

static ll_status set_metric(ll_comparison *c, const char *value) {
    for (int i = 0; i < 4; i++)
        if (!strcmp(value, METRIC[i])) {
            c->metric = i;
            c->about.metric = METRIC[i];
            c->about.rises = i == LL_METRIC_ACCURACY;
            c->about.decimals = i == LL_METRIC_BITS || i == LL_METRIC_LOSS ? 4 : 2;
            return LL_OK;
        }
    return ll_fail(LL_EINVAL, "metric is \"%.60s\"; it can be perplexity, accuracy, bits or loss", value);
}

static ll_status set_split(ll_comparison *c, const char *value) {
    if (strcmp(value, "test") && strcmp(value, "valid"))
        return ll_fail(LL_EINVAL, "split is \"%.60s\"; it can be test or valid", value);
    c->about.split = !strcmp(value, "test") ? "test" : "valid";
    return LL_OK;
}

static ll_status set_batches(ll_comparison *c, const char *value) {
    int64_t n;
    if (!ll_parse_integer(&n, value) || n < 0 || n > 1000000000)
        return ll_fail(LL_EINVAL, "batches is \"%.60s\"; it can be 0 (all) or more", value);
    c->about.batches = (int)n;
    return LL_OK;
}

static ll_status set_published(ll_contender *x, const char *value) {
    if (*value && !ll_parse_number(&x->published, value))
        return ll_fail(LL_EINVAL, "published is \"%.60s\", which is no number; leave it out where there is none",
                       value);
    return LL_OK;
}

static ll_status set_baseline(ll_contender *x, const char *value) {
    if (strcmp(value, "unigram")) return ll_fail(LL_EINVAL, "baseline is \"%.60s\"; it can be unigram", value);
    x->baseline = 1;
    return LL_OK;
}

/* A key of recipes, which is checked when all recipes are known. */
static ll_status set_later(reading *r, int system, const char *key, const char *value, int line) {
    if (r->settings == SETTINGS_MOST) return ll_fail(LL_EINVAL, "a table sets at most %d keys", (int)SETTINGS_MOST);
    const size_t size = strlen(key) + strlen(value) + 4;
    char *text = ll_alloc(size, 1);
    if (!text) return LL_ENOMEM;
    snprintf(text, size, "%s=%s", key, value);
    r->set[r->settings++] = (setting){system, line, text};
    return LL_OK;
}

static ll_status unknown(const char *key, const char *known) {
    return ll_fail(LL_EINVAL, "there is no key \"%.100s\" here; known are %s, and keys of recipes (model.layers)", key,
                   known);
}

static ll_status table_key(reading *r, const char *key, const char *value, int line) {
    ll_comparison *c = r->c;
    if (!strcmp(key, "title")) return keep(&c->about.title, value);
    if (!strcmp(key, "paper")) return keep(&c->about.paper, value);
    if (!strcmp(key, "recipe")) return keep((const char **)&r->recipe[LL_SYSTEMS_MOST], value);
    if (!strcmp(key, "metric")) return set_metric(c, value);
    if (!strcmp(key, "split")) return set_split(c, value);
    if (!strcmp(key, "batches")) return set_batches(c, value);
    if (!strncmp(key, "differs.", 8) && key[8]) return keep_difference(c, key + 8, value);
    if (strchr(key, '.')) return set_later(r, -1, key, value, line);
    return unknown(key, "title, paper, recipe, metric, split, batches, differs.WHAT");
}

static ll_status system_key(reading *r, const char *key, const char *value, int line) {
    const int i = r->c->systems - 1;
    ll_contender *x = &r->c->system[i];
    if (!strcmp(key, "label")) return keep((const char **)&x->label, value);
    if (!strcmp(key, "published")) return set_published(x, value);
    if (!strcmp(key, "baseline")) return set_baseline(x, value);
    if (!strcmp(key, "recipe")) return keep((const char **)&r->recipe[i], value);
    if (strchr(key, '.')) return set_later(r, i, key, value, line);
    return unknown(key, "label, published, baseline, recipe");
}

/* ---- Sections ---- */

static ll_status begin_system(ll_comparison *c, const char *name) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    if (!*name || name[strspn(name, plain)] || strlen(name) > 60)
        return ll_fail(LL_EINVAL, "[%.60s]: a system's name is made of letters, digits, - and _, for files", name);
    for (int i = 0; i < c->systems; i++)
        if (!strcmp(c->system[i].name, name)) return ll_fail(LL_EINVAL, "there are two systems [%s]", name);
    if (c->systems == LL_SYSTEMS_MOST)
        return ll_fail(LL_EINVAL, "a table has at most %d systems", (int)LL_SYSTEMS_MOST);
    ll_contender *x = &c->system[c->systems];
    x->published = NAN;
    x->name = ll_strdup(name);
    x->label = ll_strdup(name);
    c->systems++;
    return x->name && x->label ? LL_OK : LL_ENOMEM;
}

static ll_status read_key(void *arg, const char *section, const char *key, const char *value, int line) {
    reading *r = arg;
    if (!key) {
        r->in_table = !strcmp(section, "table");
        r->is_table |= r->in_table;
        if (r->in_table) return LL_OK;
        if (!r->is_table)
            return ll_fail(LL_EFORMAT, "[%.60s] comes before [table]; is this a table of systems?", section);
        return begin_system(r->c, section);
    }
    if (!*section) return ll_fail(LL_EFORMAT, "%.60s comes before [table]; is this a table of systems?", key);
    return r->in_table ? table_key(r, key, value, line) : system_key(r, key, value, line);
}

/* ---- Recipes ---- */

/* The path of a recipe: its name, relative to the table's folder. */
static char *path_of(const reading *r, const char *name) {
    const char *slash = strrchr(r->path, '/');
    const size_t n = slash && name[0] != '/' ? (size_t)(slash - r->path) + 1 : 0, size = n + strlen(name) + 1;
    char *path = ll_alloc(size, 1);
    if (path) snprintf(path, size, "%.*s%s", (int)n, r->path, name);
    return path;
}

static ll_status load_recipe(const reading *r, int i) {
    const char *name = r->recipe[i] ? r->recipe[i] : r->recipe[LL_SYSTEMS_MOST];
    if (!name)
        return ll_fail(LL_EINVAL, "%s: [%s] has no recipe; name one in [table], recipe = FILE", r->path,
                       r->c->system[i].name);
    char *path = path_of(r, name);
    const ll_status status = path ? ll_recipe_load(&r->c->system[i].recipe, path) : LL_ENOMEM;
    ll_free(path);
    return status == LL_EIO ? ll_fail_in(LL_EINVAL, r->path) : status; /* the error is in the table */
}

static ll_status set_key(ll_contender *x, const char *assignment) {
    const int key = ll_budget_key(assignment);
    if (key == LL_BUDGET_STEPS || key == LL_BUDGET_SEED)
        return ll_fail(LL_EINVAL,
                       "\"%.60s\": runs of a table have the steps of their budget (--budget 500steps) and the seeds "
                       "1, 2, .. (--seeds 3)",
                       assignment);
    const ll_status status = ll_recipe_set(x->recipe, assignment);
    if (!status && key >= 0) x->said[key] = 1;
    return status;
}

static ll_status apply(const reading *r, const setting *s, int i) {
    const ll_status status = set_key(&r->c->system[i], s->text);
    char where[1024];
    if (!status) return LL_OK;
    snprintf(where, sizeof where, "%s:%d", r->path, s->line);
    return ll_fail_in(status, where);
}

/* Is reported before hours of other runs, not after them. */
static ll_status check_pair(const reading *r, int i) {
    const ll_recipe *recipe = r->c->system[i].recipe;
    const int causal = !strcmp(ll_recipe_get(recipe, "model.task"), "lm");
    char where[1200];
    const ll_status status =
        ll_pair_legal(ll_recipe_get(recipe, "attention.kernel"), ll_recipe_get(recipe, "position.type"), causal);
    if (!status) return LL_OK;
    snprintf(where, sizeof where, "%s: [%s]", r->path, r->c->system[i].name);
    return ll_fail_in(status, where);
}

/* Settings of the table come first, so that those of a system override them. */
static ll_status make_recipes(const reading *r) {
    ll_status status = LL_OK;
    for (int i = 0; i < r->c->systems && !status; i++) {
        status = load_recipe(r, i);
        for (int own = 0; own < 2; own++)
            for (int k = 0; k < r->settings && !status; k++)
                if (r->set[k].system == (own ? i : -1)) status = apply(r, &r->set[k], i);
        if (!status) status = check_pair(r, i);
    }
    return status;
}

static ll_status read_all(reading *r) {
    ll_comparison *c = r->c;
    ll_status status = ll_ini_load(r->path, read_key, r);
    if (!status && !c->systems) status = ll_fail(LL_EFORMAT, "%s has no systems; a section [NAME] is one", r->path);
    if (!status && !c->about.metric)
        status = ll_fail(LL_EFORMAT, "%s: [table] lacks metric = perplexity, accuracy, bits or loss", r->path);
    if (!status && !c->about.title) status = keep(&c->about.title, r->path);
    if (!status && !c->about.paper) status = keep(&c->about.paper, "");
    return status ? status : make_recipes(r);
}

ll_status ll_comparison_load(ll_comparison **comparison, const char *path) {
    reading *r = ll_alloc(1, sizeof *r);
    ll_comparison *c = ll_alloc(1, sizeof *c);
    ll_status status = r && c ? LL_OK : LL_ENOMEM;
    if (!status) {
        c->about.difference = c->difference;
        c->about.split = "test";
        r->c = c;
        r->path = path;
        status = read_all(r);
        for (int i = 0; i < r->settings; i++) ll_free(r->set[i].text);
        for (int i = 0; i <= LL_SYSTEMS_MOST; i++) ll_free(r->recipe[i]);
    }
    ll_free(r);
    if (status)
        ll_comparison_free(c);
    else
        *comparison = c;
    return status;
}

void ll_comparison_free(ll_comparison *c) {
    if (!c) return;
    for (int i = 0; i < c->systems; i++) {
        ll_free(c->system[i].name);
        ll_free(c->system[i].label);
        ll_recipe_free(c->system[i].recipe);
    }
    for (int i = 0; i < c->about.differences; i++) {
        ll_free((void *)c->difference[i].what);
        ll_free((void *)c->difference[i].how);
    }
    ll_free((void *)c->about.title);
    ll_free((void *)c->about.paper);
    ll_free(c);
}

ll_status ll_comparison_set(ll_comparison *c, const char *assignment) {
    ll_status status = LL_OK;
    for (int i = 0; i < c->systems && !status; i++) status = set_key(&c->system[i], assignment);
    return status;
}

const ll_comparison_about *ll_comparison_report(const ll_comparison *c) {
    return &c->about;
}
