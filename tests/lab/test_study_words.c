/* What the page of a run says beside its figures: names of tabs and of classes, places of points, and why
 * a part is missing. */
#include "pages.h"

static void tabs_have_the_numbers_of_layers(void **state) {
    (void)state;
    run("train.steps=4 train.report=on model.heads=16 model.layers=4", at("deep"), NULL, 0, LL_OK);
    char *page = page_at(at("deep/report.html"));
    check_page(page);
    has(page, "<label for=\"attention-tab-1\">1</label>"); /* 3 layers of 16 heads fit */
    has(page, "<label for=\"attention-tab-2\">2</label>");
    lacks(page, "attention-tab-3");
    has(page, "<label for=\"attention-tab-4\">4</label>\n<span class=\"note\">of 4</span>");
    ll_free(page);
    char *csv = page_at(at("deep/figures/attention-4.csv"));
    has(csv, "\nhead 16,");
    ll_free(csv);
    assert_int_equal(files_in(at("deep/figures"), "attention-3"), 0);
}

/* Names of classes are whole where there is room, and those that begin alike differ. */
static void classes_have_their_names(void **state) {
    (void)state;
    char text[3000];
    size_t n = 0;
    for (int i = 0; i < 48; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\t%d is a number\n",
                              i % 2 ? "great-white-shark-of-the-south" : "great-white-shark-of-the-n\u00f6rth", i * i);
    CHECK_OK(ll_file_write(at("sharks.tsv"), text, n));
    snprintf(text, sizeof text,
             "model.task=classify model.classes=0 data.format=labelled data.train=%s data.valid=%s "
             "train.steps=4 train.report=on",
             at("sharks.tsv"), at("sharks.tsv"));
    run(text, at("sharks"), NULL, 0, LL_OK);
    char *page = page_at(at("sharks/report.html"));
    check_page(page);
    has(page, "<th scope=\"row\">great-white-shark-of-the-south</th>");
    has(page, "<th scope=\"row\">great-white-shark-of-the-n\u00f6rth</th>");
    has(page, "<span>great-white-s\u2026f-the-south</span>"); /* beside the matrix */
    ll_free(page);
}

/* A run whose data are gone says so, and shows the other parts. */
static void what_cannot_be_shown_is_said(void **state) {
    (void)state;
    run("train.steps=10 train.report=off", at("moved"), NULL, 0, LL_OK);
    assert_int_equal(rename(at("valid.txt"), at("gone.txt")), 0);
    const ll_status status = ll_run_report(at("moved"), NULL, NULL, NULL, NULL);
    assert_int_equal(rename(at("gone.txt"), at("valid.txt")), 0);
    assert_int_equal(status, LL_OK);
    char *page = page_at(at("moved/report.html"));
    check_page(page);
    has(page, "valid.txt: No such file");
    has(page, "id=\"loss\"");
    lacks(page, "class=\"prompt\"");
    ll_free(page);
}

/* There is no result on test data that cannot be read, and the page says why. */
static void a_failed_test_is_said(void **state) {
    (void)state;
    char more[200], *why = NULL;
    snprintf(more, sizeof more, "train.steps=4 train.report=on data.test=%s", at("test.txt"));
    CHECK_OK(ll_file_write(at("test.txt"), "long enough for one batch", 25));
    for (int gone = 0; gone < 2; gone++) {
        if (gone) {
            assert_int_equal(unlink(at("test.txt")), 0);
            CHECK_FAILS(ll_run_report(at("tested"), NULL, &why, NULL, NULL), LL_EINVAL, "report.html is left as it is");
            assert_null(why);
            CHECK_OK(ll_run_report(at("tested"), at("without.html"), &why, NULL, NULL));
            assert_non_null(strstr(why, "test.txt: No such file"));
            ll_text_free(why);
        } else {
            run(more, at("tested"), NULL, 0, LL_OK);
            CHECK_OK(ll_run_report(at("tested"), NULL, &why, NULL, NULL));
            assert_null(why);
        }
        char *page = page_at(at(gone ? "without.html" : "tested/report.html"));
        check_page(page);
        assert_int_equal(strstr(page, "Test loss") != NULL, !gone);
        assert_int_equal(strstr(page, "There is no result on the test data:") != NULL, gone);
        assert_int_equal(strstr(page, "test.txt: No such file") != NULL, gone);
        ll_free(page);
    }
}

/* Parts of 128 tokens have 5 or 6, and a point is in the middle of them. Of fewer tokens than parts, each has one. */
static void points_are_the_middle_of_their_tokens(void **state) {
    (void)state;
    run("train.steps=2 train.report=on train.length=32", at("uneven"), NULL, 0, LL_OK);
    char *positions = page_at(at("uneven/figures/loss-by-position.csv"));
    has(positions, "position in the text,loss\n2.5,"); /* 0..5 */
    has(positions, "\n8,");                             /* 6..10 */
    has(positions, "\n125,");                           /* 123..127 */
    ll_free(positions);
    run("train.steps=2 train.report=on train.length=4", at("short"), NULL, 0, LL_OK);
    positions = page_at(at("short/figures/loss-by-position.csv"));
    has(positions, "position in the text,loss\n0,");
    has(positions, "\n15,");
    lacks(positions, "\n-");
    lacks(positions, "nan");
    ll_free(positions);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tabs_have_the_numbers_of_layers),
        cmocka_unit_test(classes_have_their_names),
        cmocka_unit_test(what_cannot_be_shown_is_said),
        cmocka_unit_test(a_failed_test_is_said),
        cmocka_unit_test(points_are_the_middle_of_their_tokens),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
