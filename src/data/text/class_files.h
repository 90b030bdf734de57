/* The files of a folder that has a subfolder for each class. */
#ifndef LL_CLASS_FILES_H
#define LL_CLASS_FILES_H

#include "data/data_options.h"
#include "data/text/class_labels.h"

/* A file, and its class: the first folder below the one that was named. */
typedef struct {
    const char *path;
    ll_slice label;
} ll_class_file;

typedef struct {
    ll_class_file *file; /* sorted by path */
    int64_t count;
    int64_t left_out; /* files in folders that data.classes does not name */
    char **names;     /* of all files */
    int all;
} ll_class_files;

/* Files that lie in no subfolder do not count. One in a folder that is not in data.classes is left out, or an error
 * (c->closed). LL_EINVAL: no file has a class. Free it also after a failure. */
LL_MUST_USE ll_status ll_class_files_find(ll_class_files *files, const ll_reader_options *c, const char *folder);
void ll_class_files_free(ll_class_files *files);

#endif
