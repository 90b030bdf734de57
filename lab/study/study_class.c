/* The confusions of a classifier: a table of classes, and the wrong answers of which it is most certain. For pairs of
 * texts the class belongs to the pair. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "study/study.h"

enum { EXAMPLES = 1000, SHOWN = 24, CLASSES = 100, NAME = 257 /* of 256 bytes */ };

typedef struct {
    int is, said;
    double sure; /* probability of the answer */
    int *tokens; /* (T) */
} mistake;

typedef struct {
    int T, classes, batch, width, height;
    double *table; /* (classes, classes): class, answer; NULL: more than CLASSES, which are not shown */
    int examples, wrong;
    int shown;
    mistake most[SHOWN]; /* the most certain first */
    int *tokens;         /* the memory of these */
} verdicts;

/* Inserts a mistake at its rank, in place of the least certain one. */
static void keep(verdicts *v, int is, int said, double sure, const int *tokens) {
    if (v->shown == SHOWN && sure <= v->most[SHOWN - 1].sure) return;
    int *buffer = v->shown < SHOWN ? v->tokens + (size_t)v->shown * (size_t)v->T : v->most[SHOWN - 1].tokens;
    int at = v->shown < SHOWN ? v->shown++ : SHOWN - 1;
    for (; at > 0 && v->most[at - 1].sure < sure; at--) v->most[at] = v->most[at - 1];
    memcpy(buffer, tokens, (size_t)v->T * sizeof *buffer);
    v->most[at] = (mistake){is, said, sure, buffer};
}

static void judge(verdicts *v, const ll_batch *b, const float *logp) {
    for (int i = 0; i < v->batch; i++) {
        const float *p = logp + (size_t)i * (size_t)v->classes;
        const int is = b->targets[i];
        int said = 0;
        if (is < 0) continue;
        for (int c = 1; c < v->classes; c++)
            if (p[c] > p[said]) said = c;
        v->examples++;
        if (v->table) v->table[is * v->classes + said]++;
        if (said == is) continue;
        v->wrong++;
        keep(v, is, said, exp((double)p[said]), b->tokens + (size_t)i * (size_t)(b->B / v->batch) * (size_t)v->T);
    }
}

static ll_status classify(const ll_study *s, verdicts *v) {
    const ll_config *c = &s->window;
    ll_batch batch = {0};
    float *logp = ll_alloc((size_t)c->train.batch * (size_t)c->model.classes, sizeof *logp);
    ll_status status = logp ? ll_batch_create(&batch, c) : LL_ENOMEM;
    const int64_t all = ll_reader_eval_batches(s->data);
    int64_t n = ll_study_bound(ll_model_cost(s->model, c->train.length).multiply_adds * c->train.length, 1, EXAMPLES) /
                c->train.batch;
    n = n < 1 ? 1 : n > all ? all : n;
    ll_reader_image(s->data, &v->width, &v->height);
    for (int64_t i = 0; i < n && !status; i++) {
        ll_reader_eval_batch(s->data, &batch, i * all / n);
        status = ll_model_logp(s->model, logp, batch.tokens, batch.lengths, batch.B, batch.T);
        if (!status) judge(v, &batch, logp);
    }
    ll_batch_free(&batch);
    ll_free(logp);
    return status;
}

/* ---- On the page ---- */

/* The name of a class if the data have names, "neg,pos"; else its number. */
static void class_name(char out[NAME], const ll_study *s, int number) {
    const char *at = s->c->data.class_names ? s->c->data.class_names : "";
    for (int i = 0; i < number && *at; i++) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    if (*at)
        snprintf(out, NAME, "%.*s", (int)strcspn(at, ","), at);
    else
        snprintf(out, NAME, "%d", number);
}

/* Examples of a class. */
static double examples_of(const verdicts *v, int class) {
    double sum = 0;
    for (int j = 0; j < v->classes; j++) sum += v->table[class * v->classes + j];
    return sum;
}

