/* Pages with runs side by side: curves, colours, and which losses are said to compare. */
#include "pages.h"

static void runs_side_by_side(void **state) {
    (void)state;
    write_run(at("one"), "[model]\nlayers = 2\nwidth = 64\n", 40, 20);
    write_run(at("two"), "[model]\nlayers = 3\nwidth = 64\n", 80, 20);
    CHECK_OK(ll_folder_create(at("other")));
    write_run(at("other/two"), "[model]\nlayers = 3\nwidth = 64\n", 20, 100);
    const char *const runs[3] = {at("one"), at("two"), at("other/two")};
    CHECK_OK(ll_runs_report(runs, 2, at("both.html")));
    char *page = page_at(at("both.html"));
    check_page(page);
    has(page, "<tr class=\"marked\"><th scope=\"row\">model.layers</th><td>2</td><td>3</td></tr>");
    has(page, "<tr><th scope=\"row\">model.width</th><td>64</td><td>64</td></tr>");
    has(page, "<th scope=\"row\">Steps</th><td>400 of 10,000</td><td>800 of 10,000</td>");
    has(page, "id=\"loss\"");
    has(page, "id=\"loss-by-time\"");
    has(page, KEY("c0") "one <b>2.250</b></li>");
    has(page, KEY("c1") "two <b>2.250</b></li>");
    ll_free(page);
    char *csv = page_at(at("both-figures/loss.csv"));
    assert_memory_equal(csv, "curve,step,", 11);
    has(csv, "\ntwo,800,2.25\n");
    ll_free(csv);
    CHECK_OK(ll_runs_report(runs, 3, at("both.html"))); /* two runs of one name, one without held-out data */
    page = page_at(at("both.html"));
    check_page(page);
    has(page, KEY("c0") "one <b>2.200</b></li>");
    has(page, at("other/two"));
    ll_free(page);
    CHECK_FAILS(ll_runs_report(runs, 0, at("no.html")), LL_EINVAL, "0 runs");
    CHECK_FAILS(ll_runs_report(runs, 33, at("no.html")), LL_EINVAL, "33 runs");
    CHECK_FAILS(ll_runs_report((const char *const[]){at("nowhere")}, 1, at("no.html")), LL_EIO, "no run folder");
    CHECK_FAILS(ll_run_report(at("one"), at("nowhere.d/deep/../.."), NULL, NULL, NULL), LL_EIO, "folder");
    assert_true(access(at("no.html"), F_OK) != 0);
}

/* Runs that use the palette again have dashes, in the key as in the drawing. */
static void many_runs_look_different(void **state) {
    (void)state;
    enum { RUNS = 15 };
    const char *runs[RUNS];
    write_run(at("same"), "", 20, 10);
    runs[0] = at("same");
    for (int i = 1; i < RUNS; i++) runs[i] = runs[0];
    CHECK_OK(ll_runs_report(runs, RUNS, at("many.html")));
    char *page = page_at(at("many.html"));
    check_page(page);
    has(page, KEY("c6"));
    has(page, KEY("c0 dash1"));
    has(page, KEY("c0 dash2"));
    has(page, "<path class=\"line c0 dash2\" d=\"M0 ");
    ll_free(page);
}

/* Only one of two runs has the loss by position. */
static void a_single_curve_is_named(void **state) {
    (void)state;
    write_run(at("images"), "[model]\ntask = classify\nclasses = 10\nvocab = 256\n[data]\nformat = idx\n", 20, 20);
    write_run(at("text"), "", 20, 20);
    CHECK_OK(ll_folder_create(at("text/figures")));
    const char rows[] = "position in the text,loss\n1,8\n64,4\n";
    CHECK_OK(ll_file_write(at("text/figures/loss-by-position.csv"), rows, sizeof rows - 1));
    const char *const runs[2] = {at("images"), at("text")};
    CHECK_OK(ll_runs_report(runs, 2, at("unlike.html")));
    char *page = page_at(at("unlike.html"));
    check_page(page);
    const char *figure = strstr(page, "id=\"loss-by-position\"");
    assert_non_null(figure);
    has(figure, KEY("c1") "text <b>4</b></li>");
    has(figure, "<p class=\"axis\" aria-hidden=\"true\">bits per byte, held-out data</p>");
    has(page, "bits per example or byte");
    assert_null(strstr(page, "Lowest held-out loss")); /* of losses in two units none is the lowest */
    ll_free(page);
}

