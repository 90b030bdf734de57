/* Pictures: files have the format that their ending names, and curves are where the numbers are. What cannot be drawn
 * is left out or refused. No unfinished file is left. */
#include "folder.h"

#include <cairo/cairo.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/html.h"

static const double UP[] = {0, 1, 2, 3};

static ll_figure figure_of(const ll_curve *curves, int n) {
    return (ll_figure){.title = "title", .x_label = "x", .y_label = "y", .n = n, .curves = curves};
}

/* The area of the pixels of one colour: its first and last row and column. */
typedef struct {
    int count, left, right, y_left, y_right, width, height;
} area;

static area find_colour(const char *path, unsigned rgb) {
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(s), CAIRO_STATUS_SUCCESS);
    area found = {.left = 1 << 20, .right = -1};
    found.width = cairo_image_surface_get_width(s);
    found.height = cairo_image_surface_get_height(s);
    const unsigned char *data = cairo_image_surface_get_data(s);
    for (int y = 0; y < found.height; y++)
        for (int x = 0; x < found.width; x++) {
            uint32_t pixel;
            memcpy(&pixel, data + (size_t)y * (size_t)cairo_image_surface_get_stride(s) + 4 * (size_t)x, sizeof pixel);
            if ((pixel & 0xffffff) != rgb) continue;
            found.count++;
            if (x < found.left) found.left = x, found.y_left = y;
            if (x > found.right) found.right = x, found.y_right = y;
        }
    cairo_surface_destroy(s);
    return found;
}

static void check_same_file(const char *a, const char *b, int same) {
    ll_bytes x, y;
    CHECK_OK(ll_file_read(&x, a, 1 << 26));
    CHECK_OK(ll_file_read(&y, b, 1 << 26));
    assert_int_equal(x.size == y.size && !memcmp(x.data, y.data, x.size), same);
    ll_bytes_free(&x);
    ll_bytes_free(&y);
}

/* ---- Figures ---- */

static void png_shows_the_curve(void **state) {
    (void)state;
    const double y[] = {5, 6, 7, 8};
    const ll_curve curve = {"", 4, UP, y};
    ll_figure f = figure_of(&curve, 1);
    CHECK_OK(ll_figure_write(&f, at("rises.png")));
    area s = find_colour(at("rises.png"), 0x0072b2);
    assert_int_equal(s.width, 960);
    assert_int_equal(s.height, 540);
    assert_true(s.count > 500);
    assert_true(s.left < 100 && s.right > 900);     /* it covers the whole width */
    assert_true(s.y_left > 400 && s.y_right < 140); /* it rises */
    assert_true(find_colour(at("rises.png"), 0xffffff).count > 960 * 540 / 2);

    f.width = 1920, f.height = 1080;
    CHECK_OK(ll_figure_write(&f, at("large.PNG")));
    s = find_colour(at("large.PNG"), 0x0072b2);
    assert_int_equal(s.width, 1920);
    assert_true(s.y_left > 800 && s.y_right < 280);
}

static void logarithms_straighten_powers(void **state) {
    (void)state;
    double x[9], y[9];
    for (int i = 0; i < 9; i++) x[i] = 256 << i, y[i] = 1e-3 * x[i] * x[i];
    const ll_curve curve = {"", 9, x, y};
    ll_figure f = figure_of(&curve, 1);
    f.log_x = f.log_y = 1;
    CHECK_OK(ll_figure_write(&f, at("power.png")));
    const double ends_x[] = {x[0], x[8]}, ends_y[] = {y[0], y[8]};
    const ll_curve chord[2] = {{"", 0, NULL, NULL}, {"", 2, ends_x, ends_y}};
    f.curves = chord, f.n = 2;
    CHECK_OK(ll_figure_write(&f, at("chord.png")));
    const area a = find_colour(at("power.png"), 0x0072b2), b = find_colour(at("chord.png"), 0xd55e00);
    assert_int_equal(a.left, b.left);
    assert_int_equal(a.right, b.right);
    assert_int_equal(a.y_left, b.y_left);
    assert_int_equal(a.y_right, b.y_right);
}

