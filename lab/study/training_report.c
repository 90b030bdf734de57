/* Reports of runs: the common parts from the files of the run, and between them what its model does. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/integer.h"
#include "base/memory.h"
#include "study/study.h"

/* Does a sequence of T tokens take more memory than the page may, or more work? */
static int is_too_long(const ll_study *s, int T, size_t most) {
    size_t bytes;
    const int larger = !ll_workspace_measure(&bytes, s->model, 1, T, 0, 1) && bytes > most;
    return larger || ll_study_bound(ll_model_cost(s->model, T).multiply_adds * (double)T / 16, 0, 1) < 1;
}

/* Four times the training length, or what positions, memory and work allow. */
static ll_status set_longest(ll_study *s) {
    int64_t T = 4 * (int64_t)s->c->train.length;
    size_t most = 0;
    const ll_status status = ll_page_most(&most, s->model);
    if (T > ll_position_limit(&s->c->position)) T = ll_position_limit(&s->c->position);
    while (!status && T > 64 && is_too_long(s, (int)T, most)) T /= 2;
    s->window.train.batch = 1;
    s->window.train.length = (int)T;
    return status;
}

static void close_study(ll_study *s) {
    ll_reader_free(s->data);
    ll_tokenizer_free(s->tokenizer);
    s->data = NULL;
    s->tokenizer = NULL;
}

/* Is there a split that the run did not train on? */
static ll_status check_split(const ll_config *c) {
    if (ll_fit_has_valid(c) || (c->data.test && c->data.test[0])) return LL_OK;
    return ll_fail(LL_EINVAL,
                   "There is none: data.valid and data.test are empty, and data.valid-fraction is 0. What needs "
                   "such data is left out.");
}

/* The data are read once for all parts. */
static ll_status open_study(ll_study *s) {
    const ll_status none = check_split(s->c);
    if (none) return none;
    s->window = *s->c;
    s->window.train.batch = ll_shards_reading(s->c);
    ll_status status = s->c->model.task == LL_TASK_LM ? set_longest(s) : LL_OK;
    if (!status) status = ll_reader_open_as(&s->data, &s->window, ll_study_split(s->c), &s->model->vocabulary);
    if (!status) status = ll_fit_check(s->c, s->data, 0);
    if (!status) {
        int width, height;
        ll_reader_image(s->data, &width, &height);
        if (width * height < 2) status = ll_tokenizer_create(&s->tokenizer, s->model);
    }
    if (status) close_study(s);
    return status;
}

/* ---- One run ---- */

static int is_lm(const ll_config *c) {
    return c->model.task == LL_TASK_LM;
}
static int is_classifier(const ll_config *c) {
    return !ll_config_per_token(c);
}
static int learns_distance(const ll_config *c) {
    return c->position.type == LL_POSITION_SINE_SPE || c->position.type == LL_POSITION_CONV_SPE ||
           c->position.type == LL_POSITION_RELATIVE_S1 || c->position.type == LL_POSITION_T5;
}
static int learns_vectors(const ll_config *c) {
    return c->position.type == LL_POSITION_SHAW || c->position.type == LL_POSITION_RELATIVE_S2;
}
static int is_protein(const ll_config *c) {
    return c->data.format == LL_DATA_FASTA;
}
static int is_seq2seq(const ll_config *c) {
    return c->model.task == LL_TASK_SEQ2SEQ;
}
static int has_one_stack(const ll_config *c) {
    return !is_seq2seq(c);
}

/* In the order of the page. */
static const struct {
    const char *id, *title;
    int (*applies)(const ll_config *c);
    int needs_data;
    ll_status (*write)(const ll_study *s);
} parts[] = {
    {"samples", "Samples", is_lm, 1, ll_study_sample},
    {"answers", "Answers", is_seq2seq, 1, ll_study_answers},
    {"by-position", "Loss against position", is_lm, 1, ll_study_by_position},
    {"mistakes", "Mistakes", is_classifier, 1, ll_study_classes},
    {"looks", "Attention", has_one_stack, 1, ll_study_attention},
    {"distances", "Learned positions", learns_distance, 0, ll_study_distance},
    {"distances", "Learned positions", learns_vectors, 0, ll_study_vectors},
    {"acids", "Amino acids", is_protein, 1, ll_study_acids},
};

/* A part that cannot be shown leaves a note. Failures of the page (memory, disk) end it. */
static void write_failure(ll_html *h, ll_status status) {
    if (status == LL_ENOMEM)
        ll_html_fail(h, status);
    else if (status && !h->status)
        ll_html_note(h, ll_error());
}

/* Progress of a page. All parts, and the test before them, count as equally long. */
typedef struct {
    ll_done_fn *progress;
    void *arg;
    int part, parts, stopped;
    int64_t reported; /* thousandths */
} pace;

