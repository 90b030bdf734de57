/* What a model does, on the page of its run: there, right, and said where it cannot be shown. */
#include "pages.h"

#include "report/report.h"

static void training_leaves_a_page(void **state) {
    (void)state;
    run("train.steps=14 train.report=on", at("trained"), NULL, 0, LL_OK);
    char *page = page_at(at("trained/report.html"));
    check_page(page);
    for (int i = 0; i < 4; i++)
        has(page, (const char *const[]){"id=\"samples\"", "id=\"loss-by-position\"", "id=\"attention\"",
                                        "trained on 24 tokens"}[i]);
    has(page, "<th scope=\"row\">Parameters</th><td>");
    has(page, "<th scope=\"row\">head 2</th>");
    ll_free(page);
    char *csv = page_at(at("trained/figures/attention.csv"));
    has(csv, "panel,row,0,1,");
    has(csv, "\nhead 1,0,1,,"); /* the first token has nothing but itself */
    ll_free(csv);
    char *positions = page_at(at("trained/figures/loss-by-position.csv"));
    has(positions, "position in the text,loss\n1.5,"); /* 24 parts of 96 tokens: 0..3, 4..7, .. */
    has(positions, "\n93.5,");
    ll_free(positions);
    CHECK_OK(ll_runs_report((const char *const[]){at("trained")}, 1, at("with.html")));
    page = page_at(at("with.html"));
    check_page(page);
    has(page, "id=\"loss-by-position\"");
    ll_free(page);
    assert_int_equal(files_in(at("trained"), "tmp"), 0);
    assert_int_equal(files_in(at("trained/figures"), "tmp"), 0);
    /* The same model shows the same again; and nothing is drawn by it that would change a run. */
    copy_folder(at("trained"), at("again"));
    CHECK_OK(ll_run_report(at("again"), NULL));
    same_file(at("trained/figures/attention.csv"), at("again/figures/attention.csv"));
    same_file(at("trained/figures/loss-by-position.csv"), at("again/figures/loss-by-position.csv"));
    run("train.steps=14 train.report=off", at("silent"), NULL, 0, LL_OK);
    assert_true(access(at("silent/report.html"), F_OK) != 0);
    same_metrics(at("trained/metrics.csv"), at("silent/metrics.csv"));
}

/* Loss against position, over the whole split, is the loss of windows of that length. */
static void positions_add_up(void **state) {
    (void)state;
    run("train.steps=14 train.report=on", at("adds"), NULL, 0, LL_OK);
    static const char *const columns[2] = {"position in the text", "loss"};
    ll_columns t;
    ll_model *m = NULL;
    ll_evaluation e;
    CHECK_OK(ll_columns_read(&t, at("adds/figures/loss-by-position.csv"), columns, 2, 2));
    CHECK_OK(ll_model_load(&m, at("adds/best.safetensors")));
    CHECK_OK(ll_model_set(m, "train.length=96"));
    CHECK_OK(ll_model_set(m, "train.batch=1"));
    CHECK_OK(ll_evaluate(m, "valid", 0, &e));
    assert_int_equal(e.count, 1499); /* 15 windows of 96 and one of 59, whose places count once more */
    double sum = 0;
    for (int i = 0; i < t.n; i++) sum += t.column[1][i] * 4 * (i < 14 ? 16 : i == 14 ? 15.75 : 15) / 1499;
    assert_int_equal(t.n, 24);
    assert_true(fabs(sum - e.bits_per_token) < 1e-4);
    ll_columns_free(&t);
    ll_model_free(m);
}

static const float *tensor(const ll_model *m, const char *name) {
    for (int i = 0;; i++) {
        const ll_tensor t = ll_model_tensor(m, i);
        assert_non_null(t.data);
        if (!strcmp(t.name, name)) return t.data;
    }
}

