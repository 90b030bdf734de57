/* The state of this rank, and what any thread may ask about it. */
#include "dist/rank_state.h"

#include <errno.h>
#include <time.h>

ll_rank_state ll_rank = {.lock = PTHREAD_MUTEX_INITIALIZER,
                         .work = PTHREAD_COND_INITIALIZER,
                         .done = PTHREAD_COND_INITIALIZER,
                         .size = 1,
                         .posted_end = &ll_rank.posted,
                         .lost = -1,
                         .deaf = -1,
                         .timeout = 60};

int ll_rank_wait(const int *set, int seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    for (int late = 0; !*set && !late;)
        late = pthread_cond_timedwait(&ll_rank.done, &ll_rank.lock, &until) == ETIMEDOUT;
    return *set;
}

int ll_dist_is_launched(void) { return ll_rank.transport != NULL; }

ll_ranks ll_dist_ranks(void) {
    /* Before the ranks are joined, or if that failed, one message to the user suffices. */
    if (!ll_rank.transport) return (ll_ranks){0, 1, ll_dist_launch_rank() == 0};
    pthread_mutex_lock(&ll_rank.lock);
    int first = 0; /* that can print */
    while (first == ll_rank.lost || first == ll_rank.deaf) first++;
    const ll_ranks ranks = {ll_rank.rank, ll_rank.size, ll_rank.rank == first};
    pthread_mutex_unlock(&ll_rank.lock);
    return ranks;
}

ll_traffic ll_dist_traffic(void) {
    pthread_mutex_lock(&ll_rank.lock);
    const ll_traffic traffic = ll_rank.traffic;
    pthread_mutex_unlock(&ll_rank.lock);
    return traffic;
}

void ll_dist_set_timeout(double seconds) {
    pthread_mutex_lock(&ll_rank.lock);
    ll_rank.timeout = seconds;
    pthread_mutex_unlock(&ll_rank.lock);
}