/* Pieces of a vocabulary of 1,000 are shorter than those of 8,000, and a loss a piece is lower for that alone. */
static void vocabularies_do_not_compare(void **state) {
    (void)state;
    write_run(at("few"), "[model]\nvocab = 1000\n[data]\nformat = pieces\n", 20, 20);
    write_run(at("many"), "[model]\nvocab = 8000\n[data]\nformat = pieces\n", 20, 20);
    for (int same = 0; same < 2; same++) {
        const char *const runs[2] = {at("few"), same ? at("few") : at("many")};
        CHECK_OK(ll_runs_report(runs, 2, at("pieces.html")));
        char *page = page_at(at("pieces.html"));
        check_page(page);
        assert_int_equal(strstr(page, "Lowest held-out loss") != NULL, same);
        assert_int_equal(strstr(page, "Losses of runs with another model.vocab do not compare") != NULL, !same);
        ll_free(page);
    }
}

/* Where data.valid is set, it alone decides which data are held out. */
static void other_held_out_data_do_not_compare(void **state) {
    (void)state;
    static const struct {
        const char *recipe, *differs; /* than the first */
    } other[] = {{"[data]\nvalid = a\ntrain = y\nvalid-fraction = 0.2\ntest = z\n", NULL},
                 {"[data]\nvalid = b\ntrain = x\n", "data.valid"},
                 {"[data]\ntrain = x\n", "data.valid"},
                 {"[data]\nvalid = a\ntrain = x\nformat = fasta\n", "data.format"},
                 {"[data]\nvalid = a\ntrain = x\n[model]\ntask = mlm\nvocab = 257\n", "model.task"}};
    write_run(at("first"), "[data]\nvalid = a\ntrain = x\n", 20, 20);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        write_run(at("second"), other[i].recipe, 20, 20);
        const char *const runs[2] = {at("first"), at("second")};
        CHECK_OK(ll_runs_report(runs, 2, at("held-out.html")));
        char *page = page_at(at("held-out.html")), note[100];
        check_page(page);
        snprintf(note, sizeof note, "Losses on different held-out data do not compare: %s differs.",
                 other[i].differs ? other[i].differs : "");
        assert_int_equal(strstr(page, "Lowest held-out loss") != NULL, !other[i].differs);
        assert_int_equal(strstr(page, note) != NULL, other[i].differs != NULL);
        if (!other[i].differs) lacks(page, "Losses on different held-out data");
        ll_free(page);
    }
}

/* A few batches are other data than all, and than those of another size. */
static void other_batches_do_not_compare(void **state) {
    (void)state;
    static const struct {
        const char *one, *two, *differs;
    } set[] = {{"[train]\neval-batches = 2\n", "[train]\neval-batches = 0\n", "train.eval-batches"},
               {"[train]\neval-batches = 2\nbatch = 4\n", "[train]\neval-batches = 2\nbatch = 8\n", "train.batch"},
               {"[train]\neval-batches = 2\nlength = 64\n", "[train]\neval-batches = 2\nlength = 32\n",
                "train.length"},
               {"[train]\neval-batches = 0\nbatch = 4\nlength = 64\n",
                "[train]\neval-batches = 0\nbatch = 8\nlength = 32\n", NULL}};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        write_run(at("few-1"), set[i].one, 20, 20);
        write_run(at("few-2"), set[i].two, 20, 20);
        const char *const runs[2] = {at("few-1"), at("few-2")};
        CHECK_OK(ll_runs_report(runs, 2, at("batches.html")));
        char *page = page_at(at("batches.html"));
        assert_int_equal(strstr(page, "Lowest held-out loss") != NULL, !set[i].differs);
        if (set[i].differs) has(strstr(page, "Losses on different held-out data do not compare"), set[i].differs);
        ll_free(page);
    }
}

