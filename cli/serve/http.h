/* HTTP: where it listens, its connections, its page. */
#ifndef LL_HTTP_H
#define LL_HTTP_H

struct addrinfo;
struct sockaddr;
struct ll_serve_job;

/* Finds the address of --listen, which freeaddrinfo frees. -1, or the exit code. */
int ll_http_address(struct addrinfo **found);
int ll_http_is_loopback(const struct sockaddr *a);

/* ---- Connections: who is slow, and who is gone ---- */

typedef struct ll_connection ll_connection;
ll_connection *ll_connection_open(int fd);
void ll_connection_close(ll_connection *c); /* NULL is fine */
/* since: when it began to send a request, 0 where that is complete; job: what it waits for, or NULL, to be said before
 * the job is dropped. */
void ll_connection_set(ll_connection *c, double since, struct ll_serve_job *job);

/* ---- The page at / ---- */

extern const char ll_page[], ll_page_end[];
/* The Content-Security-Policy of the page, to be freed. */
char *ll_page_policy(void);

#endif
