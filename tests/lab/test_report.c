/* Pages of reports are whole, small, and absent where they fail. Text from outside cannot act in them. */
#include "pages.h"

#include "report/run_page.h"

/* ---- Without a model ---- */

static void a_run_has_a_page(void **state) {
    (void)state;
    write_run(at("plain"), "[model]\nlayers = 2\n[train]\nsteps = 800\n", 60, 20);
    CHECK_OK(ll_run_report(at("plain"), NULL, NULL, NULL, NULL));
    char *page = page_at(at("plain/report.html"));
    check_page(page);
    has(page, "<h1>plain</h1>");
    has(page, "<td>600 of 800</td>");
    has(page, "<td>2.2500 bits per byte, perplexity 4.757</td>"); /* 2^2.25 */
    has(page, "<td>50.00 %</td>");
    has(page, "<td>1 min 1 s</td>"); /* 60.5 s */
    has(page, "<td>80 MiB</td>");     /* 80 MiB */
    has(page, "<td>38,400</td>");
    has(page, "<th scope=\"row\">model.layers</th><td>2</td><td>6</td>");
    lacks(page, "<th scope=\"row\">Parameters</th>"); /* without a model there is no number */
    static const char *const figures[] = {"loss", "speed", "memory", "learning-rate", "gradient-norm"};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        char text[64];
        snprintf(text, sizeof text, "id=\"%s\" data-figure=\"plot\"", figures[i]);
        has(page, text);
        snprintf(text, sizeof text, "plain/figures/%s.svg", figures[i]);
        assert_int_equal(access(at(text), R_OK), 0);
        snprintf(text, sizeof text, "plain/figures/%s.csv", figures[i]);
        assert_int_equal(access(at(text), R_OK), 0);
    }
    ll_free(page);
    char *csv = page_at(at("plain/figures/loss.csv"));
    assert_memory_equal(csv, "step,held-out,training\n10,,10\n", 30);
    has(csv, "\n200,2.25,2.4\n");
    ll_free(csv);
}

static void what_comes_from_outside_is_text(void **state) {
    (void)state;
    const char *name = "x<script>alert(1)<\xff&'\"";
    char folder[256], path[300];
    snprintf(folder, sizeof folder, "%s/%s", root, name);
    write_run(folder, "[data]\ntrain = \"</td><img src=x onerror=alert(2)>&\"\n", 30, 10);
    snprintf(path, sizeof path, "%s/report.html", folder);
    CHECK_OK(ll_run_report(folder, NULL, NULL, NULL, NULL));
    char *page = page_at(path);
    check_page(page);
    has(page, "<h1>x&lt;script&gt;alert(1)&lt;\xef\xbf\xbd&amp;&#39;&quot;</h1>");
    has(page, "<td>&lt;/td&gt;&lt;img src=x onerror=alert(2)&gt;&amp;</td>");
    ll_free(page);
    /* A page with another name has its own folder of figures, and links to it are encoded. */
    snprintf(path, sizeof path, "%s/a %%\"b.html", root);
    CHECK_OK(ll_run_report(folder, path, NULL, NULL, NULL));
    page = page_at(path);
    check_page(page);
    has(page, "href=\"a%20%25%22b-figures/loss.svg\"");
    ll_free(page);
    assert_int_equal(access(at("a %\"b-figures/loss.svg"), R_OK), 0);
    const char *const both[2] = {folder, folder};
    CHECK_OK(ll_runs_report(both, 2, path));
    page = page_at(path);
    check_page(page);
    ll_free(page);
}

static void any_bytes_are_text(void **state) {
    (void)state;
    ll_html h;
    unsigned char bytes[256];
    for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)i;
    CHECK_OK(ll_html_open(&h, at("bytes.html"), "bytes"));
    ll_html_section(&h, "text", "Text");
    ll_html_sample(&h, "all", "<b>", 3, bytes, sizeof bytes);
    ll_html_sample(&h, "cut", "\xe2\x82", 2, "\xe2\x82\xac|\xed\xa0\x80", 7);
    CHECK_OK(ll_html_finish(&h));
    char *page = page_at(at("bytes.html"));
    check_page(page);
    assert_true(ll_is_plain_text("") != 0);
    const unsigned char *s = (unsigned char *)page;
    for (size_t left = strlen(page); left;) {
        const int n = *s == '\n' || *s == '\t' ? 1 : ll_utf8_length(s, left);
        if (!n) fail_msg("byte %02x is not text", *s);
        s += n, left -= (size_t)n;
    }
    has(page, "<span class=\"prompt\">&lt;b&gt;</span>");
    has(page, " !&quot;#$%&amp;&#39;()*+");
    has(page, ">\xef\xbf\xbd\xef\xbf\xbd</span>\xe2\x82\xac|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd</blockquote>");
    ll_free(page);
}

