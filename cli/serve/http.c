/* HTTP by libmicrohttpd: one thread that polls all connections. A request becomes a job, and its connection is
 * suspended until the engine has something for it. Size and time of what a client sends are limited before it is
 * parsed. */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/api_keys.h"
#include "serve/http.h"
#include "serve/job.h"
#include "serve/reply.h"
#include "serve/serve_metrics.h"
#include "serve/serve_threads.h"

static struct MHD_Daemon *daemon_;
static atomic_int draining, exchanges;
static int loopback;
static MHD_socket listening = MHD_INVALID_SOCKET; /* set when it accepts no more */

static void on_connection(void *arg, struct MHD_Connection *c, void **own, enum MHD_ConnectionNotificationCode what) {
    (void)arg;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *own = ll_connection_open(MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    } else {
        ll_connection_close(*own);
        *own = NULL;
    }
}

static void set_state(struct MHD_Connection *c, double since, ll_serve_job *job) {
    ll_connection_set(MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context, since, job);
}

/* ---- One request ---- */

typedef struct {
    char method[12], path[200];
    char session[LL_SESSION_ID];
    ll_ask ask;
    int open; /* it asks for no key; its body is not stored */
    int key, status, answered;
    ll_buffer body;
    ll_refusal why;
    const char *allow; /* the methods of the path, where it has not this one */
    ll_serve_job *job;
    double start;
} exchange;

/* 0 where there is no memory. The connection is then closed: an answer never lacks a header. */
static int add_header(struct MHD_Response *r, const char *name, const char *value) {
    return MHD_add_response_header(r, name, value) == MHD_YES;
}

static enum MHD_Result send_response(struct MHD_Connection *c, exchange *x, struct MHD_Response *r, int status,
                                     const char *type) {
    if (!r) return MHD_NO;
    const int closes = status == 413 || atomic_load(&draining);
    const int complete = add_header(r, "Content-Type", type) && add_header(r, "X-Content-Type-Options", "nosniff") &&
                         add_header(r, "Cache-Control", "no-store") &&
                         ((status != 429 && status != 503) || add_header(r, "Retry-After", "1")) &&
                         (status != 401 || add_header(r, "WWW-Authenticate", "Bearer")) &&
                         (!x->allow || add_header(r, "Allow", x->allow)) &&
                         (!closes || add_header(r, "Connection", "close"));
    x->status = status;
    x->answered = 1;
    const enum MHD_Result result = complete ? MHD_queue_response(c, (unsigned)status, r) : MHD_NO;
    MHD_destroy_response(r);
    return result;
}

/* Sends a text from malloc, which the response frees. */
static enum MHD_Result send_text(struct MHD_Connection *c, exchange *x, int status, const char *type, char *text) {
    if (!text) return MHD_NO;
    return send_response(c, x, MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE), status,
                         type);
}

static enum MHD_Result send_refusal(struct MHD_Connection *c, exchange *x, const ll_refusal *why) {
    x->allow = why->allow;
    return send_text(c, x, why->status, "application/json", ll_refusal_text(why));
}

static enum MHD_Result send_page(struct MHD_Connection *c, exchange *x) {
    struct MHD_Response *r = MHD_create_response_from_buffer((size_t)(ll_page_end - ll_page), (void *)ll_page,
                                                             MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    char *policy = ll_page_policy();
    const int strict =
        add_header(r, "Content-Security-Policy", policy) && add_header(r, "Referrer-Policy", "no-referrer");
    free(policy);
    if (strict) return send_response(c, x, r, 200, "text/html; charset=utf-8");
    MHD_destroy_response(r);
    return MHD_NO;
}

/* ---- Suspended connections ---- */

static void resume(void *arg) { MHD_resume_connection(arg); }

/* The caller holds the job's lock. */
static void suspend(struct MHD_Connection *c, ll_serve_job *job) {
    job->asleep = 1;
    job->wake = resume;
    job->arg = c;
    MHD_suspend_connection(c);
}

typedef struct {
    struct MHD_Connection *connection;
    exchange *x;
} reader;

/* Copies the next bytes of a stream of events. */
static ssize_t read_events(void *arg, uint64_t at, char *to, size_t most) {
    const reader *r = arg;
    ll_serve_job *job = r->x->job;
    (void)at;
    pthread_mutex_lock(&job->lock);
    ssize_t result = (ssize_t)ll_job_read(job, to, most);
    if (!result && job->done)
        result = MHD_CONTENT_READER_END_OF_STREAM;
    else if (!result)
        suspend(r->connection, job);
    pthread_mutex_unlock(&job->lock);
    return result;
}

static enum MHD_Result send_events(struct MHD_Connection *c, exchange *x) {
    reader *r = ll_serve_alloc(1, sizeof *r);
    *r = (reader){c, x};
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_events, r, free);
    if (response) (void)add_header(response, "X-Accel-Buffering", "no"); /* nginx forwards each event at once */
    return send_response(c, x, response, 200, "text/event-stream");
}