/* Shares of each class, so that rows compare whatever their number. */
static ll_status show_table(const ll_study *s, const verdicts *v) {
    static const char *const head[4] = {"class", "examples", "right", "mostly taken for"};
    const int n = v->classes;
    if (!v->table) return LL_OK;
    float *shares = ll_alloc((size_t)n * (size_t)n, sizeof *shares);
    if (!shares) return LL_ENOMEM;
    char caption[200], examples[32];
    ll_count_text(examples, sizeof examples, v->examples);
    snprintf(caption, sizeof caption,
             "What each class (a row) is taken for (a column), as shares of the row; over %s "
             "held-out examples.",
             examples);
    for (int i = 0; i < n; i++) {
        const double sum = examples_of(v, i);
        for (int j = 0; j < n; j++) shares[i * n + j] = sum > 0 ? (float)(v->table[i * n + j] / sum) : NAN;
    }
    const ll_panel panel = {"", n, n, shares};
    char name[CLASSES][NAME];
    const char *names[CLASSES];
    for (int i = 0; i < n; i++) class_name(name[i], s, i), names[i] = name[i];
    const ll_heat_map map = {.title = "Classes",
                             .x_label = "answer of the model",
                             .y_label = "class, from the top",
                             .n = 1,
                             .panels = &panel,
                             .names = names};
    const ll_html_about about = {"classes", caption};
    const ll_html_maps maps = {.tab = "", .groups = 1, .group = &map};
    ll_html_grid_begin(s->h);
    ll_html_maps_write(s->h, &about, &maps);
    const ll_html_table table = {.label = "Classes", .cols = 4, .head = head, .numbers = 1};
    ll_html_table_begin(s->h, &table);
    for (int i = 0; i < n; i++) {
        char all[32], right[32] = "–", other[NAME + 16] = "–";
        int worst = -1;
        for (int j = 0; j < n; j++)
            if (j != i && shares[i * n + j] > (worst < 0 ? 0 : shares[i * n + worst])) worst = j;
        ll_count_text(all, sizeof all, examples_of(v, i));
        if (isfinite(shares[i * n + i]))
            ll_format_text(right, sizeof right, "%.0f (%.1f %%)", v->table[i * n + i], 100 * (double)shares[i * n + i]);
        if (worst >= 0)
            ll_format_text(other, sizeof other, "%s (%.1f %%)", names[worst], 100 * (double)shares[i * n + worst]);
        const char *const cells[4] = {names[i], all, right, other};
        ll_html_row(s->h, 4, cells, 0);
    }
    ll_html_table_end(s->h);
    ll_html_grid_end(s->h);
    ll_free(shares);
    return LL_OK;
}

static ll_status show_images(const ll_study *s, const verdicts *v) {
    const int n = v->width * v->height;
    if (!v->shown || n < 1 || n * ll_reader_channels(s->data) > v->T) return LL_OK;
    char captions[SHOWN][2 * NAME + 64];
    const char *list[SHOWN];
    unsigned char *pixels = ll_alloc((size_t)v->shown, (size_t)n);
    if (!pixels) return LL_ENOMEM;
    for (int i = 0; i < v->shown; i++) {
        const mistake *m = &v->most[i];
        char is[NAME], said[NAME];
        class_name(is, s, m->is);
        class_name(said, s, m->said);
        ll_format_text(captions[i], sizeof captions[i], "is %s, taken for %s (%.0f\u00a0%%)", is, said, 100 * m->sure);
        list[i] = captions[i];
        ll_study_gray(s, m->tokens, pixels + (size_t)i * (size_t)n);
    }
    const ll_html_images images = {v->shown, v->width, v->height, pixels, list};
    ll_html_paragraph(s->h, "Images that the model is wrong about, the ones it is surest of first:");
    ll_html_images_write(s->h, &images);
    ll_free(pixels);
    return LL_OK;
}

ll_status ll_study_classes(const ll_study *s) {
    const int n = s->c->model.classes;
    verdicts v = {.T = s->c->train.length, .classes = n, .batch = s->window.train.batch};
    if (n <= CLASSES) v.table = ll_alloc((size_t)n * (size_t)n, sizeof *v.table);
    v.tokens = ll_alloc(SHOWN, (size_t)v.T * sizeof *v.tokens);
    ll_status status = (v.table || n > CLASSES) && v.tokens ? classify(s, &v) : LL_ENOMEM;
    if (!status) status = show_images(s, &v);
    if (!status) status = show_table(s, &v);
    if (!status && v.width * v.height > 1) status = ll_study_shift(s);
    ll_free(v.table);
    ll_free(v.tokens);
    return status;
}
