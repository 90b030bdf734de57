/* A window of sequences. Those of similar length go through the model together, so that there is little padding. The
 * answer to a sequence does not depend on the others, and answers come in the order of the input. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sequence/sequences.h"

enum { TOKENS_MOST = 1 << 18, FLOATS_MOST = 1 << 24 };

static int no_memory(void) {
    return ll_fail_message(
        "no memory for a window of sequences; make it smaller (--window), or the sequences (--length)");
}

/* Grows *p to n items of a size; the contents are kept. */
static int reserve(void **p, size_t *capacity, size_t n, size_t size) {
    if (n <= *capacity) return 1;
    const size_t more = n < 2 * *capacity ? 2 * *capacity : n;
    void *bigger = more > SIZE_MAX / size ? NULL : realloc(*p, more * size);
    if (!bigger) return 0;
    *p = bigger;
    *capacity = more;
    return 1;
}

static size_t answer_size(const ll_job *job, int n) {
    return job->per_token ? (size_t)(n / (job->numbers ? job->numbers : 1)) * job->width : job->width;
}

int ll_window_add(ll_window *w, const ll_item *item) {
    size_t capacity = (size_t)w->capacity;
    if (!reserve((void **)&w->item, &capacity, (size_t)w->n + 1, sizeof *w->item)) return no_memory();
    w->capacity = (int)capacity;
    const ll_item *last = w->n ? &w->item[w->n - 1] : NULL;
    ll_item *own = &w->item[w->n++];
    *own = *item;
    own->at = last ? last->at + last->size : 0;
    own->size = answer_size(w->job, item->n);
    w->tokens += item->n;
    return -1;
}

int ll_window_full(const ll_window *w, int64_t most) {
    if (!w->n) return 0;
    const ll_item *last = &w->item[w->n - 1];
    return w->n >= most || w->tokens >= TOKENS_MOST || last->at + last->size >= FLOATS_MOST;
}

int ll_item_failed(ll_status status, const ll_item *item) {
    char line[32] = "";
    if (item->line > 0) snprintf(line, sizeof line, ": line %lld", (long long)item->line);
    const int longer = status == LL_ENOMEM || strstr(ll_error(), "max-length)"); /* than memory or the model allow */
    ll_print("%s%s: %s%s", item->file, line, ll_error(), longer ? LL_USE_LESS : "");
    return status == LL_EINVAL || status == LL_EFORMAT ? 2 : 1;
}

/* Memory for a batch (B, T), and any smaller one. */
static int batch_capacity(ll_window *w, int B, int T) {
    const size_t rows = (size_t)B;
    return reserve((void **)&w->batch, &w->batch_capacity, rows * (size_t)T + rows, sizeof *w->batch) &&
           reserve((void **)&w->out, &w->out_capacity, rows * answer_size(w->job, T), sizeof *w->out);
}

int ll_window_report(int64_t done, int64_t total, void *arg) {
    const ll_window *w = arg;
    const double batch = (double)w->now * (double)done / (double)total;
    return w->tick(w->arg, w->tokens > 0 ? ((double)w->done + batch) / (double)w->tokens : 1);
}

/* Runs items order[0 .. B), the longest first, through the model; the memory is there. */
static ll_status run_batch(ll_window *w, const int *order, int B) {
    const ll_job *job = w->job;
    const int longest = w->item[order[0]].n, T = longest > 0 ? longest : 1;
    const size_t row = answer_size(job, T), tokens = (size_t)B * (size_t)T;
    int *lengths = w->batch + tokens;
    memset(w->batch, 0, tokens * sizeof *w->batch);
    w->now = 0;
    for (int b = 0; b < B; b++) {
        const ll_item *item = &w->item[order[b]];
        lengths[b] = item->n;
        w->now += item->n;
        if (item->n) memcpy(w->batch + (size_t)b * (size_t)T, item->tokens, (size_t)item->n * sizeof *item->tokens);
    }
    const ll_status status = job->run(job->model, w->out, w->batch, lengths, B, T);
    for (int b = 0; b < B && !status; b++) {
        const ll_item *item = &w->item[order[b]];
        if (item->size) memcpy(w->answers + item->at, w->out + (size_t)b * row, item->size * sizeof *w->out);
    }
    return status;
}

/* If a batch fails, its sequences are run alone; the first that fails is named. */
static int blame(ll_window *w, const int *order, int B, ll_status status) {
    int first = -1;
    for (int b = 0; b < B && (status == LL_EINVAL || status == LL_EDIVERGED); b++)
        if ((first < 0 || order[b] < first) && run_batch(w, order + b, 1)) first = order[b];
    if (first >= 0) {
        for (int b = 0; b < B; b++) /* its own message */
            if (order[b] == first) status = run_batch(w, order + b, 1);
        return ll_item_failed(status, &w->item[first]);
    }
    if (status == LL_ENOMEM && B == 1) return ll_item_failed(status, &w->item[order[0]]); /* a long one is alone */
    return ll_failed(status, NULL);
}

/* What a rank has computed of a batch goes to rank 0. A failed batch runs there again, for its message. */
static ll_status hand_over(ll_window *w, const int *order, int B, int from, ll_status found) {
    const int me = ll_dist_ranks().rank, longest = w->item[order[0]].n, T = longest > 0 ? longest : 1;
    const size_t row = answer_size(w->job, T);
    for (int b = 0; b < B && me == from && !found; b++) {
        const ll_item *item = &w->item[order[b]];
        if (item->size) memcpy(w->out + (size_t)b * row, w->answers + item->at, item->size * sizeof *w->out);
    }
    ll_status status = ll_dist_collect(&found, sizeof found, from);
    if (!status && !found) status = ll_dist_collect(w->out, (size_t)B * row * sizeof *w->out, from);
    if (status || me) return status;
    if (found) return run_batch(w, order, B);
    for (int b = 0; b < B; b++) {
        const ll_item *item = &w->item[order[b]];
        if (item->size) memcpy(w->answers + item->at, w->out + (size_t)b * row, item->size * sizeof *w->out);
    }
    return LL_OK;
}