/* Sends the answer of a job, or suspends the connection until there is one. */
static enum MHD_Result answer(struct MHD_Connection *c, exchange *x) {
    ll_serve_job *job = x->job;
    pthread_mutex_lock(&job->lock);
    const int status = job->status, done = job->done, events = status == 200 && job->request.stream;
    if (!status || (!events && !done)) suspend(c, job);
    pthread_mutex_unlock(&job->lock);
    if (!status || (!events && !done)) return MHD_YES;
    if (events) return send_events(c, x);
    char *text = strndup(job->out.data, job->out.size); /* the job is done, so nothing writes to it */
    return send_text(c, x, status, "application/json", text);
}

/* ---- Headers and paths ---- */

static const char *header(struct MHD_Connection *c, const char *name) {
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* Against DNS rebinding: a web page of another site must not reach a local server without keys by a name that the
 * site's owner points to 127.0.0.1. */
static int host_is_local(struct MHD_Connection *c) {
    const char *host = header(c, "Host");
    char name[80];
    unsigned char address[16];
    if (!loopback || ll_serve.keys || !host) return 1;
    const size_t n = *host == '[' ? strcspn(host, "]") : strcspn(host, ":"), skip = *host == '[';
    if (n < skip || n - skip >= sizeof name) return 0;
    memcpy(name, host + skip, n - skip);
    name[n - skip] = 0;
    return !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, address) == 1 ||
           inet_pton(AF_INET6, name, address) == 1;
}

static enum MHD_Result count_length(void *lengths, enum MHD_ValueKind kind, const char *name, const char *value) {
    (void)kind, (void)value;
    *(int *)lengths += !strcasecmp(name, "Content-Length") || !strcasecmp(name, "Transfer-Encoding");
    return MHD_YES;
}

/* A proxy in front may go by another length than this server, and take a body for the next request (RFC 9112, 6.3). */
static int check_length(struct MHD_Connection *c, exchange *x) {
    int lengths = 0;
    MHD_get_connection_values(c, MHD_HEADER_KIND, count_length, &lengths);
    return lengths < 2 ? 0 : ll_refuse(&x->why, 400, "", "more than one header gives the length of the body");
}

/* Probes of a server's health may use any name. */
static int check_host(struct MHD_Connection *c, exchange *x) {
    if (!strcmp(x->path, "/health") || host_is_local(c)) return 0;
    return ll_refuse(&x->why, 403, "", "this server is for this machine; its name is localhost");
}

static int check_headers(struct MHD_Connection *c, exchange *x) {
    const char *length = header(c, "Content-Length"), *type = header(c, "Content-Type");
    if (!ll_serve_has_reserve()) return ll_refuse_memory(&x->why);
    if ((x->key = ll_keys_find(header(c, "Authorization"))) < 0) {
        x->why.code = "invalid_api_key";
        return ll_refuse(&x->why, 401, "", "the header 'Authorization: Bearer KEY' has no key that is known here");
    }
    if (length && strtoull(length, NULL, 10) > (unsigned long long)ll_serve.body)
        return ll_refuse(&x->why, 413, "", "the body has %.20s bytes; this server takes at most %lld", length,
                         (long long)ll_serve.body);
    /* A page of another site can send no such type unasked. Its browser names it in Origin. */
    if (!strcmp(x->method, "POST") && (!type || strncasecmp(type, "application/json", 16)) &&
        (type || (length && strcmp(length, "0")) || header(c, "Transfer-Encoding") || header(c, "Origin")))
        return ll_refuse(&x->why, 415, "", "the body must be JSON, with 'Content-Type: application/json'");
    return 0;
}

