/* A program that draws, and has given fontconfig a font of its own: the font stays. */
#include "folder.h"

#include <fontconfig/fontconfig.h>

#include "longline-lab.h"

static void fonts_of_the_program_stay(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3};
    const ll_curve curve = {"curve", 4, x, x};
    const ll_figure f = {.title = "title", .n = 1, .curves = &curve};
    FcChar8 *file = NULL;
    FcPattern *any = FcPatternCreate();
    FcObjectSet *what = FcObjectSetBuild(FC_FILE, (char *)NULL);
    FcFontSet *fonts = FcFontList(NULL, any, what);
    assert_non_null(fonts);
    assert_true(fonts->nfont > 0);
    assert_int_equal(FcPatternGetString(fonts->fonts[0], FC_FILE, 0, &file), FcResultMatch);
    assert_true(FcConfigAppFontAddFile(NULL, file));
    FcConfig *config = FcConfigGetCurrent();
    CHECK_OK(ll_figure_write(&f, at("loss.svg")));
    assert_ptr_equal(FcConfigGetCurrent(), config);
    const FcFontSet *own = FcConfigGetFonts(config, FcSetApplication);
    assert_true(own && own->nfont > 0);
    FcFontSetDestroy(fonts);
    FcObjectSetDestroy(what);
    FcPatternDestroy(any);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fonts_of_the_program_stay)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
