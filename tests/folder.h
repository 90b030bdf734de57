/* A folder that exists while a test program runs, and names of files in it. */
#ifndef LL_FOLDER_H
#define LL_FOLDER_H

#include "test.h"

#include <dirent.h>
#include <unistd.h>

static char folder[] = "/tmp/ll-test-XXXXXX";

static inline int make_folder(void **state) {
    (void)state;
    return !mkdtemp(folder);
}

static inline int remove_folder(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* How many names a folder has, except those that begin with a dot. */
static inline int files_in(const char *path) {
    int n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* folder/name, in one of a few buffers. */
static inline char *at(const char *name) {
    static char names[16][4096];
    static int next;
    char *text = names[next++ % 16];
    snprintf(text, sizeof names[0], "%s/%s", folder, name);
    return text;
}

/* A new file with these bytes. It is not emptied and refilled, because that would be flushed to the disk each time. */
static inline void put_file(const char *path, const void *data, size_t size) {
    remove(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

#endif
