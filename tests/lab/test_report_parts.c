/* Parts of pages: thinned curves, images, heat maps, tables in files. */
#include "runs.h"

#include <cairo/cairo.h>

#include "base/memory.h"
#include "report/html.h"

static void is_file(const char *path, const char *text) {
    ll_bytes b = slurp(path);
    assert_string_equal((char *)b.data, text);
    ll_bytes_free(&b);
}

static void thin_curves_keep_what_is_seen(void **state) {
    (void)state;
    enum { N = 50000 };
    static double x[N], y[N];
    static int index[N];
    for (int i = 0; i < N; i++) x[i] = i, y[i] = sin(i * 0.37) * i;
    y[31234] = 1e6, y[777] = -1e6, y[100] = NAN;
    const ll_curve c = {"", N, x, y};
    const ll_figure f = {.n = 1, .curves = &c};
    const int n = ll_thin(&f, &c, 100, NULL);
    assert_int_equal(n, ll_thin(&f, &c, 100, index));
    assert_true(n > 200 && n <= 404);
    int high = 0, low = 0;
    for (int i = 0; i < n; i++) {
        if (i) assert_true(index[i] > index[i - 1]);
        high |= index[i] == 31234, low |= index[i] == 777;
        assert_true(index[i] != 100);
    }
    assert_true(high && low && index[0] == 0 && index[n - 1] == N - 1);
    const ll_curve few = {"", 300, x, y};
    assert_int_equal(ll_thin(&f, &few, 100, NULL), 299); /* all finite points */
}

typedef struct {
    const unsigned char *data;
    size_t at;
} stream;

static cairo_status_t next_bytes(void *arg, unsigned char *data, unsigned int n) {
    stream *s = arg;
    memcpy(data, s->data + s->at, n);
    s->at += n;
    return CAIRO_STATUS_SUCCESS;
}

/* Another program reads our images. */
static void images_are_png(void **state) {
    (void)state;
    enum { ROWS = 5, COLS = 7 };
    static const int kinds[] = {LL_PNG_GREY, LL_PNG_SHADES, LL_PNG_SIGNED};
    unsigned char index[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) index[i] = (unsigned char)(i * 36 % 255);
    for (size_t k = 0; k < 3; k++) {
        unsigned char *png = NULL;
        size_t size = 0;
        CHECK_OK(ll_png(&png, &size, kinds[k], ROWS, COLS, index));
        stream s = {png, 0};
        cairo_surface_t *image = cairo_image_surface_create_from_png_stream(next_bytes, &s);
        assert_int_equal(cairo_surface_status(image), CAIRO_STATUS_SUCCESS);
        assert_int_equal(cairo_image_surface_get_width(image), COLS);
        assert_int_equal(cairo_image_surface_get_height(image), ROWS);
        for (int i = 0; i < ROWS * COLS; i++) {
            uint32_t pixel;
            memcpy(&pixel,
                   cairo_image_surface_get_data(image) + i / COLS * cairo_image_surface_get_stride(image) +
                       i % COLS * 4,
                   sizeof pixel);
            const int v = index[i], signed_alpha = abs(v - 127) * 255 / 127;
            if (k == 0) assert_int_equal(pixel & 0xff, v);
            if (k == 0) assert_int_equal(pixel >> 8 & 0xff, v);
            if (k == 1) assert_int_equal(pixel >> 24, v);
            if (k == 2) assert_int_equal(pixel >> 24, signed_alpha);
            if (k == 2 && signed_alpha > 9) assert_true((v < 127) == ((pixel >> 16 & 0xff) > (pixel & 0xff)));
        }
        cairo_surface_destroy(image);
        ll_free(png);
    }
}

static uint32_t pixel_of(const char *path, int x, int y) {
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(s), CAIRO_STATUS_SUCCESS);
    uint32_t pixel;
    memcpy(&pixel, cairo_image_surface_get_data(s) + y * cairo_image_surface_get_stride(s) + 4 * x, sizeof pixel);
    cairo_surface_destroy(s);
    return pixel & 0xffffff;
}

/* The largest value has the darkest colour. Pixels are at the centres of the cells of two panels of 449 x 449, 14
 * apart. */
static void shades_of_heat_maps(void **state) {
    (void)state;
    const float a[4] = {0, 4, NAN, -4}, b[4] = {0, 1, 4, -2};
    const ll_panel panels[2] = {{"a", 2, 2, a}, {"b", 2, 2, b}};
    ll_heat_map m = {.n = 2, .panels = panels, .shades = LL_SHADES_ALL};
    const int half = 225, y = 24 + 20 + 100, blank = 0xffffff, blue = 0x08306b, orange = 0x7f2704, middle = 0x6aa5d6;
    CHECK_OK(ll_heat_map_write(&m, at("map.png")));
    assert_int_equal(pixel_of(at("map.png"), 24 + 100, y), blank);
    assert_int_equal(pixel_of(at("map.png"), 24 + half + 100, y), blue);
    assert_int_equal(pixel_of(at("map.png"), 24 + 100, y + half), blank);
    assert_int_equal(pixel_of(at("map.png"), 24 + half + 100, y + half), orange);
    assert_int_equal(pixel_of(at("map.png"), 24 + 463 + half + 100, y), middle); /* a quarter of the largest value */
    m.shades = LL_SHADES_ROW;
    CHECK_OK(ll_heat_map_write(&m, at("map.png")));
    assert_int_equal(pixel_of(at("map.png"), 24 + 463 + half + 100, y), blue);
    CHECK_OK(ll_heat_map_write(&m, at("map.svg")));
    CHECK_OK(ll_csv_heat_map(at("map.csv"), &m));
    is_file(at("map.csv"), "panel,row,0,1\na,0,0,4\na,1,,-4\nb,0,0,1\nb,1,4,-2\n");
    const ll_panel wide = {"strip", 1, 100, (const float[100]){1}}; /* a fifth as high as wide, or more */
    m = (ll_heat_map){.n = 1, .panels = &wide};
    CHECK_OK(ll_heat_map_write(&m, at("map.png")));
    assert_int_equal(pixel_of(at("map.png"), 26, 24 + 20 + 140), blue);
}

