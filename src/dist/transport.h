/* The functions of a plug-in: the part of MPI that this room needs. A plug-in is compiled against one MPI library and
 * needs no other header of longline. One thread makes all calls. Functions that return int return 0, or something else
 * if MPI reports an error. */
#ifndef LL_TRANSPORT_H
#define LL_TRANSPORT_H

enum { LL_TRANSPORT_ABI = 1, LL_TRANSPORT_ANY = -1 };

/* Space for a request of any MPI library: an integer or a pointer. */
typedef struct {
    void *word;
} ll_request;

typedef struct {
    int abi; /* LL_TRANSPORT_ABI */
    const char *library;
    /* This rank, the number of ranks, and the name of this machine. */
    int (*start)(int *rank, int *size, char *host, int capacity);
    /* Begin to send or receive n bytes, which must stay in place until the request is done. */
    int (*send)(const void *data, int n, int to, int tag, ll_request *request);
    int (*receive)(void *data, int n, int from, int tag, ll_request *request); /* from: may be LL_TRANSPORT_ANY */
    int (*test)(ll_request *request, int *done);
    void (*cancel)(ll_request *request); /* cancels a receive that nothing will answer */
    void (*stop)(void);                  /* waits until all ranks have called it */
    void (*abort)(int code);             /* ends all ranks and does not return; from any thread */
} ll_transport;

/* The only function that a plug-in exports. */
#define LL_TRANSPORT_ENTRY "ll_transport_entry"
__attribute__((visibility("default"))) const ll_transport *ll_transport_entry(void);

#endif
