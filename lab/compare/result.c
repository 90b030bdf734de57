/* The result of a run: result.ini in its folder. It is written when the run is planned, and again when it is done. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/ini.h"
#include "base/memory.h"
#include "base/text.h"
#include "compare/compare_internal.h"

static const char *const STATE[] = {"none", "begun", "trained", "done", "diverged"};

/* Numbers by their names. */
static double *number(ll_result *r, const char *key) {
    static const char *const names[] = {"tokens", "seconds", "parameters", "loss", "accuracy", "count"};
    double *const at[] = {&r->tokens, &r->seconds, &r->parameters, &r->loss, &r->accuracy, &r->count};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(key, names[i])) return at[i];
    return NULL;
}

static ll_status read_key(void *arg, const char *section, const char *key, const char *value, int line) {
    ll_result *r = arg;
    (void)section, (void)line;
    if (!key) return LL_OK;
    double *to = number(r, key);
    if (to && !strcmp(value, "nan")) return *to = NAN, LL_OK;
    if (to) return ll_parse_number(to, value) ? LL_OK : ll_fail(LL_EFORMAT, "%s is no number: \"%.60s\"", key, value);
    if (!strcmp(key, "budget")) snprintf(r->budget, sizeof r->budget, "%s", value);
    if (!strcmp(key, "settings")) snprintf(r->settings, sizeof r->settings, "%s", value);
    if (!strcmp(key, "split")) snprintf(r->split, sizeof r->split, "%s", value);
    int64_t *whole = !strcmp(key, "steps") ? &r->steps : !strcmp(key, "batches") ? &r->batches : NULL;
    if (whole && !ll_parse_integer(whole, value)) return ll_fail(LL_EFORMAT, "%s is no number: \"%.60s\"", key, value);
    if (strcmp(key, "state")) return LL_OK;
    for (int i = LL_RESULT_BEGUN; i <= LL_RESULT_DIVERGED; i++)
        if (!strcmp(value, STATE[i])) r->state = (ll_result_state)i;
    return r->state ? LL_OK : ll_fail(LL_EFORMAT, "state is \"%.60s\"; it can be begun, done or diverged", value);
}

ll_status ll_result_read(ll_result *r, const char *run) {
    *r = (ll_result){.loss = NAN, .accuracy = NAN};
    char *path = ll_path_join(run, "result.ini");
    if (!path) return LL_ENOMEM;
    ll_status status = access(path, F_OK) ? LL_OK : ll_ini_load(path, read_key, r);
    if (r->state == LL_RESULT_DONE && !isfinite(r->loss)) r->state = LL_RESULT_DIVERGED; /* from earlier versions */
    if (!status && r->state && (r->steps < 1 || !r->budget[0]))
        status = ll_fail(LL_EFORMAT, "%s lacks steps or budget; remove it to make the run again", path);
    ll_free(path);
    return status;
}

ll_status ll_result_write(const ll_result *r, const char *run) {
    char text[1024], digits[2][LL_NUMBER_TEXT];
    int n = snprintf(text, sizeof text,
                     "# A run of longline table.\n[result]\nstate = %s\nbudget = %s\nsettings = %s\nsteps = %lld\n",
                     STATE[r->state], r->budget, r->settings, (long long)r->steps);
    if (r->state >= LL_RESULT_DONE)
        n += ll_format_text(text + n, sizeof text - (size_t)n, "tokens = %.0f\nseconds = %.3f\nparameters = %.0f\n",
                            r->tokens, r->seconds, r->parameters);
    if (r->state == LL_RESULT_DONE) {
        ll_print_number(digits[0], r->loss);
        ll_print_number(digits[1], r->accuracy);
        n += ll_format_text(text + n, sizeof text - (size_t)n,
                            "split = %s\nbatches = %lld\nloss = %s\naccuracy = %s\ncount = %.0f\n", r->split,
                            (long long)r->batches, digits[0], digits[1], r->count);
    }
    char *path = ll_path_join(run, "result.ini");
    ll_status status = path ? ll_folder_create(run) : LL_ENOMEM;
    if (!status) status = ll_file_write(path, text, (size_t)n);
    ll_free(path);
    return status;
}
