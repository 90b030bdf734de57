/* Results in files. They are collected in memory, so that the file is complete or unchanged. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

FILE *ll_output_begin(ll_output *o, const char *path) {
    *o = (ll_output){.path = path};
    o->file = open_memstream(&o->text, &o->size);
    if (!o->file) ll_fail_message("no memory for the output to %s", path);
    return o->file;
}

void ll_output_drop(ll_output *o) {
    if (o->file) fclose(o->file);
    free(o->text);
    *o = (ll_output){0};
}

int ll_output_end(ll_output *o) {
    int bad = ferror(o->file);
    if (fclose(o->file)) bad = 1;
    o->file = NULL;
    int code = bad ? ll_fail_message("no memory for the output to %s", o->path) : -1;
    if (code < 0) {
        const ll_status status = ll_text_save(o->path, o->text, o->size);
        if (status) code = ll_failed(status, NULL);
    }
    ll_output_drop(o);
    return code;
}
