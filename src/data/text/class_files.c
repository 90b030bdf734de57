/* Folders with a subfolder for each class (class_files.h). */
#include "data/text/class_files.h"

#include <string.h>

#include "base/memory.h"

static int find_label(ll_slice *label, const char *folder, const char *file) {
    const char *below = file + strlen(folder);
    while (*below == '/') below++;
    const char *end = strchr(below, '/');
    if (end) *label = (ll_slice){.at = (uint8_t *)below, .size = (size_t)(end - below)};
    return end != NULL;
}

static ll_status add(ll_class_files *files, const ll_class_file *file, const ll_reader_options *c,
                     const char *folder) {
    const char *list = ll_class_list(c);
    if (!list || ll_label_number(list, &file->label) >= 0) {
        files->file[files->count++] = *file;
        return LL_OK;
    }
    files->left_out++;
    if (!c->closed) return LL_OK;
    return ll_fail(LL_EFORMAT, "%s: its folder \"%.*s\" is no class; to leave it out, set data.classes=%s", folder,
                   (int)file->label.size, (const char *)file->label.at, list);
}

ll_status ll_class_files_find(ll_class_files *files, const ll_reader_options *c, const char *folder) {
    const char *list = ll_class_list(c);
    ll_status status = ll_folder_list(&files->names, &files->all, folder);
    if (!status && !(files->file = ll_alloc((size_t)files->all + 1, sizeof *files->file))) status = LL_ENOMEM;
    for (int i = 0; i < files->all && !status; i++) {
        ll_class_file file = {.path = files->names[i]};
        if (find_label(&file.label, folder, file.path)) status = add(files, &file, c, folder);
    }
    if (status || files->count) return status;
    return ll_fail(LL_EINVAL, "%s: no files in subfolders that name their class%s%s", folder,
                   list ? ", of data.classes=" : "", list ? list : "");
}

void ll_class_files_free(ll_class_files *files) {
    ll_free(files->file);
    ll_names_free(files->names, files->all);
    *files = (ll_class_files){0};
}
