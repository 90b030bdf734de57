/* A file of rank 0, on all ranks: the folder of a run need not be shared. A rank that finds the same file reads it
 * itself. Another one gets a copy, which is a temporary file if it is large (base/spill.h). */
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/spill.h"
#include "train/train_internal.h"

/* The header has checksums of all tensors, which were compared with them. *sum stays as it is if some have none. */
static void sum_of(char sum[LL_CHECKSUM_TEXT], const ll_safetensors *file) {
    size_t size;
    if (ll_safetensors_checked(file) < ll_safetensors_count(file)) return;
    const char *header = ll_safetensors_header(file, &size);
    ll_st_checksum(sum, header, size);
}

/* Sends the bytes of rank 0 to all ranks. Those that lack them collect them in `to`. */
static ll_status share(const ll_group *all, const ll_bytes *from, ll_spill *to, int lacks) {
    enum { PART = 1 << 24 };
    uint64_t size = from ? from->size : 0;
    char *part = ll_alloc(PART, 1);
    ll_status status = ll_group_agree(all, part ? LL_OK : LL_ENOMEM), kept = LL_OK;
    if (!status) status = ll_group_broadcast(all, &size, sizeof size, 0);
    for (uint64_t at = 0; at < size && !status; at += PART) {
        const size_t n = ll_min_size(PART, (size_t)(size - at));
        if (!all->me) memcpy(part, from->data + at, n);
        status = ll_group_broadcast(all, part, n, 0);
        if (!status && !kept && lacks) kept = ll_spill_add(to, part, n);
    }
    ll_free(part);
    return status ? status : kept;
}

static ll_status copy(const ll_group *all, ll_safetensors **file, const char *path, int lacks) {
    ll_spill spill = {.name = path};
    ll_bytes bytes = {0};
    ll_status status = share(all, all->me ? NULL : ll_safetensors_bytes(*file), &spill, lacks);
    if (!status && lacks) {
        ll_safetensors_free(*file);
        *file = NULL;
        status = ll_spill_end(&spill, &bytes);
        if (!status) status = ll_safetensors_take(file, &bytes, path);
    }
    ll_spill_free(&spill);
    return ll_group_agree(all, status);
}

ll_status ll_rank_file_open(ll_safetensors **file, const char *path) {
    const ll_group all = ll_group_all();
    ll_safetensors *own = NULL;
    char sum[LL_CHECKSUM_TEXT] = "", first[LL_CHECKSUM_TEXT];
    const ll_status opened = ll_safetensors_open(&own, path);
    ll_status status = ll_group_agree(&all, all.me ? LL_OK : opened);
    if (!opened) sum_of(sum, own);
    memcpy(first, sum, sizeof first);
    if (!status) status = ll_group_broadcast(&all, first, sizeof first, 0);
    const int lacks = all.me && (opened || !*sum || strcmp(sum, first));
    double lack = lacks;
    if (!status) status = ll_group_all_reduce(&all, &lack, 1);
    if (!status && lack > 0) status = copy(&all, &own, path, lacks);
    if (status)
        ll_safetensors_free(own);
    else
        *file = own;
    return status;
}