/* Progress of a call with the model. A part may make several calls; the reported share never falls. */
static int on_progress(int64_t done, int64_t total, void *arg) {
    pace *p = arg;
    const int64_t far = (1000 * p->part + 1000 * done / total) / p->parts;
    if (far > p->reported) p->reported = far;
    if (p->progress && p->progress(p->reported, 1000, p->arg)) p->stopped = 1;
    return p->stopped;
}

static void next_part(ll_html *h, pace *p) {
    on_progress(1, 1, p);
    p->part++;
    if (p->stopped) ll_html_fail(h, ll_fail(LL_ESTOPPED, "stopped on request"));
}

/* missing: why there are no held-out data; NULL: there are. */
static void write_parts(ll_study *s, const char *missing, pace *p) {
    if (missing) {
        ll_html_section(s->h, "data", "Held-out data");
        ll_html_note(s->h, missing);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !s->h->status; i++) {
        if (!parts[i].applies(s->c) || (missing && parts[i].needs_data)) continue;
        ll_html_section(s->h, parts[i].id, parts[i].title);
        write_failure(s->h, parts[i].write(s));
        next_part(s->h, p);
    }
}

/* Tests on all of the test data, or on as much as the work allows. If there is none, there is no result. `why`, in new
 * memory or NULL, says why data that were given have none. */
static ll_status test(ll_model *model, ll_run_facts *facts, char **why) {
    const ll_config *c = &model->recipe->c;
    if (!c->data.test || !c->data.test[0]) return LL_OK;
    const double batch = ll_model_cost(model, c->train.length).multiply_adds * c->train.length * c->train.batch;
    const int most = ll_study_bound(batch / 2, 1, 1 << 20);
    ll_reader *reader = NULL;
    ll_status status = ll_reader_open_as(&reader, c, "test", &model->vocabulary);
    if (!status) {
        facts->test_whole = ll_reader_eval_batches(reader) <= most;
        ll_reader_free(reader);
        status = ll_evaluate_alone(model, "test", most, &facts->test);
    }
    if (status && status != LL_ENOMEM && status != LL_ESTOPPED) *why = ll_strdup(ll_error());
    return status == LL_ENOMEM || (status && status != LL_ESTOPPED && !*why) ? LL_ENOMEM : LL_OK;
}

/* The share of the most frequent class among the held-out examples of an evaluation. Without them there is none. */
static ll_status count_classes(const ll_model *model, ll_run_facts *facts) {
    const ll_config *c = &model->recipe->c;
    ll_reader *reader = NULL;
    ll_batch batch = {0};
    int64_t all = 0, most = 0;
    if (ll_config_per_token(c) || !ll_fit_has_valid(c)) return LL_OK;
    if (ll_reader_open_as(&reader, c, "valid", &model->vocabulary)) return LL_OK; /* open_study says why */
    int64_t *count = ll_alloc((size_t)c->model.classes, sizeof *count);
    const ll_status status = count ? ll_batch_create(&batch, c) : LL_ENOMEM;
    const int64_t n = status ? 0 : ll_evaluate_batches(reader, c->train.eval_batches);
    for (int64_t i = 0; i < n; i++) ll_reader_count(reader, &batch, ll_evaluated_batch(reader, i, n), count);
    for (int k = 0; count && k < c->model.classes; k++) all += count[k], most = ll_max_int64(most, count[k]);
    if (all) facts->majority = (double)most / (double)all;
    ll_free(count);
    ll_batch_free(&batch);
    ll_reader_free(reader);
    return status;
}

/* Why a page lacks what needs data: in new memory, or NULL. */
typedef struct {
    char *untested, *missing;
    int given; /* does the recipe name what is missing? */
} missing_data;

static void write_page(ll_html *h, const ll_run *run, const ll_run_facts *facts, const missing_data *l, ll_study *s,
                       pace *p) {
    ll_run_page_results(h, run, facts);
    if (l->untested) {
        ll_html_note(h, "There is no result on the test data:");
        ll_html_note(h, l->untested);
    }
    ll_run_page_loss(h, run);
    if (s->model) {
        next_part(h, p);
        write_parts(s, l->missing, p);
    }
    ll_run_page_costs(h, run);
    ll_run_page_recipe(h, run);
}

static int count_parts(const ll_config *c) {
    int n = 1; /* the test */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) n += parts[i].applies(c) != 0;
    return n;
}

