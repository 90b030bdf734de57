/* Pages of reports: whole, small, without anything from outside that could act in them, and there or not there. */
#include "runs.h"

#include <dirent.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/text.h"
#include "report/run_page.h"

#define HEADER                                                                                                         \
    "step,seconds,tokens,loss,bits,valid_loss,valid_bits,valid_accuracy,learning_rate,gradient_norm,"                  \
    "tokens_per_second,memory_mib\n"

static int files_in(const char *folder, const char *part) {
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.' && strstr(e->d_name, part) != NULL;
    closedir(d);
    return n;
}

static char *page_at(const char *path) {
    ll_bytes b = slurp(path);
    return (char *)b.data; /* one zero byte follows; freed with ll_free */
}

static void has(const char *page, const char *text) {
    if (!strstr(page, text)) fail_msg("the page lacks %s", text);
}
static void lacks(const char *page, const char *text) {
    if (strstr(page, text)) fail_msg("the page has %s", text);
}

static int is_void(const char *name) {
    static const char *const list[] = {"meta", "img", "input", "br"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(name, list[i])) return 1;
    return 0;
}

/* Tags are closed in the order they were opened, ids are there once, and nothing is fetched or run. */
static void check_page(const char *page) {
    char open[64][32];
    int depth = 0;
    for (const char *s = page; (s = strchr(s, '<')); s++) {
        char name[32] = "";
        const char *end = strchr(s, '>');
        assert_non_null(end);
        if (s[1] == '!') continue;
        if (s[1] == '/') {
            sscanf(s + 2, "%31[^ >]", name);
            if (!depth || strcmp(name, open[depth - 1]))
                fail_msg("</%s> closes <%s>: %.60s", name, depth ? open[depth - 1] : "", s);
            depth--;
            continue;
        }
        sscanf(s + 1, "%31[^ />]", name);
        if (end[-1] == '/' || is_void(name)) continue;
        assert_true(depth < 64);
        strcpy(open[depth++], name);
    }
    assert_int_equal(depth, 0);
    for (const char *s = page; (s = strstr(s, " id=\"")); s += 5) {
        char id[128];
        const size_t n = strcspn(s + 5, "\"");
        snprintf(id, sizeof id, " id=\"%.*s\"", (int)n, s + 5);
        if (strstr(s + 5, id)) fail_msg("%s is there twice", id);
    }
    lacks(page, "<script");
    lacks(page, "http:");
    lacks(page, "https:");
    lacks(page, "url(");
    lacks(page, "@import");
    has(page, "<!doctype html>");
    has(page, "default-src 'none'");
    has(page, "prefers-color-scheme: dark");
    has(page, "width=device-width");
    for (const char *s = page; (s = strstr(s, "<img ")); s++) {
        const char *end = strchr(s, '>'), *alt = strstr(s, "alt=\"");
        assert_true(alt && alt < end && alt[5] != '"');
    }
    for (const char *s = page; (s = strstr(s, "src=\"")); s++) assert_memory_equal(s + 5, "data:image/png;base64,", 22);
}

static size_t rows_of_metrics(char *csv, size_t room, int rows, int every) {
    size_t n = (size_t)snprintf(csv, room, "%s", HEADER);
    for (int i = 1; i <= rows; i++)
        n += (size_t)snprintf(csv + n, room - n, "%d,%d.5,%d,2,%.4f,%s,0.001,1.5,%d,%d\n", i * 10, i, i * 640,
                              8.0 / i + 2, i % every ? ",," : "1.5,2.25,0.5", 1000 + i % 7, 20 + i);
    return n;
}

static void write_run(const char *folder, const char *recipe, int rows, int every) {
    const size_t room = 100 * (size_t)rows + 1000;
    char *csv = malloc(room), path[512];
    CHECK_OK(ll_folder_create(folder));
    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    CHECK_OK(ll_file_write(path, csv, rows_of_metrics(csv, room, rows, every)));
    snprintf(path, sizeof path, "%s/recipe.ini", folder);
    CHECK_OK(ll_file_write(path, recipe, strlen(recipe)));
    free(csv);
}

/* ---- Without a model ---- */

