/* Metrics for Prometheus, and the log: a line of JSON for each request. Neither contains texts of requests or
 * answers. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve/api_keys.h"
#include "serve/job.h"
#include "serve/serve_metrics.h"

static const struct {
    const char *name, *type, *help;
} counters[LL_COUNTERS] = {
    [LL_COUNT_PROMPT_TOKENS] = {"prompt_tokens_total", "counter", "Tokens of prompts and inputs."},
    [LL_COUNT_TOKENS] = {"generated_tokens_total", "counter", "Tokens generated."},
    [LL_COUNT_STEPS] = {"steps_total", "counter", "Steps of the engine."},
    [LL_COUNT_ROWS] = {"step_rows_total", "counter", "Tokens that went through the network in steps."},
    [LL_COUNT_REJECTED] = {"rejected_total", "counter", "Requests refused because the queue was full."},
    [LL_COUNT_EVICTED] = {"sessions_evicted_total", "counter", "Sessions moved from memory to disk."},
    [LL_COUNT_ACTIVE] = {"active_choices", "gauge", "Choices that read or generate now."},
    [LL_COUNT_WAITING] = {"waiting_requests", "gauge", "Requests that wait for their turn."},
    [LL_COUNT_SESSIONS] = {"sessions", "gauge", "Sessions, in memory or on disk."},
    [LL_COUNT_RESIDENT] = {"resident_memory_bytes", "gauge", "Memory of the process."},
    [LL_COUNT_STATE_BYTES] = {"session_memory_bytes", "gauge", "Memory of sessions."},
    [LL_COUNT_DISK_BYTES] = {"session_disk_bytes", "gauge", "Files of sessions."},
    [LL_COUNT_CONNECTIONS] = {"connections", "gauge", "Open connections."},
};
static atomic_llong count[LL_COUNTERS];

enum { BOUNDS = 15 };
static const double bound[BOUNDS] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60};
static const struct {
    const char *name, *help;
} timings[LL_TIMES] = {
    [LL_TIME_FIRST] = {"first_token_seconds", "From a request to its first token."},
    [LL_TIME_BETWEEN] = {"between_tokens_seconds", "From one token of a choice to its next."},
    [LL_TIME_STEP] = {"step_seconds", "Steps of the engine."},
    [LL_TIME_REQUEST] = {"request_seconds", "Whole requests."},
};
static struct {
    atomic_llong in[BOUNDS + 1];
    _Atomic double sum;
} timed[LL_TIMES];

enum { STATUSES = 600 };
static atomic_llong status_count[STATUSES];

void ll_count(ll_counter which, int64_t add) { atomic_fetch_add(&count[which], add); }
void ll_count_set(ll_counter which, int64_t value) { atomic_store(&count[which], value); }
void ll_count_request(int status) {
    if (status >= 0 && status < STATUSES) atomic_fetch_add(&status_count[status], 1);
}

void ll_time(ll_timing which, double seconds) {
    int i = 0;
    double sum = atomic_load(&timed[which].sum);
    while (i < BOUNDS && seconds > bound[i]) i++;
    atomic_fetch_add(&timed[which].in[i], 1);
    while (!atomic_compare_exchange_weak(&timed[which].sum, &sum, sum + seconds)) continue;
}

static void print_histogram(FILE *f, ll_timing t) {
    const char *name = timings[t].name;
    long long sum = 0;
    fprintf(f, "# HELP longline_%s %s\n# TYPE longline_%s histogram\n", name, timings[t].help, name);
    for (int i = 0; i < BOUNDS; i++) {
        sum += atomic_load(&timed[t].in[i]);
        fprintf(f, "longline_%s_bucket{le=\"%g\"} %lld\n", name, bound[i], sum);
    }
    sum += atomic_load(&timed[t].in[BOUNDS]);
    fprintf(f, "longline_%s_bucket{le=\"+Inf\"} %lld\nlongline_%s_sum %.9g\nlongline_%s_count %lld\n", name, sum,
            name, atomic_load(&timed[t].sum), name, sum);
}

char *ll_metrics_text(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    ll_count_set(LL_COUNT_RESIDENT, (int64_t)ll_memory_now());
    for (int i = 0; i < LL_COUNTERS; i++)
        fprintf(f, "# HELP longline_%s %s\n# TYPE longline_%s %s\nlongline_%s %lld\n", counters[i].name,
                counters[i].help, counters[i].name, counters[i].type, counters[i].name, atomic_load(&count[i]));
    fprintf(f, "# HELP longline_requests_total Requests by status.\n# TYPE longline_requests_total counter\n");
    for (int i = 0; i < STATUSES; i++)
        if (atomic_load(&status_count[i]))
            fprintf(f, "longline_requests_total{status=\"%d\"} %lld\n", i, atomic_load(&status_count[i]));
    for (int t = 0; t < LL_TIMES; t++) print_histogram(f, (ll_timing)t);
    fclose(f);
    return text;
}

/* ---- The log ---- */

static void print_line(json_t *line) {
    char stamp[40];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    const size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(stamp + n, sizeof stamp - n, ".%03ldZ", now.tv_nsec / 1000000);
    json_object_set_new(line, "time", json_string(stamp));
    char *text = json_dumps(line, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
    if (text) fprintf(stderr, "%s\n", text);
    free(text);
    json_decref(line);
}

void ll_log_event(const char *level, const char *format, ...) {
    char message[600];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    json_t *text = ll_json_text(message, strlen(message));
    print_line(json_pack("{s:s, s:o}", "level", level, "message", text));
}

void ll_log_request(const char *method, const char *path, int status, const char *cut, const ll_serve_job *job,
                    double seconds) {
    json_t *line = json_pack("{s:s, s:s, s:o, s:i, s:f}", "level", status < 500 ? "info" : "error", "method", method,
                             "path", ll_json_text(path, strlen(path)), "status", status, "ms", seconds * 1e3);
    if (cut) json_object_set_new(line, "cut", json_string(cut));
    if (job) {
        json_object_set_new(line, "id", json_string(job->id));
        if (job->model) json_object_set_new(line, "model", json_string(job->model->name));
        const char *key = ll_keys_name(job->key);
        if (job->key) json_object_set_new(line, "key", ll_json_text(key, strlen(key)));
        json_object_set_new(line, "prompt_tokens", json_integer(job->prompt_tokens));
        json_object_set_new(line, "tokens", json_integer(job->made_tokens));
        if (job->first > 0) json_object_set_new(line, "first_ms", json_real((job->first - job->start) * 1e3));
    }
    print_line(line);
}
