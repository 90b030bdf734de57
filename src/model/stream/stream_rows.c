/* Attention of rows that are tokens of several streams. All other layers treat rows alike, so one product has the rows
 * of all streams; here each stream has its own. Long streams run one after the other, and all threads share their
 * heads. Streams of a few tokens run side by side, one thread each. The bits do not depend on which. */
#include "model/stream/stream_rows.h"

#include <stdatomic.h>

#include "attention/attention_stream.h"

enum { FEW = 4 /* a stream of so many tokens, or fewer, is left to one thread */ };

typedef struct {
    const ll_batch_run *run;
    const ll_attention_call *call;
    int layer;
    atomic_int status; /* the first failure */
} job;

int64_t ll_stream_offset(const ll_stream_set *streams, size_t row) {
    int low = 0, high = streams->count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if ((size_t)streams->span[middle].first <= row) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return streams->span[low].position - streams->span[low].first;
}

static ll_view rows_from(ll_view view, int first) { return view.data ? ll_view_from(view, first) : view; }

static ll_status feed(const job *j, const ll_stream_rows *s, float *scratch, int workers) {
    const ll_attention_call *c = j->call;
    ll_attention_stream *stream = s->attention[j->layer];
    if (stream->lean) ll_attention_stream_lend(stream, scratch, workers);
    return ll_attention_stream_feed(stream, s->n, rows_from(c->q, s->first), rows_from(c->k, s->first),
                                    rows_from(c->v, s->first), rows_from(c->gate, s->first), rows_from(c->y, s->first));
}

static void feed_short(void *arg, size_t i, int worker) {
    job *j = arg;
    const ll_stream_set *set = j->run->streams;
    if (set->span[i].n > FEW) return;
    int none = LL_OK;
    const ll_status status = feed(j, &set->span[i], set->scratch + (size_t)worker * set->floats, 1);
    if (status) atomic_compare_exchange_strong(&j->status, &none, (int)status);
}

static ll_status self_attention(job *j) {
    const ll_stream_set *set = j->run->streams;
    ll_status status = LL_OK;
    int few = 0;
    for (int i = 0; i < set->count && !status; i++) { /* allocated here, so that a failure keeps its message */
        status = ll_attention_stream_reserve(set->span[i].attention[j->layer], set->span[i].n);
        few += set->span[i].n <= FEW;
    }
    const int beside = few > 1; /* of a batcher, which has scratch for each thread */
    for (int i = 0; i < set->count && !status; i++)
        if (!beside || set->span[i].n > FEW) status = feed(j, &set->span[i], set->scratch, set->workers);
    if (status || !beside) return status;
    ll_parallel_among(set->workers, (size_t)set->count, feed_short, j);
    return (ll_status)atomic_load(&j->status);
}

static ll_status cross_attention(const job *j) {
    const ll_stream_set *set = j->run->streams;
    ll_status status = LL_OK;
    for (int i = 0; i < set->count && !status; i++) {
        const ll_stream_rows *s = &set->span[i];
        status = ll_cross_cache_read(s->cache[j->layer], s->position, s->n, rows_from(j->call->q, s->first),
                                     rows_from(j->call->y, s->first));
    }
    return status;
}

ll_status ll_attend_streams(const ll_batch_run *run, int layer, int cross, const ll_attention_call *call) {
    job j = {.run = run, .call = call, .layer = layer};
    return cross ? cross_attention(&j) : self_attention(&j);
}
