/* Downloads by libcurl. */
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sets/fetch.h"

enum { PATIENCE = 60 /* seconds without a byte */ };

typedef struct {
    ll_partial *part;
    CURL *curl;
    int64_t asked; /* bytes of the part when this transfer began */
    int begun;
    ll_status status;     /* of writing what comes */
    int other;            /* the server has another file, or a shorter one: start again */
    int64_t first, total; /* of the answer's Content-Range; -1: none */
    char tag[LL_VERSION_TEXT], date[LL_VERSION_TEXT];
    ll_done_fn *progress;
    void *arg;
} transfer;

/* ---- Headers ---- */

/* The value of header `name` in a line of n bytes: 1; or 0 if it is another header, or too long. */
static int take_value(const char *line, size_t n, const char *name, char value[LL_VERSION_TEXT]) {
    const size_t length = strlen(name);
    if (n <= length || strncasecmp(line, name, length) || line[length] != ':') return 0;
    for (line += length + 1, n -= length + 1; n && (*line == ' ' || *line == '\t');) line++, n--;
    while (n && strchr("\r\n \t", line[n - 1])) n--;
    if (n >= LL_VERSION_TEXT) return 0;
    memcpy(value, line, n);
    value[n] = 0;
    return 1;
}

/* Is called for every header line of every answer. Those of redirects are forgotten. */
static size_t take_header(char *line, size_t size, size_t count, void *arg) {
    transfer *t = arg;
    const size_t n = size * count;
    char range[LL_VERSION_TEXT];
    if (n > 5 && !strncmp(line, "HTTP/", 5)) {
        t->tag[0] = t->date[0] = 0;
        t->first = t->total = -1;
    }
    take_value(line, n, "ETag", t->tag);
    take_value(line, n, "Last-Modified", t->date);
    if (take_value(line, n, "Content-Range", range)) { /* "bytes 100-199/200", or with a star for the range */
        const char *slash = strchr(range, '/');
        if (!strncmp(range, "bytes ", 6) && range[6] != '*') t->first = strtoll(range + 6, NULL, 10);
        if (slash && slash[1] != '*') t->total = strtoll(slash + 1, NULL, 10);
    }
    return n;
}

/* A weak tag ("W/...") marks files that are equivalent, but not equal byte for byte. */
static const char *version_of(const transfer *t) { return t->tag[0] && strncmp(t->tag, "W/", 2) ? t->tag : t->date; }

/* ---- The file ---- */

/* Is called before the first byte. A server without ranges, or with another version, sends the whole file; then the
 * part is emptied. A rest must begin where the part ends and have the same version, even if the server ignored
 * If-Range. */
static int begin(transfer *t) {
    long code = 0;
    const char *version = version_of(t), *before = t->part->version;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    t->begun = 1;
    if (code == 206 && t->asked > 0) {
        const char *now = *before == '"' ? t->tag : t->date; /* a rest may come without its date */
        t->other = t->first != t->asked || (*before && *now && strcmp(now, before));
        return !t->other;
    }
    if (code != 200) return 1;
    t->asked = 0;
    t->status = ll_partial_begin(t->part, version);
    return !t->status;
}

static size_t take(char *data, size_t size, size_t count, void *arg) {
    transfer *t = arg;
    if (!t->begun && !begin(t)) return 0;
    const size_t n = fwrite(data, size, count, t->part->file);
    t->part->bytes += (int64_t)(n * size);
    if (n < count)
        t->status = ll_fail(LL_EIO, "cannot write the download from %s: %s", t->part->url, strerror(errno));
    return n * size;
}

static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up, curl_off_t uploaded) {
    transfer *t = arg;
    (void)up, (void)uploaded;
    return t->progress ? t->progress(t->asked + now, total > 0 ? t->asked + total : 0, t->arg) : 0;
}

static void set_options(transfer *t) {
    CURL *c = t->curl;
    curl_easy_setopt(c, CURLOPT_URL, t->part->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)PATIENCE);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
}

/* Requests the rest if it has the same version; else the server sends the whole file (RFC 9110, 13.1.5). */
static CURLcode perform(transfer *t) {
    char range[32], line[LL_VERSION_TEXT + 16];
    struct curl_slist *headers = NULL;
    set_options(t);
    if (t->asked > 0) {
        snprintf(range, sizeof range, "%lld-", (long long)t->asked);
        snprintf(line, sizeof line, "If-Range: %s", t->part->version);
        curl_easy_setopt(t->curl, CURLOPT_RANGE, range);
        if (t->part->version[0]) curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, headers = curl_slist_append(NULL, line));
    }
    const CURLcode code = curl_easy_perform(t->curl);
    curl_slist_free_all(headers);
    return code;
}

static ll_status explain(transfer *t, CURLcode code) {
    const char *url = t->part->url;
    long answer = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &answer);
    /* There is nothing after the end: the part is complete, or longer than the file. */
    if (code == CURLE_HTTP_RETURNED_ERROR && answer == 416 && t->asked > 0) {
        t->other = t->total >= 0 && t->total != t->asked;
        return LL_OK;
    }
    if (t->other) return LL_OK;
    if (code == CURLE_OK) return t->begun || answer != 200 ? LL_OK : ll_partial_begin(t->part, ""); /* an empty file */
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return ll_fail(LL_ESTOPPED, "stopped; what came of %s is kept, and the next download continues it", url);
    if (t->status) return t->status;
    if (code == CURLE_HTTP_RETURNED_ERROR) return ll_fail(LL_EIO, "%s: the server answers %ld", url, answer);
    if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_PROXY)
        return ll_fail(LL_EIO, "cannot reach %s (%s); check the network, or download it by other means", url,
                       curl_easy_strerror(code));
    if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT)
        return ll_fail(LL_EINVAL, "%s: needs an address that begins with http:// or https://", url);
    return ll_fail(LL_EIO, "%s: %s%s", url, curl_easy_strerror(code),
                   t->part->bytes ? "; what came is kept; the next download continues it" : "; nothing came");
}

static ll_status transfer_once(transfer *t) {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(t->curl = curl_easy_init()))
        return ll_fail(LL_ENOMEM, "no memory to fetch %s", t->part->url);
    const ll_status status = explain(t, perform(t));
    curl_easy_cleanup(t->curl);
    return status;
}

ll_status ll_fetch_into(ll_partial *part, ll_done_fn *progress, void *arg) {
    transfer t = {.part = part, .asked = part->bytes, .progress = progress, .arg = arg};
    ll_status status = transfer_once(&t);
    if (status || !t.other) return status;
    t = (transfer){.part = part, .progress = progress, .arg = arg};
    status = ll_partial_begin(part, "");
    return status ? status : transfer_once(&t);
}