static void what_is_no_number_is_skipped(void **state) {
    (void)state;
    const double x[] = {1, 2, 3, 4, 5, 6, 7}, y[] = {1, NAN, 3, -INFINITY, 2, -4, 0};
    const double kept_x[] = {1, 3, 5}, kept_y[] = {1, 3, 2};
    const ll_curve all = {"a", 7, x, y}, kept = {"a", 3, kept_x, kept_y};
    ll_figure f = figure_of(&all, 1), g = figure_of(&kept, 1);
    f.log_y = g.log_y = 1; /* on a logarithmic axis, too, -4 and 0 are left out */
    CHECK_OK(ll_figure_write(&f, at("all.png")));
    CHECK_OK(ll_figure_write(&g, at("kept.png")));
    check_same_file(at("all.png"), at("kept.png"), 1);
    f.log_y = g.log_y = 0;
    CHECK_OK(ll_figure_write(&f, at("all.png")));
    CHECK_OK(ll_figure_write(&g, at("kept.png")));
    check_same_file(at("all.png"), at("kept.png"), 0);
}

/* Tags are closed in the reverse order of opening. Returns how many there are. */
static int check_tags(const char *s) {
    char open[32][32];
    int depth = 0, tags = 0;
    while ((s = strchr(s, '<'))) {
        const char *end = strchr(s, '>');
        char name[32] = "";
        assert_non_null(end);
        if (s[1] == '/') {
            sscanf(s + 2, "%31[^ >]", name);
            assert_true(depth > 0);
            assert_string_equal(name, open[--depth]);
        } else if (s[1] != '?' && s[1] != '!') {
            sscanf(s + 1, "%31[^ />]", name);
            tags++;
            if (end[-1] != '/') {
                assert_true(depth < 32);
                strcpy(open[depth++], name);
            }
        }
        s = end;
    }
    assert_int_equal(depth, 0);
    return tags;
}

static void svg_is_well_formed(void **state) {
    (void)state;
    static double x[100000], y[100000];
    for (int i = 0; i < 100000; i++) x[i] = i, y[i] = sin(i * 1.7) + 1e-5 * i;
    const ll_curve curves[] = {{"<&\"\xff\x01 Gr\xc3\xb6\xc3\x9f"
                                "e",
                                4, UP, UP},
                               {"many points", 100000, x, y}};
    ll_figure f = figure_of(curves, 2);
    f.title = "a < b & \x01\xff Gr\xc3\xb6\xc3\x9f" "e";
    ll_bytes svg;
    CHECK_OK(ll_figure_write(&f, at("f.svg")));
    CHECK_OK(ll_file_read(&svg, at("f.svg"), 1 << 26));
    assert_int_equal(strncmp((char *)svg.data, "<?xml", 5), 0);
    assert_non_null(strstr((char *)svg.data, "width=\"960"));
    assert_non_null(strstr((char *)svg.data, ">\n<title>a &lt; b &amp; ?? Gr\xc3\xb6\xc3\x9f" "e</title>"));
    assert_true(check_tags((char *)svg.data) > 20);
    assert_true(svg.size > 5000 && svg.size < 600000); /* 100000 points, but no more are drawn than can be seen */
    ll_bytes_free(&svg);
}

static void one_point_is_a_dot(void **state) {
    (void)state;
    const double one[] = {1}, two[] = {2};
    const ll_curve curves[] = {{"", 1, one, two}, {"", 1, two, one}};
    const int faint[] = {0, 1};
    const ll_figure f = figure_of(curves, 2);
    CHECK_OK(ll_figure_draw(&f, faint, at("dots.png")));
    assert_true(find_colour(at("dots.png"), 0x0072b2).count > 10);
    assert_true(find_colour(at("dots.png"), 0xd55e00).count > 10);
}

