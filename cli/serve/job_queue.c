/* The queues of jobs, one for each thread that takes them. They have one lock and one count, so that --queue bounds
 * what waits in all of them together. A job counts from when it is first added until its work begins or it is
 * refused. One that takes no place of the batch does not wait, and is not counted. */
#include "serve/job.h"
#include "serve/serve_metrics.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    pthread_cond_t more;
    ll_serve_job *first, *last;
    int closed;
} queue[LL_QUEUES] = {
    {.more = PTHREAD_COND_INITIALIZER}, {.more = PTHREAD_COND_INITIALIZER}, {.more = PTHREAD_COND_INITIALIZER}};
static int waiting;

/* The caller holds the lock. */
static void set_waiting(ll_serve_job *job, int waits) {
    waiting += waits - job->waits;
    job->waits = waits;
    ll_count_set(LL_COUNT_WAITING, waiting);
}

static void append(ll_job_queue which, ll_serve_job *job) {
    atomic_fetch_add(&job->references, 1);
    job->next = NULL;
    *(queue[which].first ? &queue[which].last->next : &queue[which].first) = job;
    queue[which].last = job;
    set_waiting(job, job->places > 0);
    pthread_cond_signal(&queue[which].more);
}

int ll_queue_add(ll_job_queue which, ll_serve_job *job, ll_refusal *why) {
    pthread_mutex_lock(&lock);
    const int closed = queue[which].closed, full = job->places && !job->waits && waiting >= ll_serve.queue;
    if (!closed && !full) append(which, job);
    pthread_mutex_unlock(&lock);
    if (closed) return ll_refuse(why, 503, "", "the server is going down");
    if (!full) return 0;
    ll_count(LL_COUNT_REJECTED, 1);
    return ll_refuse(why, 429, "", "too many requests wait; try again later");
}

static void unlink_job(ll_job_queue which, ll_serve_job *before, ll_serve_job *job) {
    *(before ? &before->next : &queue[which].first) = job->next;
    if (queue[which].last == job) queue[which].last = before;
}

/* The first job, or one that takes no place, which overtakes a first one that does not fit. */
static ll_serve_job *unlink_next(ll_job_queue which, int room) {
    ll_serve_job *before = NULL, *job = queue[which].first;
    if (job && job->places > room)
        for (; job && job->places; job = job->next) before = job;
    if (job) unlink_job(which, before, job);
    return job;
}

ll_serve_job *ll_queue_take(ll_job_queue which, int room, int wait) {
    ll_serve_job *job;
    pthread_mutex_lock(&lock);
    while (!(job = unlink_next(which, room)) && wait && !queue[which].closed)
        pthread_cond_wait(&queue[which].more, &lock);
    if (job && which != LL_TOKEN_QUEUE) set_waiting(job, 0);
    pthread_mutex_unlock(&lock);
    return job;
}

void ll_queue_leave(ll_serve_job *job) {
    pthread_mutex_lock(&lock);
    set_waiting(job, 0);
    pthread_mutex_unlock(&lock);
}

void ll_queues_drop_gone(void) {
    ll_serve_job *gone = NULL;
    pthread_mutex_lock(&lock);
    for (ll_job_queue q = 0; q < LL_QUEUES; q++)
        for (ll_serve_job *before = NULL, *job = queue[q].first, *next; job; job = next) {
            next = job->next;
            if (!ll_job_gone(job)) {
                before = job;
                continue;
            }
            unlink_job(q, before, job);
            set_waiting(job, 0);
            job->next = gone;
            gone = job;
        }
    pthread_mutex_unlock(&lock);
    for (ll_serve_job *job; (job = gone); ll_job_drop(job)) {
        gone = job->next;
        ll_job_refuse(job, &ll_client_gone);
    }
}

void ll_queue_close(ll_job_queue which) {
    pthread_mutex_lock(&lock);
    queue[which].closed = 1;
    pthread_cond_broadcast(&queue[which].more);
    pthread_mutex_unlock(&lock);
}