static void long_runs_have_short_pages(void **state) {
    (void)state;
    write_run(at("long"), "", 60000, 50);
    CHECK_OK(ll_run_report(at("long"), NULL, NULL, NULL, NULL));
    ll_bytes page = slurp(at("long/report.html")), svg = slurp(at("long/figures/loss.svg"));
    check_page((char *)page.data);
    assert_true(page.size < 300000);
    assert_true(svg.size < 300000);
    ll_bytes_free(&page);
    ll_bytes_free(&svg);
}

/* A last row of three steps counts for three of the last ten. */
static void the_training_loss_is_of_ten_steps(void **state) {
    (void)state;
    const char csv[] = HEADER "10,1,640,9,9,,,,0.1,2,100,20\n20,2,1280,3,3,,,,0.1,2,100,20\n"
                              "23,3,1472,2,2,2,2,0.1,0.1,2,100,20\n";
    write_run(at("ten"), "", 1, 1);
    CHECK_OK(ll_file_write(at("ten/metrics.csv"), csv, sizeof csv - 1));
    CHECK_OK(ll_run_report(at("ten"), NULL, NULL, NULL, NULL));
    char *page = page_at(at("ten/report.html"));
    has(page, "<td>2.7000 bits per byte");
    ll_free(page);
}

/* Each stage of a run with a teacher has a loss of its own, and only the last one is in bits. */
static void a_loss_against_a_teacher_is_not_in_bits(void **state) {
    (void)state;
    const char csv[] = HEADER "10,1,640,0.5,,,,,0.1,2,100,20\n20,2,1280,0.75,1.082,2,2.885,0.1,0.1,2,100,20\n"
                              "30,3,1920,2,2.885,2,2.885,0.1,0.1,2,100,20\n";
    for (int ends = 0; ends < 2; ends++) {
        char recipe[200];
        snprintf(recipe, sizeof recipe, "[train]\ndistil = both\ndistil-switch = 10\ndistil-until = %d\n", 20 * ends);
        write_run(at("taught"), recipe, 1, 1);
        CHECK_OK(ll_file_write(at("taught/metrics.csv"), csv, sizeof csv - 1));
        CHECK_OK(ll_run_report(at("taught"), NULL, NULL, NULL, NULL));
        char *page = page_at(at("taught/report.html"));
        check_page(page);
        has(page, "<th scope=\"row\">Attention missed</th><td>50.00 %</td>");
        has(page, ends ? ">Distillation loss</th><td>0.7500 nats</td>" : ">Distillation loss</th><td>2.0000 nats</td>");
        (ends ? has : lacks)(page, "<th scope=\"row\">Training loss</th>");
        ll_free(page);
        page = page_at(at("taught/figures/loss.csv"));
        has(page, ends ? "\n20,2.885,\n30,2.885,2.885\n" : "\n20,2.885,\n30,2.885,\n");
        ll_free(page);
        page = page_at(at("taught/figures/attention-missed.csv"));
        has(page, "\n10,50\n");
        ll_free(page);
    }
    /* Without held-out data, too. */
    const char alone[] = HEADER "10,1,640,0.5,,,,,0.1,2,100,20\n20,2,1280,0.75,,,,,0.1,2,100,20\n";
    CHECK_OK(ll_file_write(at("taught/metrics.csv"), alone, sizeof alone - 1));
    CHECK_OK(ll_run_report(at("taught"), NULL, NULL, NULL, NULL));
    CHECK_OK(ll_run_picture(at("taught"), at("taught.svg")));
    char *page = page_at(at("taught/report.html"));
    lacks(page, "bits per token");
    ll_free(page);
}

