/* Measures what messages cost, and simulates training steps: messages are real, and a pause stands for computation. */
#include <time.h>

#include "base/integer.h"
#include "base/memory.h"
#include "dist/exchange.h"
#include "longline-dist.h"

/* ---- Messages ---- */

static ll_status move_all(ll_message *m, char *data, size_t n, int count, int peer, int sends) {
    for (int i = 0; i < count; i++) {
        if (sends)
            ll_dist_send(&m[i], data, n, peer, LL_TAG_PING);
        else
            ll_dist_receive(&m[i], data + (size_t)i * n, n, peer, LL_TAG_PING);
    }
    return ll_dist_wait(m, count);
}

/* The first round is not counted, because connections are made in it. */
static ll_status ping(char *data, ll_message *m, size_t n, int count, int repeats, double *seconds) {
    const ll_group all = ll_group_all();
    const int peer = all.me ? 0 : all.count - 1;
    ll_status status = LL_OK;
    double start = 0;
    for (int i = -1; i < repeats && !status; i++) {
        if (i == 0) start = ll_now();
        status = move_all(m, data, n, count, peer, !all.me);
        if (!status) status = move_all(m, data, n, count, peer, all.me);
    }
    *seconds = (ll_now() - start) / (2.0 * repeats);
    return status;
}

ll_status ll_dist_ping(size_t n, int count, int repeats, double *seconds) {
    const ll_group all = ll_group_all();
    *seconds = 0;
    if (all.count == 1) return ll_fail(LL_EINVAL, "one rank has nobody to send messages to; start two or more");
    if (count < 1 || repeats < 1)
        return ll_fail(LL_EINVAL, "%d messages, %d times, cannot be timed; ask for at least 1", count, repeats);
    if (all.me && all.me + 1 < all.count) return LL_OK;
    char *data = ll_alloc((size_t)count, n ? n : 1);
    ll_message *m = ll_alloc((size_t)count, sizeof *m);
    const ll_status status = data && m ? ping(data, m, n, count, repeats, seconds) : LL_ENOMEM;
    ll_free(data);
    ll_free(m);
    return status;
}

/* ---- Simulated steps ---- */

static ll_status create(ll_exchange **exchange, const ll_simulated_step *r) {
    const ll_group all = ll_group_all();
    const size_t pieces = ll_ceil_div_size(r->parameters, LL_PIECE_FLOATS);
    int *first = ll_alloc((size_t)all.count * 2, sizeof *first);
    size_t *bound = ll_alloc(pieces + 1, sizeof *bound);
    ll_status status = first && bound ? LL_OK : LL_ENOMEM;
    for (int i = 0; i < all.count && !status; i++) first[i] = i, first[all.count + i] = 1;
    for (size_t p = 0; p <= pieces && !status; p++) bound[p] = p < pieces ? p * LL_PIECE_FLOATS : r->parameters;
    if (!status) {
        const ll_exchange_plan plan = {all.count, first, first + all.count, pieces, bound, 0, 1};
        status = ll_exchange_create(exchange, &plan);
    }
    ll_free(first);
    ll_free(bound);
    return status;
}

static void sleep_until(double when) {
    const time_t whole = (time_t)when;
    const struct timespec t = {whole, (long)(1e9 * (when - (double)whole))};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL)) continue;
}

/* Backward takes twice as long as forward and completes the layers one by one. sums (count): stands for the numbers
 * that ranks add in each step, for the norm of the gradient and the losses. */
static ll_status make_step(ll_exchange *x, const ll_simulated_step *r, double *sums, size_t count) {
    const ll_group all = ll_group_all();
    const double start = ll_now();
    size_t done = r->parameters;
    ll_exchange_begin(x);
    ll_exchange_leaf(x, 0);
    for (int i = r->layers; i-- > 0;) {
        const double left = (double)i / r->layers;
        const size_t from = i ? (size_t)(left * (double)r->parameters) : 0;
        if (r->compute > 0) sleep_until(start + r->compute * (1 - 2 * left / 3));
        ll_exchange_ready(x, from, done);
        done = from;
    }
    ll_exchange_added(x);
    ll_status status = ll_exchange_reduce_scatter(x);
    if (!status) status = ll_group_all_reduce(&all, sums, count);
    return status ? status : ll_exchange_all_gather(x, ll_exchange_block(x));
}

/* The first step is not counted, because connections are made in it. Each step has a sum over all ranks, so that no
 * rank gets ahead of the others. */
static ll_status make_steps(ll_exchange *x, const ll_simulated_step *r, int steps, double *seconds, double *sums,
                            size_t count) {
    const ll_group all = ll_group_all();
    ll_status status = LL_OK;
    for (int i = -1; i < steps && !status; i++) {
        const double start = ll_now();
        status = make_step(x, r, sums, count);
        if (i >= 0) seconds[i] = ll_now() - start;
    }
    return status ? status : ll_group_broadcast(&all, seconds, (size_t)steps * sizeof *seconds, 0);
}

ll_status ll_dist_simulate(const ll_simulated_step *r, int steps, double *seconds) {
    const ll_group all = ll_group_all();
    if (!r->parameters || r->layers < 1 || !(r->compute >= 0) || steps < 1)
        return ll_fail(LL_EINVAL, "a simulated step needs parameters, layers, seconds of computation and steps");
    ll_exchange *x = NULL;
    const size_t count = ll_step_sums(all.count, ll_ceil_div_size(r->parameters, LL_PIECE_FLOATS));
    double *sums = ll_alloc(count, sizeof *sums);
    ll_status status = sums ? create(&x, r) : LL_ENOMEM;
    status = ll_group_agree(&all, status);
    if (!status) status = make_steps(x, r, steps, seconds, sums, count);
    ll_exchange_free(x);
    ll_free(sums);
    return status;
}
