/* What a plug-in gives to the room: the least of MPI that it needs. A plug-in is compiled against one MPI library and
 * needs nothing of longline but this header. All functions are called by one thread; those that return int give 0, or
 * anything else where MPI reports an error. */
#ifndef LL_TRANSPORT_H
#define LL_TRANSPORT_H

enum { LL_TRANSPORT_ABI = 1, LL_TRANSPORT_ANY = -1 };

/* Room for a request of any MPI library: an integer or a pointer. */
typedef struct {
    void *word;
} ll_request;

typedef struct {
    int abi; /* LL_TRANSPORT_ABI */
    const char *library;
    /* This rank, the number of all, and the name of its machine. */
    int (*start)(int *rank, int *size, char *host, int room);
    /* Begin to send or receive n bytes, which stay in use until the request is done. */
    int (*send)(const void *data, int n, int to, int tag, ll_request *request);
    int (*receive)(void *data, int n, int from, int tag, ll_request *request); /* from: may be LL_TRANSPORT_ANY */
    int (*test)(ll_request *request, int *done);
    void (*forget)(ll_request *request); /* of a receive that nothing will answer */
    void (*stop)(void);                  /* waits for all ranks to come here */
    void (*abort)(int code);             /* ends all ranks and does not return; from any thread */
} ll_transport;

/* The one function that a plug-in exports. */
#define LL_TRANSPORT_ENTRY "ll_transport_entry"
__attribute__((visibility("default"))) const ll_transport *ll_transport_entry(void);

#endif
