/* Axes and labels: round numbers within the range, each written differently, and names that do not overlap. */
#include "test.h"

#include "report/report_internal.h"

static void check_axis(int log, double lo, double hi, int open) {
    ll_axis a;
    int numbered = 0;
    ll_axis_set(&a, log, lo, hi, 500, 50, open);
    assert_true(a.lo < a.hi && a.lo <= lo && a.hi >= hi);
    for (int i = 0; i < a.n; i++) {
        const double t = a.tick[i].at, slack = 1e-6 * (a.hi - a.lo);
        assert_true(t >= a.lo - slack && t <= a.hi + slack);
        assert_true(i == 0 || t > a.tick[i - 1].at);
        if (!a.tick[i].text[0]) continue;
        numbered++;
        for (int j = 0; j < i; j++) assert_string_not_equal(a.tick[i].text, a.tick[j].text);
    }
    if (numbered < 2 || numbered > 25) fail_msg("%d numbers on an axis from %g to %g", numbered, lo, hi);
}

static void axes_have_round_numbers(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        const double size = pow(10, (i * 37 % 200) / 10.0 - 8), lo = size * (1 + (i * 91 % 17)),
                     span = pow(10, i * 53 % 30 / 6.0 - 2);
        check_axis(0, lo, lo + span * size, i & 1);
        check_axis(0, -lo, -lo + span * size, i & 1);
        check_axis(1, lo, lo * (1 + span), i & 1);
    }
    ll_axis a;
    ll_axis_set(&a, 1, 256, 65536, 900, 80, 0);
    const char *want[] = {"500", "1,000", "2,000", "5,000", "10,000", "20,000", "50,000"};
    int n = 0;
    for (int i = 0; i < a.n; i++)
        if (a.tick[i].text[0]) assert_string_equal(a.tick[i].text, want[n++]);
    assert_int_equal(n, 7);
}

/* The axis of what is level and cannot be more than 100 ends there. */
static void shares_end_at_all(void **state) {
    (void)state;
    static const double level[] = {0, 10, 95.83, 100};
    const ll_figure of_shares = {.y_most = 100}, any = {0};
    ll_axis a;
    for (int i = 0; i < 4; i++) {
        ll_axis_set_y(&a, &of_shares, level[i], level[i], 300);
        assert_true(a.lo >= 0 && a.lo < a.hi && a.hi < 105 && a.n > 1);
        assert_true(a.tick[a.n - 1].at <= 100 && a.lo <= level[i] && a.hi >= level[i]);
    }
    ll_axis_set_y(&a, &any, 100, 100, 300);
    assert_true(a.tick[a.n - 1].at > 100);
}

/* The numbers of an axis are written alike: if one is written as a power of ten, all are. */
static void wide_axes_have_powers(void **state) {
    (void)state;
    ll_axis a;
    ll_axis_set(&a, 1, 10, 1e20, 900, 80, 0);
    for (int i = 0; i < a.n; i++)
        if (a.tick[i].text[0] && strncmp(a.tick[i].text, "10", 2)) fail_msg("%s among powers", a.tick[i].text);
    ll_axis_set(&a, 1, 1e-8, 0.01, 900, 80, 0);
    const char *last = NULL;
    for (int i = 0; i < a.n; i++)
        if (a.tick[i].text[0]) last = a.tick[i].text;
    assert_non_null(last);
    assert_string_equal(last, "10\u207b\u00b2");
    /* Also where ticks are even: within a decade, and on a linear axis. */
    for (int log = 0; log < 2; log++) {
        ll_axis_set(&a, log, 3.1e-7, 5.2e-7, 500, 50, 0);
        for (int i = 0; i < a.n; i++)
            if (a.tick[i].text[0] && !strstr(a.tick[i].text, "\u00b710\u207b\u2077")) fail_msg("%s", a.tick[i].text);
        assert_true(a.n >= 2);
    }
    ll_axis_set(&a, 0, -5e-7, 5e-7, 500, 100, 0);
    assert_string_equal(a.tick[0].text, "\u22124\u00b710\u207b\u2077");
}

