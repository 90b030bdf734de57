/* A folder that goes with the tests of a program, and names in it. */
#ifndef LL_FOLDER_H
#define LL_FOLDER_H

#include "test.h"

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

/* folder/name, in one of a few buffers. */
static inline char *at(const char *name) {
    static char names[16][160];
    static int next;
    char *text = names[next++ % 16];
    snprintf(text, sizeof names[0], "%s/%s", folder, name);
    return text;
}

#endif