/* Data of train are held out where data.valid is empty. A run without a held-out loss decides nothing. */
static void held_out_data_come_from_train(void **state) {
    (void)state;
    write_run(at("x"), "[data]\ntrain = x\n", 20, 20);
    write_run(at("y"), "[data]\ntrain = y\n", 20, 20);
    write_run(at("x2"), "[data]\ntrain = x\n", 20, 20);
    write_run(at("none"), "[data]\ntrain = z\n", 20, 21);
    static const struct {
        const char *name[3];
        int differ;
    } set[] = {{{"x", "y", "x2"}, 1}, {{"x", "x2", "y"}, 1}, {{"none", "x", "x2"}, 0}, {{"x", "none", "x2"}, 0}};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        const char *const runs[3] = {at(set[i].name[0]), at(set[i].name[1]), at(set[i].name[2])};
        CHECK_OK(ll_runs_report(runs, 3, at("train.html")));
        char *page = page_at(at("train.html"));
        const char *note = strstr(page, "Losses on different held-out data do not compare: data.train differs.");
        assert_int_equal(note != NULL, set[i].differ);
        assert_int_equal(strstr(page, "Lowest held-out loss") != NULL, !set[i].differ);
        ll_free(page);
    }
}

/* A recipe that cannot be read is an error. Without one the model's is taken; without both the curves are shown, and
 * nothing is said of what compares. */
static void a_run_without_a_recipe_is_not_compared(void **state) {
    (void)state;
    write_run(at("known"), "[data]\nvalid = a\n", 20, 20);
    write_run(at("unknown"), "bogus = 1\n", 20, 20);
    const char *const runs[2] = {at("known"), at("unknown")};
    CHECK_FAILS(ll_run_report(runs[1], NULL, NULL, NULL, NULL), LL_EINVAL, "unknown/recipe.ini:1");
    CHECK_FAILS(ll_runs_report(runs, 2, at("known.html")), LL_EINVAL, "unknown/recipe.ini:1");
    assert_int_not_equal(access(at("unknown/report.html"), F_OK), 0);
    assert_int_equal(unlink(at("unknown/recipe.ini")), 0);
    CHECK_OK(ll_runs_report(runs, 2, at("known.html")));
    char *page = page_at(at("known.html"));
    check_page(page);
    has(page, "A run has no recipe, so that it is not known whether its losses compare.");
    lacks(page, "do not compare");
    lacks(page, "Lowest held-out loss");
    ll_free(page);
    ll_recipe *recipe = NULL;
    ll_model *model = NULL;
    const char small[] = "[data]\nvalid = a\n[model]\nlayers = 1\nwidth = 16\nheads = 2\nff = 16\n";
    CHECK_OK(ll_recipe_parse(&recipe, small, "small"));
    CHECK_OK(ll_model_create(&model, recipe));
    CHECK_OK(ll_model_save(model, at("unknown/best.safetensors")));
    ll_recipe_free(recipe);
    ll_model_free(model);
    CHECK_OK(ll_runs_report(runs, 2, at("known.html")));
    page = page_at(at("known.html"));
    has(page, "Lowest held-out loss");
    has(page, "<th scope=\"row\">model.width</th><td>512</td><td>16</td>");
    lacks(page, "has no recipe");
    ll_free(page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_side_by_side),
        cmocka_unit_test(many_runs_look_different),
        cmocka_unit_test(a_single_curve_is_named),
        cmocka_unit_test(vocabularies_do_not_compare),
        cmocka_unit_test(other_held_out_data_do_not_compare),
        cmocka_unit_test(other_batches_do_not_compare),
        cmocka_unit_test(held_out_data_come_from_train),
        cmocka_unit_test(a_run_without_a_recipe_is_not_compared),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