static void a_run_has_a_page(void **state) {
    (void)state;
    write_run(at("plain"), "[model]\nlayers = 2\n[train]\nsteps = 800\n", 60, 20);
    CHECK_OK(ll_run_report(at("plain"), NULL));
    char *page = page_at(at("plain/report.html"));
    check_page(page);
    has(page, "<h1>plain</h1>");
    has(page, "<td>600 of 800</td>");
    has(page, "<td>2.2500 bits per byte, perplexity 4.757</td>"); /* 2^2.25 */
    has(page, "<td>50.00 %</td>");
    has(page, "<td>1 min 1 s</td>"); /* 60.5 s */
    has(page, "<td>84 MB</td>");     /* 80 MiB */
    has(page, "<td>38,400</td>");
    has(page, "<th scope=\"row\">model.layers</th><td>2</td><td>6</td>");
    lacks(page, "<th scope=\"row\">Parameters</th>"); /* no model, no number */
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
    CHECK_OK(ll_run_report(folder, NULL));
    char *page = page_at(path);
    check_page(page);
    has(page, "<h1>x&lt;script&gt;alert(1)&lt;\xef\xbf\xbd&amp;&#39;&quot;</h1>");
    has(page, "<td>&lt;/td&gt;&lt;img src=x onerror=alert(2)&gt;&amp;</td>");
    ll_free(page);
    /* A page of another name has its own folder of figures, and its address is an address. */
    snprintf(path, sizeof path, "%s/a %%\"b.html", root);
    CHECK_OK(ll_run_report(folder, path));
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
    CHECK_OK(ll_run_report(at("long"), NULL));
    ll_bytes page = slurp(at("long/report.html")), svg = slurp(at("long/figures/loss.svg"));
    check_page((char *)page.data);
    assert_true(page.size < 300000);
    assert_true(svg.size < 300000);
    ll_bytes_free(&page);
    ll_bytes_free(&svg);
}

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
    has(page, "<li class=\"c0\">one <b>2.250</b></li>");
    has(page, "<li class=\"c1\">two <b>2.250</b></li>");
    ll_free(page);
    char *csv = page_at(at("both-figures/loss.csv"));
    assert_memory_equal(csv, "curve,step,", 11);
    has(csv, "\ntwo,800,2.25\n");
    ll_free(csv);
    CHECK_OK(ll_runs_report(runs, 3, at("both.html"))); /* two with one name, one without held-out data */
    page = page_at(at("both.html"));
    check_page(page);
    has(page, "<li class=\"c0\">one <b>2.200</b></li>");
    has(page, at("other/two"));
    ll_free(page);
    CHECK_FAILS(ll_runs_report(runs, 0, at("no.html")), LL_EINVAL, "0 runs");
    CHECK_FAILS(ll_runs_report(runs, 33, at("no.html")), LL_EINVAL, "33 runs");
    CHECK_FAILS(ll_runs_report((const char *const[]){at("nowhere")}, 1, at("no.html")), LL_EIO, "nowhere/metrics.csv");
    CHECK_FAILS(ll_run_report(at("one"), at("nowhere.d/deep/../..")), LL_EIO, "folder");
    assert_true(access(at("no.html"), F_OK) != 0);
}

/* ---- Runs with a model ---- */

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
    CHECK_OK(ll_runs_report((const char *const[]){at("trained"), at("plain")}, 2, at("with.html")));
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

static void a_page_is_whole_or_as_before(void **state) {
    (void)state;
    run("train.steps=10 train.report=on model.width=8 model.ff=8 train.length=8", at("frail"), NULL, 0, LL_OK);
    copy_folder(at("frail/report.html"), at("frail-before.html"));
    int failures = 0;
    for (long n = 1;; n += n < 60 ? 1 : 17) {
        ll_memory_fail_at(n);
        const ll_status status = ll_run_report(at("frail"), NULL);
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
    /* Where the figures' folder cannot be. */
    CHECK_OK(ll_file_write(at("taken-figures"), "", 0));
    CHECK_FAILS(ll_run_report(at("plain"), at("taken.html")), LL_EIO, "taken-figures");
    assert_true(access(at("taken.html"), F_OK) != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_has_a_page),
        cmocka_unit_test(what_comes_from_outside_is_text),
        cmocka_unit_test(any_bytes_are_text),
        cmocka_unit_test(long_runs_have_short_pages),
        cmocka_unit_test(runs_side_by_side),
        cmocka_unit_test(training_leaves_a_page),
        cmocka_unit_test(stopped_runs_have_a_page_too),
        cmocka_unit_test(what_cannot_be_shown_is_said),
        cmocka_unit_test(a_page_is_whole_or_as_before),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