static void numbers_are_written_for_people(void **state) {
    (void)state;
    const struct {
        double v, step, largest;
        const char *text;
    } want[] = {{0, 1, 5, "0"},
                {1234567, 1, 999999, "1,234,567"},
                {65536, 1, 65536, "65,536"},
                {999, 1, 999, "999"},
                {1500000, 500000, 2e6, "1.5M"},
                {2e9, 1e9, 3e9, "2G"},
                {0.25, 0.05, 1, "0.25"},
                {-20, 10, 50,
                 "\xe2\x88\x92"
                 "20"},
                {1e20, 1e20, 1e20, "1e+20"},
                {9876543210, 1, 999999, "9,876,543,210"},
                {1234567890123456789.0, 1, 999999, "1.23456789012e+18"},
                {1e50, 1, 999999, "1e+50"},
                {0, 5e5, 2e6, "0"},
                {7.5, 2.5, 10, "7.5"}};
    char text[24];
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        ll_number_text(text, sizeof text, want[i].v, want[i].step, want[i].largest);
        assert_string_equal(text, want[i].text);
    }
}

static void labels_move_apart(void **state) {
    (void)state;
    ll_label l[12] = {0};
    for (int i = 0; i < 12; i++) l[i] = (ll_label){.x = i < 10 ? 100 : 400, .y = 50 + i % 3, .width = 80, .curve = i};
    ll_labels_spread(l, 12, 17, 0, 400);
    for (int i = 0; i < 12; i++) {
        assert_true(l[i].y >= 0 && l[i].y <= 400);
        for (int j = 0; j < i; j++)
            if (l[i].x == l[j].x) assert_true(fabs(l[i].y - l[j].y) > 16);
    }
}

/* As many labels as there are lines. Most curves end at the top. */
static void labels_fill_the_space(void **state) {
    (void)state;
    enum { N = 24 };
    ll_label l[N] = {0};
    for (int i = 0; i < N; i++) l[i] = (ll_label){.x = 100, .y = i < 20 ? 3 + i % 2 : 200, .width = 80, .curve = i};
    ll_labels_spread(l, N, 17, 10, 10 + 17 * (N - 1));
    for (int i = 0; i < N; i++) {
        assert_true(l[i].y > 9.9 && l[i].y < 10.1 + 17 * (N - 1));
        for (int j = 0; j < i; j++) assert_true(fabs(l[i].y - l[j].y) > 16.9);
    }
}

static int is_covered(const ll_cover *c, const ll_label *l) {
    int n = 0;
    for (int row = (int)(l->y - 6) / 4; row <= (int)(l->y + 7) / 4; row++)
        for (int column = (int)l->x / 4; column <= (int)(l->x + l->width) / 4; column++) n += c->covered[row][column];
    return n;
}

/* A curve runs through two labels. They move to the other side of their dots, and stay apart. */
static void labels_leave_curves_free(void **state) {
    (void)state;
    static ll_cover c = {.width = 960, .height = 540, .left = 60, .right = 940, .top = 50, .bottom = 480};
    ll_label l[3] = {{.end_x = 300, .end_y = 250}, {.end_x = 300, .end_y = 266}, {.end_x = 300, .end_y = 400}};
    for (int i = 0; i < 3; i++) l[i].x = l[i].end_x + 10, l[i].y = l[i].end_y, l[i].width = 120;
    l[1].y = 267;
    ll_cover_line(&c, 320, 350, 420, 150);
    ll_labels_clear(l, 3, &c, 17);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(is_covered(&c, &l[i]), 0);
        assert_true(fabs(l[i].y - l[i].end_y) <= 34);
        assert_true(l[i].x == 310 || l[i].x == 170 || l[i].x == 240);
    }
    assert_true(fabs(l[0].y - l[1].y) > 16.9 || fabs(l[0].x - l[1].x) > 120);
    assert_true(l[2].x == 310 && l[2].y == 400);
}

static void logarithmic_axes_say_so(void **state) {
    (void)state;
    char title[LL_AXIS_TITLE];
    ll_axis_title(title, "norm", 1);
    assert_string_equal(title, "norm (logarithmic)");
    ll_axis_title(title, "norm", 0);
    assert_string_equal(title, "norm");
    ll_axis_title(title, NULL, 1);
    assert_string_equal(title, "logarithmic");
    ll_axis_title(title, NULL, 0);
    assert_string_equal(title, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_have_round_numbers),  cmocka_unit_test(shares_end_at_all),
        cmocka_unit_test(wide_axes_have_powers),    cmocka_unit_test(numbers_are_written_for_people),
        cmocka_unit_test(labels_move_apart),        cmocka_unit_test(labels_fill_the_space),
        cmocka_unit_test(labels_leave_curves_free), cmocka_unit_test(logarithmic_axes_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