static void any_numbers_and_sizes(void **state) {
    (void)state;
    const double set[][2] = {{0, 0},          {5, 5},         {-3, 3},    {1e-99, 1e99},
                             {-1e100, 1e100}, {7, 7.0000001}, {1e300, 2}, {1, 1e9}};
    const char *label = "a name so long that it cannot stand beside any curve of any picture of such a size";
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        for (int logs = 0; logs < 4; logs++)
            for (int small = 0; small < 2; small++) {
                const ll_curve curve = {label, 2, set[i], set[(i * 3 + 1) % 8]};
                const ll_figure f = {.title = label,
                                     .n = 1,
                                     .curves = &curve,
                                     .log_x = logs & 1,
                                     .log_y = logs & 2,
                                     .width = small ? 120 : 0,
                                     .height = small ? 120 : 0};
                const ll_status status = ll_figure_write(&f, at("any.png"));
                assert_true(status == LL_OK || (status == LL_EINVAL && strstr(ll_error(), "no point")));
                unlink(at("any.png"));
            }
}

/* The first column where a picture is not white. */
static int first_ink(const char *path) {
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    const int height = cairo_image_surface_get_height(s), stride = cairo_image_surface_get_stride(s);
    const unsigned char *data = cairo_image_surface_get_data(s);
    int x = 0, white = 1;
    for (; white; x += white)
        for (int y = 0; y < height && white; y++) {
            uint32_t pixel;
            memcpy(&pixel, data + (size_t)y * (size_t)stride + 4 * (size_t)x, sizeof pixel);
            white = (pixel & 0xffffff) == 0xffffff;
        }
    cairo_surface_destroy(s);
    return x;
}

static void long_words_stay_on_the_page(void **state) {
    (void)state;
    char words[2000];
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = 0;
    const ll_curve curve = {words, 4, UP, UP};
    ll_figure f = figure_of(&curve, 1);
    f.x_label = words;
    CHECK_OK(ll_figure_write(&f, at("long.png")));
    assert_true(first_ink(at("long.png")) >= 23);
    f.x_label = "x", f.mark = words, f.mark_at = 1.5;
    CHECK_OK(ll_figure_write(&f, at("mark.png")));
    assert_true(first_ink(at("mark.png")) >= 23);
}

static void wrong_figures_are_refused(void **state) {
    (void)state;
    const int before = files_in(folder);
    const double none[] = {NAN, NAN, NAN, NAN};
    const ll_curve good = {"a", 4, UP, UP}, empty = {"a", 0, NULL, NULL}, nan = {"a", 4, UP, none},
                   bad = {"a", 4, UP, NULL};
    ll_figure f = figure_of(&good, 1);
    CHECK_FAILS(ll_figure_write(&f, at("a.pdf")), LL_EINVAL, ".svg or .png");
    CHECK_FAILS(ll_figure_write(&f, at("png")), LL_EINVAL, ".svg or .png");
    CHECK_FAILS(ll_figure_write(&f, at("missing/a.png")), LL_EIO, "missing");
    CHECK_FAILS(ll_figure_write(&f, at("missing/a.svg")), LL_EIO, "missing");
    f.n = 0;
    CHECK_FAILS(ll_figure_write(&f, at("a.png")), LL_EINVAL, "curves");
    f.n = 1, f.curves = &empty;
    CHECK_FAILS(ll_figure_write(&f, at("a.png")), LL_EINVAL, "no point");
    f.curves = &nan;
    CHECK_FAILS(ll_figure_write(&f, at("a.svg")), LL_EINVAL, "no point");
    f.curves = &bad;
    CHECK_FAILS(ll_figure_write(&f, at("a.png")), LL_EINVAL, "no points");
    f.curves = &good, f.width = 100000;
    CHECK_FAILS(ll_figure_write(&f, at("a.png")), LL_EINVAL, "pixels");
    assert_int_equal(files_in(folder), before);
}

static void a_failure_keeps_the_old_picture(void **state) {
    (void)state;
    const double none[] = {NAN, NAN, NAN, NAN};
    const ll_curve good = {"a", 4, UP, UP}, nan = {"a", 4, UP, none};
    ll_figure f = figure_of(&good, 1);
    CHECK_OK(ll_figure_write(&f, at("old.png")));
    CHECK_OK(ll_figure_write(&f, at("same.png")));
    const int before = files_in(folder);
    f.curves = &nan;
    CHECK_FAILS(ll_figure_write(&f, at("old.png")), LL_EINVAL, "no point");
    f.curves = &good;
    for (long n = 1; n < 50; n++) {
        ll_memory_fail_at(n);
        const ll_status status = ll_figure_write(&f, at("old.png"));
        ll_memory_fail_at(0);
        if (status == LL_OK) break;
        assert_int_equal(status, LL_ENOMEM);
    }
    assert_int_equal(files_in(folder), before);
    check_same_file(at("old.png"), at("same.png"), 1);
}

