/* Numbers for /metrics, and the log. */
#ifndef LL_SERVE_METRICS_H
#define LL_SERVE_METRICS_H

#include <stdint.h>

struct ll_serve_job;

typedef enum {
    LL_COUNT_PROMPT_TOKENS, LL_COUNT_TOKENS, LL_COUNT_STEPS, LL_COUNT_ROWS, LL_COUNT_REJECTED, LL_COUNT_EVICTED,
    LL_COUNT_ACTIVE, LL_COUNT_WAITING, LL_COUNT_SESSIONS, LL_COUNT_RESIDENT, LL_COUNT_STATE_BYTES, LL_COUNT_DISK_BYTES,
    LL_COUNT_CONNECTIONS, LL_COUNTERS
} ll_counter;
void ll_count(ll_counter which, int64_t add);
void ll_count_set(ll_counter which, int64_t value);
typedef enum { LL_TIME_FIRST, LL_TIME_BETWEEN, LL_TIME_STEP, LL_TIME_REQUEST, LL_TIMES } ll_timing;
void ll_time(ll_timing which, double seconds);
void ll_count_request(int status);
char *ll_metrics_text(void); /* of Prometheus, to be freed */
/* Logs a request that has ended, as a line of JSON without its texts. cut: why its answer was not sent to the end, or
 * NULL. */
void ll_log_request(const char *method, const char *path, int status, const char *cut, const struct ll_serve_job *job,
                    double seconds);
void ll_log_event(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
