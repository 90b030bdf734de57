/* Matrices as colours, and bands around curves: the pixels are where the numbers are. */
#include "folder.h"

#include <cairo/cairo.h>

#include "base/memory.h"

typedef struct {
    int count, width, height;
    double x, y; /* the centre of the pixels of one colour */
} area;

/* Blending may round. */
static int is_near(unsigned a, unsigned b) {
    int most = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        const int d = abs((int)(a >> shift & 255) - (int)(b >> shift & 255));
        most = d > most ? d : most;
    }
    return most <= 1;
}

static area find_colour(const char *path, unsigned rgb) {
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(s), CAIRO_STATUS_SUCCESS);
    area found = {.width = cairo_image_surface_get_width(s), .height = cairo_image_surface_get_height(s)};
    const unsigned char *data = cairo_image_surface_get_data(s);
    for (int y = 0; y < found.height; y++)
        for (int x = 0; x < found.width; x++) {
            uint32_t pixel;
            memcpy(&pixel, data + (size_t)y * (size_t)cairo_image_surface_get_stride(s) + 4 * (size_t)x, sizeof pixel);
            if (!is_near(pixel, rgb)) continue;
            found.count++, found.x += x, found.y += y;
        }
    found.x /= found.count ? found.count : 1, found.y /= found.count ? found.count : 1;
    cairo_surface_destroy(s);
    return found;
}

/* The largest number of each panel is darkest, and cells are at their rows and columns. */
static void test_colours(void **state) {
    (void)state;
    float a[] = {0, 0, 4, 0, 0, 0, 0, 0, 1}, b[] = {-9, 0, 0, 0};
    const ll_panel panels[] = {{"a", 3, 3, a}, {"b", 2, 2, b}};
    ll_heat_map m = {.title = "t", .n = 1, .panels = panels};
    CHECK_OK(ll_heat_map_write(&m, at("a.png")));
    area most = find_colour(at("a.png"), 0x08306b), middle = find_colour(at("a.png"), 0x6aa5d6);
    assert_true(most.count > 10000 && middle.count > 10000); /* a quarter of the value has half of the colour */
    assert_true(fabs(most.x - middle.x) < 3 && most.y < middle.y - 300);
    assert_int_equal(find_colour(at("a.png"), 0x7f2704).count, 0);
    m.n = 2;
    CHECK_OK(ll_heat_map_write(&m, at("ab.png")));
    area negative = find_colour(at("ab.png"), 0x7f2704);
    most = find_colour(at("ab.png"), 0x08306b);
    assert_true(negative.count > 5000 && most.count > 5000);
    assert_true(negative.x > most.x && negative.width == 960);
    ll_panel many[100]; /* cells keep a size that can be seen */
    for (int i = 0; i < 100; i++) many[i] = panels[1];
    const ll_heat_map crowd = {.n = 100, .panels = many, .across = 100};
    CHECK_OK(ll_heat_map_write(&crowd, at("crowd.png")));
    assert_true(find_colour(at("crowd.png"), 0x7f2704).count > 100 * 60); /* a quarter of 20 x 20 each, less edges */
    a[0] = a[1] = a[3] = a[4] = a[5] = a[6] = a[7] = 3, a[8] = 3.5f; /* from 3 to 4: half way is half */
    m.shades = LL_SHADES_RANGE, m.n = 1;
    CHECK_OK(ll_heat_map_write(&m, at("stretched.png")));
    assert_true(find_colour(at("stretched.png"), 0x6aa5d6).count > 10000);
    m.n = 2;
    m.width = 500, m.height = 400;
    CHECK_OK(ll_heat_map_write(&m, at("small.png")));
    assert_int_equal(find_colour(at("small.png"), 0xffffff).width, 500);
    CHECK_OK(ll_heat_map_write(&m, at("a.svg")));
}

/* NaN and matrices of zeros leave the panel empty. */
static void test_strange_numbers(void **state) {
    (void)state;
    float none[] = {0, 0}, strange[] = {NAN, INFINITY, 1, 0};
    const ll_panel panels[] = {{NULL, 1, 2, none}, {"", 2, 2, strange}};
    const ll_heat_map m = {.n = 2, .panels = panels};
    CHECK_OK(ll_heat_map_write(&m, at("strange.png")));
    assert_true(find_colour(at("strange.png"), 0x08306b).count > 1000);
}

/* Names stand to the left of their rows and below their columns, which may be fewer. Missing numbers are gray. */
static void test_names(void **state) {
    (void)state;
    float value[] = {0, 1, 0, 0, NAN, 0};
    const char *const rows[] = {"first row", "second row", "third row"};
    const char *const columns[] = {"first column", "second column"};
    const ll_panel panel = {"p", 3, 2, value};
    ll_heat_map m = {.n = 1, .shades = LL_SHADES_RANGE, .panels = &panel, .names = rows, .columns = columns};
    CHECK_OK(ll_heat_map_write(&m, at("names.png")));
    const area most = find_colour(at("names.png"), 0x08306b), missing = find_colour(at("names.png"), 0xdddddd);
    assert_true(most.count > 10000 && missing.count > 10000);
    assert_true(missing.x < most.x - 100 && missing.y > most.y + 200); /* row 2 of column 0, row 0 of column 1 */
    m.names = m.columns = NULL;
    CHECK_OK(ll_heat_map_write(&m, at("plain.png")));
    const area plain = find_colour(at("plain.png"), 0x08306b);
    assert_true(most.x > plain.x + 30 && most.count < plain.count); /* names take room */
}