static void a_diverged_run_has_numbers(void **state) {
    (void)state;
    const char csv[] = "step,seconds,tokens,loss,bits,valid_loss,valid_bits,valid_accuracy,learning_rate,gradient_norm,"
                       "tokens_per_second,memory_mib\n10,1,640,15987,23064.3067,15987,123.456,0.1,0.1,2,100,20\n";
    write_run(at("wild"), "", 1, 1);
    CHECK_OK(ll_file_write(at("wild/metrics.csv"), csv, sizeof csv - 1));
    CHECK_OK(ll_run_report(at("wild"), NULL, NULL, NULL, NULL));
    char *page = page_at(at("wild/report.html"));
    check_page(page);
    has(page, "<td>23,064 bits per byte</td>");
    has(page, "<td>123.5 bits per byte, perplexity 1.");
    has(page, "norm (logarithmic)</p>");
    has(page, "The training loss, 23,064 bits per byte, is far above chance");
    assert_null(strstr(page, "perplexity inf"));
    /* Curves of one point are dots, faint ones, too. */
    has(page, "<path class=\"dots c0\" d=\"M");
    has(page, "<path class=\"dots c1\" d=\"M");
    ll_free(page);
    static const char *const more[][2] = {{"learning-rate = 20\nclip = 0.5\n", "= 20, or try a longer train.warmup."},
                                          {"clip = 0\n", ", or try train.clip = 1."},
                                          {"distil = attention\nteacher = t\n", NULL}};
    for (int i = 0; i < 3; i++) {
        char recipe[200];
        snprintf(recipe, sizeof recipe, "[train]\n%s", more[i][0]);
        write_run(at("wild"), recipe, 1, 1);
        CHECK_OK(ll_file_write(at("wild/metrics.csv"), csv, sizeof csv - 1));
        CHECK_OK(ll_run_report(at("wild"), NULL, NULL, NULL, NULL));
        page = page_at(at("wild/report.html"));
        if (more[i][1])
            has(page, more[i][1]);
        else
            lacks(page, "above chance");
        ll_free(page);
    }
}

static int stop(int64_t done, int64_t total, void *arg) {
    (void)done, (void)total, (void)arg;
    return 1;
}

static void a_page_is_whole_or_as_before(void **state) {
    (void)state;
    run("train.steps=10 train.report=on model.width=8 model.ff=8 train.length=8", at("frail"), NULL, 0, LL_OK);
    copy_folder(at("frail/report.html"), at("frail-before.html"));
    int failures = 0;
    for (long n = 1;; n += n < 60 ? 1 : 17) {
        ll_memory_fail_at(n);
        const ll_status status = ll_run_report(at("frail"), NULL, NULL, NULL, NULL);
        ll_memory_fail_at(0);
        if (status == LL_OK) break;
        if (status != LL_ENOMEM) fail_msg("allocation %ld: %s", n, ll_error());
        same_file(at("frail/report.html"), at("frail-before.html"));
        failures++;
    }
    assert_true(failures > 30);
    assert_int_equal(files_in(at("frail"), "tmp"), 0);
    assert_int_equal(files_in(at("frail/figures"), "tmp"), 0);
    char one[128], two[128];
    snprintf(one, sizeof one, "%s", at("frail"));
    snprintf(two, sizeof two, "%s", at("plain"));
    const char *const runs[2] = {one, two};
    for (long n = 1;; n++) {
        ll_memory_fail_at(n);
        const ll_status status = ll_runs_report(runs, 2, at("frail.html"));
        ll_memory_fail_at(0);
        if (status == LL_OK) break;
        assert_int_equal(status, LL_ENOMEM);
        assert_true(access(at("frail.html"), F_OK) != 0);
    }
    /* A stopped page leaves the figures that were there, and none of its own. */
    CHECK_FAILS(ll_run_report(at("frail"), at("stopped.html"), NULL, stop, NULL), LL_ESTOPPED, "stopped");
    assert_true(access(at("stopped.html"), F_OK) != 0 && access(at("stopped-figures"), F_OK) != 0);
    CHECK_OK(ll_folder_create(at("stopped-figures")));
    CHECK_OK(ll_file_write(at("stopped-figures/loss.svg"), "", 0));
    CHECK_FAILS(ll_run_report(at("frail"), at("stopped.html"), NULL, stop, NULL), LL_ESTOPPED, "stopped");
    assert_int_equal(files_in(at("stopped-figures"), "loss"), 1);
    /* The folder of figures cannot be created. */
    CHECK_OK(ll_file_write(at("taken-figures"), "", 0));
    CHECK_FAILS(ll_run_report(at("plain"), at("taken.html"), NULL, NULL, NULL), LL_EIO, "taken-figures");
    assert_true(access(at("taken.html"), F_OK) != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_has_a_page),
        cmocka_unit_test(what_comes_from_outside_is_text),
        cmocka_unit_test(any_bytes_are_text),
        cmocka_unit_test(long_runs_have_short_pages),
        cmocka_unit_test(the_training_loss_is_of_ten_steps),
        cmocka_unit_test(a_loss_against_a_teacher_is_not_in_bits),
        cmocka_unit_test(a_diverged_run_has_numbers),
        cmocka_unit_test(a_page_is_whole_or_as_before),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
