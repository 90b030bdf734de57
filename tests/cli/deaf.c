/* A plug-in with faults while the file LL_DEAF_FILE exists. LL_DEAF_RANK receives no notice of any rank, and sends
 * as before: so does a queue in shared memory that a stopped rank blocks. LL_MUTE_RANK makes no call of MPI any more,
 * as one that is stopped, but between two messages. If LL_DEAF_RANK is "all", every rank is deaf and each of
 * its messages fails: so does a network that is gone. All else is done by the plug-in LL_DEAF_PLUGIN. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dist/transport.h"

static ll_transport own;
static const ll_transport *real;
static int rank;
static ll_request *from_any;

static int start(int *r, int *size, char *host, int capacity) {
    const int status = real->start(r, size, host, capacity);
    rank = *r;
    return status;
}

static int faulty(void) { return !access(getenv("LL_DEAF_FILE"), F_OK); }
static int all_deaf(void) { return !strcmp(getenv("LL_DEAF_RANK"), "all"); }

static int receive(void *data, int n, int from, int tag, ll_request *request) {
    if (from == LL_TRANSPORT_ANY) from_any = request;
    return real->receive(data, n, from, tag, request);
}

static int test(ll_request *request, int *done) {
    const int faults = faulty();
    while (faults && rank == atoi(getenv("LL_MUTE_RANK"))) pause();
    *done = 0;
    if (faults && all_deaf()) return request != from_any;
    if (faults && request == from_any && rank == atoi(getenv("LL_DEAF_RANK"))) return 0;
    return real->test(request, done);
}

const ll_transport *ll_transport_entry(void) {
    void *at = dlopen(getenv("LL_DEAF_PLUGIN"), RTLD_NOW | RTLD_GLOBAL);
    const ll_transport *(*entry)(void) = NULL;
    if (at) *(void **)&entry = dlsym(at, LL_TRANSPORT_ENTRY);
    if (!entry) return NULL;
    real = entry();
    own = *real;
    own.start = start, own.receive = receive, own.test = test;
    return &own;
}
