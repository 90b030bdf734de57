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
