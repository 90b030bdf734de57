/* Downloads where the program was built without libcurl. */
#include "sets/fetch.h"

ll_status ll_fetch_into(ll_partial *part, ll_done_fn *progress, void *arg) {
    (void)progress, (void)arg;
    return ll_fail(LL_EIO,
                   "this program was built without libcurl and cannot fetch %s; fetch it by other means, or build it "
                   "again where libcurl4-openssl-dev is installed",
                   part->url);
}