/* As WCAG defines it. */
static double luminance(unsigned rgb) {
    static const double weight[3] = {0.2126, 0.7152, 0.0722};
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        const double x = (rgb >> (16 - 8 * i) & 255) / 255.0;
        sum += weight[i] * (x <= 0.03928 ? x / 12.92 : pow((x + 0.055) / 1.055, 2.4));
    }
    return sum;
}

/* The curves of a picture have the colours of pages on white, and their names have a contrast of 4.5 to 1. */
static void colours_are_those_of_pages(void **state) {
    (void)state;
    double x[2] = {0, 1}, y[LL_COLOURS][2];
    ll_curve curves[LL_COLOURS];
    for (int i = 0; i < LL_COLOURS; i++) {
        y[i][0] = y[i][1] = i;
        curves[i] = (ll_curve){"MMMMMMMM", 2, x, y[i]};
    }
    const ll_figure f = figure_of(curves, LL_COLOURS);
    CHECK_OK(ll_figure_write(&f, at("palette.svg")));
    ll_bytes svg;
    CHECK_OK(ll_file_read(&svg, at("palette.svg"), 1 << 26));
    int names = 0;
    for (int i = 0; i < LL_COLOURS; i++) {
        char key[20], stroke[80];
        unsigned rgb = 0;
        snprintf(key, sizeof key, "--c%d: #", i);
        const char *at = strstr(ll_html_style, key); /* the first is that of light pages */
        assert_true(at && sscanf(at + strlen(key), "%6x", &rgb) == 1);
        ll_format_text(stroke, sizeof stroke, "stroke:rgb(%.8g%%,%.8g%%,%.8g%%)", (rgb >> 16) / 2.55,
                       (rgb >> 8 & 255) / 2.55, (rgb & 255) / 2.55);
        if (!strstr((char *)svg.data, stroke)) fail_msg("no curve is drawn with %s, --c%d", stroke, i);
    }
    for (char *s = (char *)svg.data; (s = strstr(s, "<g style=\"fill:rgb(")); s++, names++) {
        unsigned rgb = 0;
        char *rest = s + 19;
        for (int i = 0; i < 3; i++, rest += strcspn(rest, ",)") + 1)
            rgb = rgb << 8 | (unsigned)lround(2.55 * ll_scan_number(rest, NULL));
        if (1.05 / (luminance(rgb) + 0.05) < 4.5) fail_msg("text in #%06x has too little contrast", rgb);
    }
    assert_true(names >= LL_COLOURS);
    ll_bytes_free(&svg);
}

/* ---- Runs ---- */

#define HEADER                                                                                                         \
    "step,seconds,tokens,loss,bits,valid_loss,valid_bits,valid_accuracy,learning_rate,gradient_norm,"                  \
    "tokens_per_second,memory_mib\n"

static const char *run_with(const char *csv, size_t size) {
    CHECK_OK(ll_folder_create(at("run")));
    CHECK_OK(ll_file_write(at("run/metrics.csv"), csv, size));
    return at("run");
}