static int is_get(const exchange *x) { return !strcmp(x->method, "GET") || !strcmp(x->method, "HEAD"); }

/* Answers requests that need no engine. Returns 1 if this was one. */
static int answer_at_once(struct MHD_Connection *c, exchange *x, enum MHD_Result *result) {
    ll_refusal why = {0};
    if (!is_get(x)) return 0;
    if (!strcmp(x->path, "/")) return *result = send_page(c, x), 1;
    if (!strcmp(x->path, "/health")) {
        *result = send_text(c, x, atomic_load(&draining) ? 503 : 200, "application/json",
                            strdup(atomic_load(&draining) ? "{\"status\":\"ending\"}" : "{\"status\":\"ok\"}"));
        return 1;
    }
    if (!strcmp(x->path, "/metrics"))
        return *result = send_text(c, x, 200, "text/plain; version=0.0.4", ll_metrics_text()), 1;
    if (strncmp(x->path, "/v1/models", 10) != 0 || (x->path[10] && x->path[10] != '/')) return 0;
    json_t *models = ll_reply_models(x->path[10] ? x->path + 11 : "", &why);
    if (!models) return *result = send_refusal(c, x, &why), 1;
    *result = send_text(c, x, 200, "application/json", json_dumps(models, JSON_COMPACT));
    json_decref(models);
    return 1;
}

/* The body is complete: makes a job of it. */
static enum MHD_Result submit(struct MHD_Connection *c, exchange *x) {
    ll_refusal why = {0};
    if (atomic_load(&draining)) return ll_refuse(&why, 503, "", "the server is going down"), send_refusal(c, x, &why);
    if (!ll_serve_has_reserve()) return ll_refuse_memory(&why), send_refusal(c, x, &why);
    x->job = ll_job_create(x->ask, x->session, x->key, &x->body);
    if (ll_job_submit(x->job, &why)) return send_refusal(c, x, &why);
    set_state(c, 0, x->job);
    return answer(c, x);
}

static exchange *begin_exchange(const char *method, const char *path) {
    exchange *x = ll_serve_alloc(1, sizeof *x);
    snprintf(x->method, sizeof x->method, "%s", method);
    snprintf(x->path, sizeof x->path, "%s", path);
    x->start = ll_now();
    atomic_fetch_add(&exchanges, 1);
    return x;
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *c, const char *path, const char *method,
                              const char *version, const char *data, size_t *size, void **own) {
    exchange *x = *own;
    enum MHD_Result result;
    (void)arg, (void)version;
    if (!x) { /* the headers are complete; a request with wrong ones is refused before its body arrives */
        x = *own = begin_exchange(method, path);
        x->open = is_get(x) && (!strcmp(path, "/health") || !strcmp(path, "/"));
        if (check_length(c, x) || check_host(c, x) || (!x->open && check_headers(c, x)))
            return send_refusal(c, x, &x->why);
        return MHD_YES;
    }
    if (x->answered) return MHD_YES;
    if (*size) {
        if (!ll_serve_has_reserve()) {
            if (!x->why.status) ll_refuse_memory(&x->why);
        } else if (x->body.size + *size > (size_t)ll_serve.body) {
            if (!x->why.status)
                ll_refuse(&x->why, 413, "", "the body has more than the %lld bytes that this server takes",
                          (long long)ll_serve.body);
        } else if (!x->open) {
            ll_buffer_add(&x->body, data, *size);
        }
        *size = 0;
        return MHD_YES;
    }
    set_state(c, 0, x->job);
    if (x->job) return answer(c, x);
    if (x->why.status) return send_refusal(c, x, &x->why);
    if (answer_at_once(c, x, &result)) return result;
    x->ask = ll_request_route(method, path, x->session, &x->why);
    return x->ask ? submit(c, x) : send_refusal(c, x, &x->why);
}

