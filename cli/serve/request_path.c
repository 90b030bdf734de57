/* The paths of requests. One table has what each method asks of them. */
#include "serve/request.h"

#include <string.h>

static const struct {
    const char *path;  /* "*" stands for a session; a "/" at the end, for any name behind it */
    const char *allow; /* the methods */
    ll_ask get, post, delete;
} routes[] = {
    {"/v1/completions", "POST", .post = LL_ASK_COMPLETION},
    {"/v1/chat/completions", "POST", .post = LL_ASK_CHAT},
    {"/v1/embeddings", "POST", .post = LL_ASK_EMBEDDING},
    {"/v1/score", "POST", .post = LL_ASK_SCORE},
    {"/v1/classify", "POST", .post = LL_ASK_CLASSIFY},
    {"/v1/attention", "POST", .post = LL_ASK_ATTENTION},
    {"/v1/sessions", "GET, POST", .get = LL_ASK_LIST, .post = LL_ASK_CREATE},
    {"/v1/sessions/*", "GET, DELETE", .get = LL_ASK_SHOW, .delete = LL_ASK_DELETE},
    {"/v1/sessions/*/append", "POST", .post = LL_ASK_APPEND},
    {"/v1/sessions/*/generate", "POST", .post = LL_ASK_GENERATE},
    {"/v1/sessions/*/fork", "POST", .post = LL_ASK_FORK},
    {"/v1/sessions/*/save", "POST", .post = LL_ASK_SAVE},
    {"/v1/sessions/*/restore", "POST", .post = LL_ASK_RESTORE},
    /* GET and HEAD of these are answered without a job. */
    {.path = "/", .allow = "GET, HEAD"},
    {.path = "/health", .allow = "GET, HEAD"},
    {.path = "/metrics", .allow = "GET, HEAD"},
    {.path = "/v1/models", .allow = "GET, HEAD"},
    {.path = "/v1/models/", .allow = "GET, HEAD"},
};

/* The length of a session at the beginning of a text, or 0. It is sess_ and 32 hexadecimal digits. Nothing else can
 * reach the table of sessions, or become the name of a file. */
static size_t session_length(const char *text) {
    const size_t digits = strncmp(text, "sess_", 5) ? 0 : strspn(text + 5, "0123456789abcdef");
    return digits == LL_SESSION_ID - 6 ? LL_SESSION_ID - 1 : 0;
}

static int matches(const char *pattern, const char *path, char session[LL_SESSION_ID]) {
    const char *star = strchr(pattern, '*');
    const size_t size = strlen(pattern), before = star ? (size_t)(star - pattern) : size;
    if (!star) return size > 1 && pattern[size - 1] == '/' ? !strncmp(pattern, path, size) : !strcmp(pattern, path);
    if (strncmp(pattern, path, before) != 0) return 0;
    const size_t length = session_length(path + before);
    if (!length || strcmp(star + 1, path + before + length) != 0) return 0;
    memcpy(session, path + before, length);
    session[length] = 0;
    return 1;
}

static int refuse_path(const char *path, ll_refusal *why) {
    static const char sessions[] = "/v1/sessions/";
    const size_t before = sizeof sessions - 1;
    if (strncmp(path, sessions, before) != 0)
        return ll_refuse(why, 404, "", "there is no such path; see /v1/models, /v1/completions, /health");
    const size_t length = session_length(path + before);
    if (length && path[before + length] == '/')
        return ll_refuse(why, 404, "", "sessions have no such path, but /append, /generate, /fork, /save, /restore");
    return ll_refuse(why, 404, "session", "there is no such session");
}

ll_ask ll_request_route(const char *method, const char *path, char session[LL_SESSION_ID], ll_refusal *why) {
    size_t i = 0;
    *session = 0;
    while (i < sizeof routes / sizeof *routes && !matches(routes[i].path, path, session)) i++;
    if (i == sizeof routes / sizeof *routes) return refuse_path(path, why), 0;
    const ll_ask ask = !strcmp(method, "GET")      ? routes[i].get
                       : !strcmp(method, "POST")   ? routes[i].post
                       : !strcmp(method, "DELETE") ? routes[i].delete
                                                   : 0;
    if (ask) return ask;
    ll_refuse(why, 405, "", "this path is not for %.20s; it takes %s", method, routes[i].allow);
    why->allow = routes[i].allow;
    return 0;
}