/* Of many names every n-th is shown, beside its own row; of a long name the middle is left out. */
static void many_rows_have_some_names(void **state) {
    (void)state;
    enum { ROWS = 100 };
    static float value[ROWS * ROWS];
    static char text[ROWS][48];
    const char *class[ROWS];
    for (int i = 0; i < ROWS; i++) {
        snprintf(text[i], sizeof text[i], "a-class-with-a-long-name-%d", i);
        class[i] = text[i];
    }
    const ll_panel panel = {"p", ROWS, ROWS, value};
    const ll_heat_map map = {.n = 1, .panels = &panel, .names = class};
    const ll_html_about about = {"classes", "Classes"};
    const ll_html_maps maps = {.groups = 1, .group = &map};
    ll_html h;
    CHECK_OK(ll_html_open(&h, at("names.html"), "names"));
    ll_html_maps_write(&h, &about, &maps);
    CHECK_OK(ll_html_finish(&h));
    ll_bytes page = slurp(at("names.html"));
    const char *first = "<span>a-class-with-\u2026long-name-0</span><span></span><span></span><span class=\"more\">"
                        "a-class-with-\u2026long-name-3</span>";
    assert_non_null(strstr((char *)page.data, first));
    ll_bytes_free(&page);
}

/* Long names that differ at their ends stay apart, fit, and are UTF-8. */
static void long_labels_keep_their_ends(void **state) {
    (void)state;
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_RGB24, 8, 8);
    cairo_t *cr = cairo_create(s);
    char one[128], two[128], small[16], most[3000];
    cairo_set_font_size(cr, 12);
    assert_true(ll_label_fit(cr, one, sizeof one, "run-with-quite-a-long-name-number-1\xc3\xa9", 120) <= 120);
    assert_true(ll_label_fit(cr, two, sizeof two, "run-with-quite-a-long-name-number-2\xc3\xa9", 120) <= 120);
    assert_string_not_equal(one, two);
    assert_non_null(strstr(one, "\xe2\x80\xa6"));
    assert_string_equal(one + strlen(one) - 3, "1\xc3\xa9");
    ll_label_fit(cr, small, sizeof small, "run-with-quite-a-long-name", 1000);
    assert_string_equal(small, "run-wi\xe2\x80\xa6g-name");
    ll_label_fit(cr, small, sizeof small, "short\xff", 1000);
    assert_string_equal(small, "short?");
    memset(most, 'x', sizeof most), most[sizeof most - 1] = 0;
    ll_label_fit(cr, one, sizeof one, most, 1e6);
    assert_int_equal(strlen(one), sizeof one - 1);
    cairo_destroy(cr), cairo_surface_destroy(s);
}

static void tables_are_csv(void **state) {
    (void)state;
    const double x[] = {1, 2.5, 1e20}, y[] = {-0.25, NAN, 3};
    const ll_curve same[2] = {{"a", 3, x, y}, {"b, \"c\"", 3, x, x}}, other[2] = {{"a", 1, x, y}, {"b", 2, y, x}};
    ll_figure f = {.x_label = "step", .y_label = "loss", .n = 2, .curves = same};
    CHECK_OK(ll_csv_figure(at("wide.csv"), &f));
    is_file(at("wide.csv"), "step,a,\"b, \"\"c\"\"\"\n1,-0.25,1\n2.5,,2.5\n1e+20,3,1e+20\n");
    f.curves = other;
    CHECK_OK(ll_csv_figure(at("tall.csv"), &f));
    is_file(at("tall.csv"), "curve,step,loss\na,1,-0.25\nb,-0.25,1\nb,,2.5\n");
    CHECK_FAILS(ll_csv_figure(at("no/tall.csv"), &f), LL_EIO, "tall.csv");
}

/* Columns are found by name, and missing ones are not found. */
static void tables_are_read(void **state) {
    (void)state;
    static const char *const columns[4] = {"step", "loss", "none", "more"};
    const char text[] = "loss,more,step\n1,2,3\n,5,6\n4,,9\n7,8";
    ll_columns t;
    CHECK_OK(ll_file_write(at("t.csv"), text, sizeof text - 1));
    CHECK_OK(ll_columns_read(&t, at("t.csv"), columns, 4, 2));
    assert_int_equal(t.n, 3); /* the last row has no line end */
    assert_true(t.column[0][2] == 9 && t.column[1][0] == 1 && isnan(t.column[1][1]) && isnan(t.column[2][0]));
    assert_int_equal(ll_columns_last(&t, 1), 2);
    assert_int_equal(ll_columns_last(&t, 2), -1);
    assert_int_equal(ll_columns_least(&t, 3), 0);
    assert_true(ll_columns_median(&t, 1) == 2.5 && ll_columns_median(&t, 0) == 6 && isnan(ll_columns_median(&t, 2)));
    ll_columns_free(&t);
    CHECK_FAILS(ll_columns_read(&t, at("t.csv"), columns, 4, 3), LL_EFORMAT, "\"none\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thin_curves_keep_what_is_seen),
        cmocka_unit_test(images_are_png),
        cmocka_unit_test(shades_of_heat_maps),
        cmocka_unit_test(many_rows_have_some_names),
        cmocka_unit_test(long_labels_keep_their_ends),
        cmocka_unit_test(tables_are_csv),
        cmocka_unit_test(tables_are_read),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