static const ll_window *sorted; /* qsort has no argument for it */

static int by_length(const void *a, const void *b) {
    const int i = *(const int *)a, j = *(const int *)b, n = sorted->item[i].n, m = sorted->item[j].n;
    return n != m ? (n < m) - (n > m) : (i > j) - (i < j);
}

/* The number of items from number i of the order on that form a batch, with memory for it; 0: no memory. */
static int next_batch(ll_window *w, int i) {
    const int longest = w->item[w->order[i]].n, T = longest > 0 ? longest : 1;
    const int most = T < LL_PIECE ? LL_PIECE / T : 1, B = most < w->n - i ? most : w->n - i;
    return batch_capacity(w, B, T) ? B : 0;
}

/* Runs all batches, or those of this rank in turn. */
static int run_own(ll_window *w) {
    const ll_ranks ranks = ll_dist_ranks();
    w->failed = LL_OK;
    for (int i = 0, number = 0, B; i < w->n && !w->failed; i += B, number++) {
        if (!(B = next_batch(w, i))) return no_memory();
        if (number % ranks.size != ranks.rank) continue;
        const ll_status status = run_batch(w, w->order + i, B);
        if (status == LL_ESTOPPED) return 1;
        if (status && ranks.size == 1) return blame(w, w->order + i, B, status);
        w->failed = status;
        w->failed_at = number;
        if (ll_window_report(1, 1, w)) return 1;
        w->done += w->now;
    }
    return -1;
}

/* Then receives the results of the other ranks. A rank continues after a failure, which rank 0 reports in order. */
static int collect_all(ll_window *w) {
    const ll_ranks ranks = ll_dist_ranks();
    for (int i = 0, number = 0, B; i < w->n && ranks.size > 1; i += B, number++) {
        const int from = number % ranks.size;
        if (!(B = next_batch(w, i))) return no_memory();
        const int lacks = from == ranks.rank && w->failed && number >= w->failed_at;
        const ll_status status = lacks && !ranks.rank ? run_batch(w, w->order + i, B)
                                                      : hand_over(w, w->order + i, B, from, lacks ? w->failed : LL_OK);
        if (status == LL_EDIST) return ll_failed(status, NULL);
        if (status) return blame(w, w->order + i, B, status);
    }
    return -1;
}

static uint64_t sum_of(const ll_window *w) {
    uint64_t sum = (uint64_t)w->n;
    for (int i = 0; i < w->n; i++)
        for (int t = -1; t < w->item[i].n; t++)
            sum = (sum ^ (uint64_t)(t < 0 ? w->item[i].n : w->item[i].tokens[t])) * 1099511628211u;
    return sum;
}

/* Ranks that read other files would mix their answers. Rank 0 compares the tokens of the window. */
static int compare_ranks(const ll_window *w) {
    const ll_ranks ranks = ll_dist_ranks();
    const uint64_t mine = ranks.size > 1 ? sum_of(w) : 0;
    for (int from = 1; from < ranks.size; from++) {
        uint64_t sum = mine;
        const ll_status status = ll_dist_collect(&sum, sizeof sum, from);
        if (status) return ll_failed(status, NULL);
        if (sum == mine) continue;
        ll_print("rank %d reads other sequences than rank 0; give all machines the same files", from);
        return 2;
    }
    return -1;
}

static int run_all(ll_window *w) {
    size_t capacity = (size_t)w->order_capacity;
    const ll_item *last = &w->item[w->n - 1];
    if (!reserve((void **)&w->order, &capacity, (size_t)w->n, sizeof *w->order) ||
        !reserve((void **)&w->answers, &w->answers_capacity, last->at + last->size + 1, sizeof *w->answers))
        return no_memory();
    w->order_capacity = (int)capacity;
    for (int i = 0; i < w->n; i++) w->order[i] = i;
    sorted = w;
    qsort(w->order, (size_t)w->n, sizeof *w->order, by_length);
    w->done = 0;
    int code = compare_ranks(w);
    if (code < 0) code = run_own(w);
    return code >= 0 ? code : collect_all(w);
}

static void forget(ll_window *w) {
    for (int i = 0; i < w->n; i++) {
        free(w->item[i].id);
        free(w->item[i].file);
        free(w->item[i].label);
        free(w->item[i].tokens);
    }
    w->n = 0;
    w->tokens = 0;
}

void ll_window_answers(const ll_window *w) {
    if (!w->job->quiet && isatty(STDOUT_FILENO)) ll_line_break();
}

int ll_window_flush(ll_window *w) {
    if (!w->n) return -1;
    int code = run_all(w);
    const int shows = !ll_dist_ranks().rank;
    ll_window_answers(w);
    for (int i = 0; i < w->n && code < 0 && shows; i++) {
        w->item[i].answer = w->answers + w->item[i].at;
        code = w->job->show(&w->item[i]);
    }
    forget(w);
    return code < 0 && ll_stdout_flush() ? 1 : code; /* main prints why */
}

int ll_window_end(ll_window *w) {
    const int code = ll_window_flush(w);
    return code < 0 ? compare_ranks(w) : code;
}

void ll_window_free(ll_window *w) {
    forget(w);
    free(w->item);
    free(w->answers);
    free(w->out);
    free(w->batch);
    free(w->order);
}