/* Why an answer was not sent to its end, for the log. NULL: it was. */
static const char *cut_by(enum MHD_RequestTerminationCode why) {
    if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK) return NULL;
    if (why == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED) return "timeout";
    return why == MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN ? "shutdown" : "client";
}

static void on_end(void *arg, struct MHD_Connection *c, void **own, enum MHD_RequestTerminationCode why) {
    exchange *x = *own;
    (void)arg;
    if (!x) return;
    const double seconds = ll_now() - x->start;
    const char *cut = x->answered ? cut_by(why) : NULL;
    set_state(c, ll_now(), NULL);
    if (x->job) {
        pthread_mutex_lock(&x->job->lock);
        if (!cut && x->job->failed) cut = x->job->gone ? "client" : "error";
        x->job->gone = 1;
        x->job->asleep = 0;
        pthread_mutex_unlock(&x->job->lock);
        ll_time(LL_TIME_REQUEST, seconds);
    }
    ll_count_request(x->answered ? x->status : 499);
    ll_log_request(x->method, x->path, x->answered ? x->status : 499, cut, x->job, seconds);
    ll_job_drop(x->job);
    ll_buffer_free(&x->body);
    free(x);
    *own = NULL;
    atomic_fetch_sub(&exchanges, 1);
}

/* ---- The server ---- */

/* MHD's own messages are about what clients do. They are not logged. */
static void no_message(void *arg, const char *format, va_list values) { (void)arg, (void)format, (void)values; }

/* A path with a NUL would end there. It stays as it is, and is no path of this server. */
static size_t unescape(void *arg, struct MHD_Connection *connection, char *text) {
    (void)arg, (void)connection;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

/* While a request is received, connections.c applies --idle. libmicrohttpd's own timeout is for what is sent. */
int ll_http_start(void) {
    struct addrinfo *address = NULL;
    int code = ll_http_address(&address);
    if (code >= 0) return code;
    const int is_ipv6 = address->ai_family == AF_INET6;
    loopback = ll_http_is_loopback(address->ai_addr);
    daemon_ = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (is_ipv6 ? MHD_USE_IPv6 : 0u), 0,
        NULL, NULL, handle, NULL, MHD_OPTION_EXTERNAL_LOGGER, no_message, NULL, MHD_OPTION_SOCK_ADDR, address->ai_addr,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)ll_serve.connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)ll_serve.send, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_LISTEN_BACKLOG_SIZE, 512u,
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
        MHD_OPTION_END); /* without reuse of its address: two servers would share its requests out at random */
    freeaddrinfo(address);
    if (!daemon_) {
        const char *reason = strerror(errno);
        if (errno == ENOMEM || errno == EAGAIN || errno == EMFILE || errno == ENFILE)
            return ll_fail_message("cannot serve at %s: %s", ll_serve.listen, reason);
        return ll_usage("--listen %s: the address cannot be used: %s", ll_serve.listen, reason);
    }
    if (!loopback && !ll_serve.keys)
        ll_print("anybody who reaches %s may use this server; --api-keys FILE asks for keys", ll_serve.listen);
    const union MHD_DaemonInfo *port = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
    const char *colon = strrchr(ll_serve.listen, ':');
    ll_print("listening on http://%.*s:%u", (int)(colon - ll_serve.listen), ll_serve.listen, port->port);
    return -1;
}

/* The thread of HTTP may still use the socket. So it stops listening now, and is closed when the thread has ended. */
void ll_http_drain(void) {
    atomic_store(&draining, 1);
    listening = MHD_quiesce_daemon(daemon_);
    if (listening != MHD_INVALID_SOCKET) shutdown(listening, SHUT_RDWR);
}

/* First waits for up to five seconds, so that clients receive answers that are ready. */
void ll_http_stop(void) {
    const double end = ll_now() + 5;
    while (atomic_load(&exchanges) && ll_now() < end) usleep(10000);
    MHD_stop_daemon(daemon_);
    if (listening != MHD_INVALID_SOCKET) close(listening);
}
