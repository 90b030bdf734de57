/* Downloads by libcurl. */
#include <curl/curl.h>
#include <unistd.h>

#include "sets/fetch.h"

enum { PATIENCE = 60 /* seconds without a byte */ };

typedef struct {
    FILE *file;
    CURL *curl;
    int64_t from;
    int begun, failed;
    ll_done_fn *progress;
    void *arg;
} transfer;

/* A server that knows no ranges sends all of it: what is there goes. */
static size_t take(char *data, size_t size, size_t count, void *arg) {
    transfer *t = arg;
    long code = 0;
    if (!t->begun && t->from > 0 && curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code) == CURLE_OK &&
        code == 200) {
        t->from = 0;
        if (ftruncate(fileno(t->file), 0)) return 0;
    }
    t->begun = 1;
    const size_t n = fwrite(data, size, count, t->file);
    if (n < count) t->failed = 1;
    return n * size;
}

static int tell(void *arg, curl_off_t total, curl_off_t now, curl_off_t up, curl_off_t uploaded) {
    transfer *t = arg;
    (void)up, (void)uploaded;
    return t->progress ? t->progress(t->from + now, total > 0 ? t->from + total : 0, t->arg) : 0;
}

static CURLcode perform(transfer *t, const char *url, char *range, size_t size) {
    CURL *c = t->curl;
    snprintf(range, size, "%lld-", (long long)t->from);
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)PATIENCE);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, tell);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    if (t->from > 0) curl_easy_setopt(c, CURLOPT_RANGE, range);
    return curl_easy_perform(c);
}

static ll_status explain(const transfer *t, CURLcode code, const char *url) {
    long answer = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &answer);
    /* Nothing after the end: the part was whole. */
    if (code == CURLE_OK || (code == CURLE_HTTP_RETURNED_ERROR && answer == 416 && t->from > 0)) return LL_OK;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return ll_fail(LL_ESTOPPED, "stopped; what came of %s is kept, and gone on with the next time", url);
    if (t->failed) return ll_fail(LL_EIO, "cannot write what comes from %s; is the disk full?", url);
    if (code == CURLE_HTTP_RETURNED_ERROR) return ll_fail(LL_EIO, "%s: the server answers %ld", url, answer);
    if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_PROXY)
        return ll_fail(LL_EIO, "cannot reach %s (%s); is the network there? Else fetch it by other means", url,
                       curl_easy_strerror(code));
    return ll_fail(LL_EIO, "%s: %s; what came is kept, and gone on with the next time", url, curl_easy_strerror(code));
}

ll_status ll_fetch_into(FILE *file, const char *url, int64_t from, ll_done_fn *progress, void *arg) {
    char range[32];
    transfer t = {.file = file, .from = from, .progress = progress, .arg = arg};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(t.curl = curl_easy_init()))
        return ll_fail(LL_ENOMEM, "no memory to fetch %s", url);
    const ll_status status = explain(&t, perform(&t, url, range, sizeof range), url);
    curl_easy_cleanup(t.curl);
    return status;
}
