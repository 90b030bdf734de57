/* What is known of the formats of data, by their names in recipes. */
#include <stddef.h>

#include "data/format.h"
#include "longline-lab.h"

int ll_format_makes(const char *name) {
    const ll_format *format = ll_format_named(name);
    return format && format->made;
}

int ll_format_has_images(const char *name) {
    const ll_format *format = ll_format_named(name);
    return format && format->images;
}

int ll_format_has_baseline(const char *name) {
    const ll_format *format = ll_format_named(name);
    return format && format->baseline;
}

const char *ll_format_unit(const char *name) {
    const ll_format *format = ll_format_named(name);
    return format ? format->unit : "";
}

int ll_format_cuts_lines(const char *name) {
    const ll_format *format = ll_format_named(name);
    return format && format->cut != LL_CUT_NOWHERE;
}

int ll_format_cuts_bytes(const char *name) {
    const ll_format *format = ll_format_named(name);
    return format && format->cut == LL_CUT_BYTE;
}

ll_input_format ll_format_input(const char *name) {
    const ll_format *format = ll_format_named(name);
    return format ? format->input : LL_INPUT_AUTO;
}
