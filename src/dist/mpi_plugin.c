/* The plug-in: implements transport.h with MPI. It is compiled once for each MPI library; launch.c opens it. */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dist/transport.h"

_Static_assert(sizeof(MPI_Request) <= sizeof(ll_request), "a request does not fit");

static MPI_Comm world = MPI_COMM_NULL; /* a copy, whose messages do not mix with others of the program */

static MPI_Request unpack(const ll_request *from) {
    MPI_Request request;
    memcpy(&request, from, sizeof request);
    return request;
}

static void pack(ll_request *to, MPI_Request request) {
    memcpy(to, &request, sizeof request);
}

static int start(int *rank, int *size, char *host, int capacity) {
    char name[MPI_MAX_PROCESSOR_NAME];
    int length = 0, given;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given)) return 1;
    if (MPI_Comm_dup(MPI_COMM_WORLD, &world) || MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN)) return 1;
    if (MPI_Comm_rank(world, rank) || MPI_Comm_size(world, size) || MPI_Get_processor_name(name, &length)) return 1;
    snprintf(host, (size_t)capacity, "%.*s", length, name);
    return 0;
}

static int send_bytes(const void *data, int n, int to, int tag, ll_request *request) {
    MPI_Request r = MPI_REQUEST_NULL;
    const int error = MPI_Isend(data, n, MPI_BYTE, to, tag, world, &r);
    pack(request, r);
    return error;
}

static int receive_bytes(void *data, int n, int from, int tag, ll_request *request) {
    MPI_Request r = MPI_REQUEST_NULL;
    const int error = MPI_Irecv(data, n, MPI_BYTE, from == LL_TRANSPORT_ANY ? MPI_ANY_SOURCE : from, tag, world, &r);
    pack(request, r);
    return error;
}

static int test(ll_request *request, int *done) {
    MPI_Request r = unpack(request);
    const int error = MPI_Test(&r, done, MPI_STATUS_IGNORE);
    pack(request, r);
    return error;
}

static void cancel(ll_request *request) {
    MPI_Request r = unpack(request);
    if (r == MPI_REQUEST_NULL) return;
    MPI_Cancel(&r);
    MPI_Request_free(&r);
}

/* MPI_Finalize of MPICH before 4.2 over UCX closes each connection, which needs an answer of the peer. Then it waits
 * in a barrier of the launcher, where it answers nobody (pmodels/mpich, pull request 6596). Suppose that rank A ends
 * while B is in another call of MPI. B answers from that call, and A goes on to the barrier. When B ends, nobody
 * answers it, and it waits for ever. So all ranks pause before MPI_Finalize. They have agreed to end by then, and the
 * pause is longer than the agreement takes to arrive at all of them. */
static void be_quiet(void) {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
    enum { QUIET = 200 * 1000 * 1000 /* ns */ };
    nanosleep(&(struct timespec){0, QUIET}, NULL);
#endif
}

static void stop(void) {
    int size = 1;
    MPI_Comm_size(world, &size);
    MPI_Comm_free(&world);
    if (size > 1) be_quiet();
    MPI_Finalize();
}

static void abort_all(int code) {
    signal(SIGALRM, SIG_DFL);
    alarm(5); /* MPI may hang */
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}

const ll_transport *ll_transport_entry(void) {
    static const ll_transport transport = {
        .abi = LL_TRANSPORT_ABI,
#ifdef OMPI_MAJOR_VERSION
        .library = "Open MPI",
#else
        .library = "MPICH",
#endif
        .start = start,
        .send = send_bytes,
        .receive = receive_bytes,
        .test = test,
        .cancel = cancel,
        .stop = stop,
        .abort = abort_all,
    };
    return &transport;
}
