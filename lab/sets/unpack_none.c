/* Archives where the program was built without libarchive. */
#include "base/file.h"
#include "longline-lab.h"

ll_status ll_data_unpack(const char *archive, const char *folder, int strip, ll_done_fn *progress, void *arg) {
    (void)progress, (void)arg;
    return ll_fail(LL_EIO,
                   "this program was built without libarchive and cannot unpack %s; unpack it in %s by "
                   "other means, without the outer folders of its names (tar xf with --strip-components=%d), or build "
                   "it again where libarchive-dev is installed",
                   archive, folder, strip);
}