static int are_same(const char *path, const char *other) {
    cairo_surface_t *a = cairo_image_surface_create_from_png(path), *b = cairo_image_surface_create_from_png(other);
    const size_t size = (size_t)cairo_image_surface_get_stride(a) * (size_t)cairo_image_surface_get_height(a);
    const int same = cairo_image_surface_get_height(a) == cairo_image_surface_get_height(b) &&
                     !memcmp(cairo_image_surface_get_data(a), cairo_image_surface_get_data(b), size);
    cairo_surface_destroy(a), cairo_surface_destroy(b);
    return same;
}

/* Rows lower than a line of text still have every n-th name. */
static void test_many_names(void **state) {
    (void)state;
    enum { ROWS = 100 };
    static float value[ROWS * ROWS];
    const char *names[ROWS];
    for (int i = 0; i < ROWS; i++) names[i] = "class";
    const ll_panel panel = {"p", ROWS, ROWS, value};
    const ll_heat_map m = {.n = 1, .panels = &panel, .names = names};
    CHECK_OK(ll_heat_map_write(&m, at("class.png")));
    for (int i = 0; i < ROWS; i++) names[i] = "slcas"; /* as wide */
    CHECK_OK(ll_heat_map_write(&m, at("slcas.png")));
    assert_false(are_same(at("class.png"), at("slcas.png")));
}

/* Two matrices that differ by a factor have the same colours. Numbers tell them apart. */
static void test_numbers(void **state) {
    (void)state;
    float one[] = {0, 1, 0, 0.25f}, four[] = {0, 4, 0, 1};
    ll_panel panel = {"p", 2, 2, one};
    ll_heat_map m = {.n = 1, .panels = &panel};
    for (m.numbers = 0; m.numbers < 2; m.numbers++) {
        panel.value = one;
        CHECK_OK(ll_heat_map_write(&m, at("one.png")));
        panel.value = four;
        CHECK_OK(ll_heat_map_write(&m, at("four.png")));
        assert_int_equal(are_same(at("one.png"), at("four.png")), !m.numbers);
    }
}

static void test_refusals(void **state) {
    (void)state;
    float one = 1;
    ll_panel panel = {"p", 1, 1, &one};
    ll_heat_map m = {.n = 1, .panels = &panel};
    CHECK_FAILS(ll_heat_map_write(&m, at("a.gif")), LL_EINVAL, ".svg or .png");
    panel.rows = 0;
    CHECK_FAILS(ll_heat_map_write(&m, at("a.png")), LL_EINVAL, "0 x 1");
    panel.rows = 1, m.n = 0;
    CHECK_FAILS(ll_heat_map_write(&m, at("a.png")), LL_EINVAL, "panels");
    m.n = 1, m.height = 5;
    CHECK_FAILS(ll_heat_map_write(&m, at("a.png")), LL_EINVAL, "pixels");
    m.height = 0;
    CHECK_FAILS(ll_heat_map_write(&m, at("nowhere/a.png")), LL_EIO, "nowhere");
    assert_int_equal(access(at("a.png"), R_OK) == 0, 1); /* a failure leaves the old picture */
}

/* A band is pale, in the colour of its curve, above and below it. On a logarithmic axis it stays within the plot. */
static void test_bands(void **state) {
    (void)state;
    const double x[] = {1, 2, 3}, y[] = {2, 2, 2}, half[] = {1, 1, NAN}, *halves[] = {half};
    const ll_curve curve = {"c", 3, x, y};
    ll_figure f = {.n = 1, .curves = &curve};
    const unsigned pale = 0xd6e8f3; /* 0x0072b2 at 0.16 over white */
    CHECK_OK(ll_figure_write(&f, at("plain.png")));
    assert_true(find_colour(at("plain.png"), pale).count < 50); /* edges of letters */
    f.deviation = halves;
    CHECK_OK(ll_figure_write(&f, at("band.png")));
    const area band = find_colour(at("band.png"), pale);
    assert_true(band.count > 5000);
    const double large[] = {50, 50, 50}, *all[] = {large};
    f.deviation = all, f.log_y = 1;
    CHECK_OK(ll_figure_write(&f, at("log.png")));
    const area log = find_colour(at("log.png"), pale), line = find_colour(at("log.png"), 0x0072b2);
    assert_true(log.count > band.count);
    assert_true(fabs(log.y - line.y) < 12); /* as far below as above */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colours),    cmocka_unit_test(test_strange_numbers), cmocka_unit_test(test_names),
        cmocka_unit_test(test_many_names), cmocka_unit_test(test_numbers),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bands),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
