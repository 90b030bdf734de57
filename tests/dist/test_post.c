/* Messages between ranks, over a transport of this test. */
#include "test.h"

#include <stdatomic.h>
#include <time.h>

#include "base/memory.h"
#include "dist/dist.h"
#include "dist/launch.h"

enum { FIRST = LL_TAG_BUCKET, SECOND, ENDLESS, BROKEN, LARGE = 1 << 24 };

static atomic_int second_begun, looking, returned, early, stopped;

static int start(int *rank, int *size, char *host, int room) {
    *rank = 0, *size = 1;
    snprintf(host, (size_t)room, "here");
    return 0;
}

static int send_nothing(const void *data, int n, int to, int tag, ll_request *request) {
    (void)data, (void)n, (void)to, (void)tag, (void)request;
    return 1;
}

static int receive(void *data, int n, int from, int tag, ll_request *request) {
    (void)n, (void)from;
    request->word = data;
    *(int *)data = tag;
    if (tag == SECOND) second_begun = 1;
    return tag == BROKEN;
}

/* The first message arrives as soon as both are sent. In the same round the thread then tests the second one. Meanwhile
 * the owner of the first waits for it. */
static int test(ll_request *request, int *done) {
    *done = second_begun && *(int *)request->word != ENDLESS;
    if (*(int *)request->word != SECOND) return 0;
    looking = 1;
    for (int i = 0; i < 200 && !returned; i++) nanosleep(&(struct timespec){0, 1000000}, NULL);
    early = returned;
    return 0;
}

static void forget(ll_request *request) { (void)request; }
static void stop(void) { stopped = 1; }
static void abort_all(int code) { (void)code; }

static const ll_transport transport = {LL_TRANSPORT_ABI, "test", start, send_nothing, receive, test,
                                       forget,           stop,   abort_all};

/* Replaces launch.c. */
ll_status ll_launch(const ll_transport **out) {
    *out = &transport;
    return LL_OK;
}
int ll_launch_wait(void) { return 60; }
int ll_dist_launch_rank(void) { return 0; }

/* When the owner learns that a message is done, it may use the memory again. So the thread must have left the message
 * by then. */
static void a_message_is_done_when_it_has_left_the_list(void **state) {
    (void)state;
    ll_message first, second;
    int a, b;
    assert_int_equal(ll_dist_start(), LL_OK);
    ll_dist_receive(&first, &a, sizeof a, 0, FIRST);
    ll_dist_receive(&second, &b, sizeof b, 0, SECOND);
    while (!looking) nanosleep(&(struct timespec){0, 1000000}, NULL);
    assert_int_equal(ll_dist_wait(&first, 1), LL_OK);
    returned = 1;
    assert_int_equal(ll_dist_wait(&second, 1), LL_OK);
    assert_false(early);
}

/* After a failure MPI may still write what a receive has begun to get. */
static void memory_of_messages_that_failed_stays(void **state) {
    (void)state;
    static char *data;
    ll_message endless, broken;
    int a;
    assert_non_null(data = ll_alloc(LARGE, 1));
    ll_dist_receive(&endless, data, LARGE, 0, ENDLESS);
    ll_dist_receive(&broken, &a, sizeof a, 0, BROKEN);
    assert_int_equal(ll_dist_wait(&endless, 1), LL_EDIST);
    assert_int_equal(ll_dist_wait(&broken, 1), LL_EDIST);
    ll_free(data);
    memset(data, 1, LARGE);
    assert_int_equal(ll_dist_end(1, NULL), 1);
    assert_true(stopped);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_done_when_it_has_left_the_list),
        cmocka_unit_test(memory_of_messages_that_failed_stays), /* which ends the ranks */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