static void a_run_is_drawn(void **state) {
    (void)state;
    char csv[8000] = HEADER;
    size_t n = strlen(csv);
    for (int i = 1; i <= 60; i++)
        n += (size_t)ll_format_text(csv + n, sizeof csv - n, "%d,1.5,640,%g,%g,%s,0.001,1.5,1000,20\n", i * 10, 2.0 / i,
                                    3.0 / i, i % 20 ? ",," : "0.5,2,0.9");
    CHECK_OK(ll_run_picture(run_with(csv, n), at("whole.png")));
    const area valid = find_colour(at("whole.png"), 0x0072b2);
    assert_true(valid.count > 100);
    assert_true(abs(valid.y_left - valid.y_right) < 12); /* 2 bits everywhere, and the name of the curve */
    /* An unfinished last row changes nothing, nor do line ends of another system. */
    n += (size_t)snprintf(csv + n, sizeof csv - n, "610,1.5,64");
    CHECK_OK(ll_run_picture(run_with(csv, n), at("growing.png")));
    check_same_file(at("whole.png"), at("growing.png"), 1);
    CHECK_OK(ll_run_picture(at("run/"), at("whole.svg")));
}

static void training_alone_is_enough(void **state) {
    (void)state;
    const char few[] = HEADER "10,1,1,,,,,,,,,\n20,1,1,2,3,,,,,,,\r\n30,1,1,2,inf,,,,,,,\n";
    CHECK_OK(ll_run_picture(run_with(few, sizeof few - 1), at("few.png")));
    assert_true(find_colour(at("few.png"), 0x0072b2).count == 0);
    const char more[] = HEADER "10,1,1,2,5,,,,,,,\n20,1,1,2,3,,,,,,,\n30,1,1,2,4,,,,,,,\n";
    CHECK_OK(ll_run_picture(run_with(more, sizeof more - 1), at("more.png")));
    assert_true(find_colour(at("more.png"), 0xd55e00).count > 1000); /* the line is not thin and pale */
}

static void hostile_tables_are_refused(void **state) {
    (void)state;
    const struct {
        const char *text;
        size_t size;
        const char *word;
    } bad[] = {
        {"", 0, "empty"},
        {"step,bits", 9, "cut off"},
        {"a,b,c\n1,2,3\n", 12, "\"step\""},
        {"step,bits\n1,2\n", 14, "\"valid_bits\""},
        {HEADER, sizeof HEADER - 1, "no loss yet"},
        {HEADER "1,,,,,,,,,,,\n", sizeof HEADER + 12, "no loss yet"},
        {HEADER "1,,,,nan,,1e999,,,,,\n", sizeof HEADER + 20, "no loss yet"},
        {HEADER "1,2,3\n", sizeof HEADER + 5, "line 2: 3 fields"},
        {HEADER "1,,,,2,,,,,,,,\n", sizeof HEADER + 14, "line 2: 13 fields"},
        {HEADER "1,,,,2,,,,,,,\n2,,,,x2,,,,,,,\n", sizeof HEADER + 28, "line 3: \"x2\""},
        {HEADER "1,,,,2 3,,,,,,,\n", sizeof HEADER + 15, "\"2 3\""},
        {HEADER ",,,,2,,,,,,,\n", sizeof HEADER + 12, "step is empty"},
        {HEADER "1,,,,2,,,\0,,,,\n", sizeof HEADER + 14, "zero bytes"},
        {HEADER "\n\n\n", sizeof HEADER + 2, "line 2"},
    };
    const int before = files_in(folder);
    CHECK_FAILS(ll_run_picture(at("nowhere"), at("bad.png")), LL_EIO, "no run folder");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_FAILS(ll_run_picture(run_with(bad[i].text, bad[i].size), at("bad.png")), LL_EFORMAT, bad[i].word);
    assert_true(access(at("bad.png"), F_OK) != 0);
    assert_true(files_in(folder) <= before + 1); /* at most the run folder is new */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_shows_the_curve),          cmocka_unit_test(logarithms_straighten_powers),
        cmocka_unit_test(what_is_no_number_is_skipped), cmocka_unit_test(svg_is_well_formed),
        cmocka_unit_test(one_point_is_a_dot),           cmocka_unit_test(any_numbers_and_sizes),
        cmocka_unit_test(wrong_figures_are_refused),    cmocka_unit_test(a_failure_keeps_the_old_picture),
        cmocka_unit_test(colours_are_those_of_pages),   cmocka_unit_test(a_run_is_drawn),
        cmocka_unit_test(training_alone_is_enough),     cmocka_unit_test(hostile_tables_are_refused),
        cmocka_unit_test(long_words_stay_on_the_page),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