/* Tests the model, and opens the data of the study. */
static ll_status prepare(ll_study *s, ll_run_facts *facts, missing_data *l, pace *p) {
    ll_model *model = s->model;
    s->c = &model->recipe->c;
    facts->parameters = (double)ll_model_size(model).parameters;
    p->parts = count_parts(s->c);
    ll_model_watch(model, on_progress, p);
    ll_status status = count_classes(model, facts);
    if (!status) status = test(model, facts, &l->untested);
    if (status) return status;
    status = open_study(s);
    if (status && status != LL_ENOMEM) l->missing = ll_strdup(ll_error());
    l->given = !check_split(s->c);
    return status == LL_ENOMEM || (status && !l->missing) ? LL_ENOMEM : LL_OK;
}

/* A page that is there may have what the new one would lack. Else *why, if it is wanted, has that. */
static ll_status check_kept(const missing_data *l, const char *kept, char **why) {
    const char *lacking = l->missing && l->given ? l->missing : l->untested;
    if (!lacking) return LL_OK;
    if (kept && !access(kept, F_OK))
        return ll_fail(LL_EINVAL, "%s; %s is left as it is; -o FILE.html writes a page without what needs the data",
                       lacking, kept);
    if (why && !(*why = ll_strdup(lacking))) return LL_ENOMEM;
    return LL_OK;
}

/* whole: the model is loaded and studied; else it has so many parameters. kept: NULL, or the path of a page that one
 * without the data does not replace. */
typedef struct {
    const char *folder, *path, *kept;
    int whole;
    double parameters;
} page_request;

static ll_status write_report(const page_request *o, char **why, pace *p) {
    ll_run run;
    ll_html h;
    ll_study study = {.h = &h};
    missing_data l = {0};
    ll_status status = ll_run_open(&run, o->folder);
    if (status) return status;
    ll_run_facts facts = ll_run_facts_of(&run);
    facts.parameters = o->parameters;
    study.unit = run.unit;
    if (o->whole) status = ll_run_load(&study.model, o->folder);
    if (study.model) status = prepare(&study, &facts, &l, p);
    if (!status) status = check_kept(&l, o->kept, why);
    if (!status) status = ll_html_open(&h, o->path, run.name);
    if (!status) {
        write_page(&h, &run, &facts, &l, &study, p);
        status = ll_html_finish(&h);
    }
    close_study(&study);
    ll_free(l.untested);
    ll_free(l.missing);
    ll_model_free(study.model);
    ll_run_close(&run);
    return status;
}

ll_status ll_run_report(const char *run, const char *path, char **lacks, ll_done_fn *progress, void *arg) {
    pace p = {.progress = progress, .arg = arg, .parts = 1};
    char *own = path ? NULL : ll_path_join(run, "report.html");
    if (!path && !own) return LL_ENOMEM;
    if (lacks) *lacks = NULL;
    const ll_status status = write_report(&(page_request){run, path ? path : own, own, 1, 0}, lacks, &p);
    ll_free(own);
    return status;
}

ll_status ll_trainer_report(const ll_trainer *t, int whole, void *arg) {
    pace p = {.parts = 1};
    (void)arg;
    char *path = ll_path_join(t->folder, "report.html");
    if (!path) return LL_ENOMEM;
    const double parameters = (double)ll_model_size(t->model).parameters;
    const ll_status status = write_report(&(page_request){t->folder, path, NULL, whole, parameters}, NULL, &p);
    ll_free(path);
    return status;
}

/* ---- Runs side by side ---- */

static ll_status count_parameters(double *parameters, const char *folder) {
    ll_model *model = NULL;
    const ll_status status = ll_run_load(&model, folder);
    if (model) *parameters = (double)ll_model_size(model).parameters;
    ll_model_free(model);
    return status;
}

ll_status ll_runs_report(const char *const *folders, int n, const char *path) {
    ll_html h;
    if (n < 1 || n > LL_CURVES_MOST) return ll_fail(LL_EINVAL, "%d runs; a page compares 1 to %d", n, LL_CURVES_MOST);
    ll_run *runs = ll_alloc((size_t)n, sizeof *runs);
    ll_run_facts *facts = ll_alloc((size_t)n, sizeof *facts);
    ll_status status = runs && facts ? LL_OK : LL_ENOMEM;
    for (int i = 0; i < n && !status; i++) {
        status = ll_run_open(&runs[i], folders[i]);
        if (!status) facts[i] = ll_run_facts_of(&runs[i]);
        if (!status) status = count_parameters(&facts[i].parameters, folders[i]);
    }
    if (!status) status = ll_html_open(&h, path, "Runs compared");
    if (!status) {
        ll_compare_page(&h, runs, facts, n);
        status = ll_html_finish(&h);
    }
    for (int i = 0; i < n && runs; i++) ll_run_close(&runs[i]);
    ll_free(runs);
    ll_free(facts);
    return status;
}
