/* Cases as files: what ll_attend_file reads, and what it writes. */
#ifndef LL_CASES_H
#define LL_CASES_H

#include "folder.h"

static char in[64], out[64];

static inline int make_files(void **state) {
    if (make_folder(state)) return -1;
    snprintf(in, sizeof in, "%s/in.safetensors", folder);
    snprintf(out, sizeof out, "%s/out.safetensors", folder);
    return 0;
}

#endif
