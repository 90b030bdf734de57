/* Runs that could not write, or lost a rank: what to do, and how they go on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "longline-dist.h"

const char *ll_disk_remedy(const char *error) {
    static const int full[] = {ENOSPC, EDQUOT};
    for (int i = 0; i < 2; i++)
        if (strstr(error, strerror(full[i]))) return "free some space, then ";
    return strstr(error, strerror(EFBIG)) ? "raise the limit of a file's size (ulimit -f, or the file system's), then "
                                          : "";
}

int ll_broken_off(const ll_trainer *trainer, const ll_watch *watch) {
    const char *folder = ll_trainer_folder(trainer), *what = ll_disk_remedy(ll_error());
    char step[40] = "", name[LL_QUOTED];
    const int other = ll_dist_ranks().rank > 0; /* a folder of that name that it sees may hold another run */
    if (other && watch->saved < 0)
        return ll_fail_message("%s; %sbegin again, or, where the folder of rank 0 has a checkpoint, go on with: "
                               "longline train --resume %s",
                               ll_error(), what, ll_quoted(name, folder));
    if (!other && !ll_has_checkpoint(folder))
        return ll_fail_message("%s; %sbegin again: there is no checkpoint yet", ll_error(), what);
    if (watch->saved >= 0) snprintf(step, sizeof step, " from step %lld", (long long)watch->saved);
    return ll_fail_message("%s; %sgo on%s with: longline train --resume %s", ll_error(), what, step,
                           ll_quoted(name, folder));
}