/* Learned functions of the distance, by their formulas. */
static void distances_are_functions(void **state) {
    (void)state;
    static const char *const columns[2] = {"5", "0"};
    ll_columns t;
    ll_model *m = NULL;
    run("train.steps=10 train.report=on position.type=sine-spe position.realizations=4 position.sines=3", at("sines"),
        NULL, 0, LL_OK);
    CHECK_OK(ll_columns_read(&t, at("sines/figures/distance.csv"), columns, 2, 2));
    CHECK_OK(ll_model_load(&m, at("sines/best.safetensors")));
    assert_int_equal(t.n, 16); /* two heads of 8 features */
    for (int c = 0; c < 16; c++)
        for (int k = 0; k < 2; k++) {
            double p = 0;
            for (int i = 3 * c; i < 3 * c + 3; i++) {
                const double l = log(1 + exp((double)tensor(m, "blocks.0.position.gains")[i]));
                const double f = 0.5 / (1 + exp(-(double)tensor(m, "blocks.0.position.freqs")[i]));
                p += l * l / 6 * cos(2 * M_PI * f * (k ? 0 : 5) + (double)tensor(m, "blocks.0.position.offsets")[i]);
            }
            assert_true(fabs(p - t.column[k][c]) < 1e-5 * (1 + fabs(p)));
        }
    ll_columns_free(&t);
    ll_model_free(m);
    m = NULL;
    run("train.steps=10 train.report=on position.type=relative-s1 position.scales=2", at("waves"), NULL, 0, LL_OK);
    CHECK_OK(ll_columns_read(&t, at("waves/figures/distance.csv"), columns, 2, 2));
    CHECK_OK(ll_model_load(&m, at("waves/best.safetensors")));
    assert_int_equal(t.n, 2); /* heads */
    for (int h = 0; h < 2; h++) {
        const float *a = tensor(m, "blocks.0.position.alpha") + 2 * h, *b = tensor(m, "blocks.0.position.beta") + 2 * h,
                    *w = tensor(m, "position.inv_freq");
        double p = 0;
        for (int i = 0; i < 2; i++)
            p += (double)a[i] * cos(5.0 * (double)w[i]) + (double)b[i] * sin(5.0 * (double)w[i]);
        assert_true(fabs(p - t.column[0][h]) < 1e-5);
        assert_true(fabs((double)a[0] + (double)a[1] - t.column[1][h]) < 1e-5);
    }
    ll_columns_free(&t);
    ll_model_free(m);
}

static void stopped_runs_have_a_page_too(void **state) {
    (void)state;
    run("train.steps=40 train.report=on", at("stopped"), NULL, 12, LL_ESTOPPED);
    char *page = page_at(at("stopped/report.html"));
    check_page(page);
    has(page, "<td>10 of 40</td>"); /* the last row */
    lacks(page, "id=\"attention\"");
    ll_free(page);
    run("train.steps=40 train.report=on", at("early"), NULL, 3, LL_ESTOPPED);
    assert_true(access(at("early/report.html"), F_OK) != 0); /* nothing to show yet */
}

/* A run whose data are gone says so, and shows what it has. */
static void what_cannot_be_shown_is_said(void **state) {
    (void)state;
    run("train.steps=10 train.report=off", at("moved"), NULL, 0, LL_OK);
    assert_int_equal(rename(at("valid.txt"), at("gone.txt")), 0);
    const ll_status status = ll_run_report(at("moved"), NULL);
    assert_int_equal(rename(at("gone.txt"), at("valid.txt")), 0);
    assert_int_equal(status, LL_OK);
    char *page = page_at(at("moved/report.html"));
    check_page(page);
    has(page, "valid.txt: No such file");
    has(page, "id=\"loss\"");
    lacks(page, "class=\"prompt\"");
    ll_free(page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_leaves_a_page),       cmocka_unit_test(positions_add_up),
        cmocka_unit_test(distances_are_functions),      cmocka_unit_test(stopped_runs_have_a_page_too),
        cmocka_unit_test(what_cannot_be_shown_is_said),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
