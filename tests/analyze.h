/* For tests/analyze.sh, before each source: tools that see one file at a time learn that these return their status. */
#include "base/status.h"
#define ll_fail(status, ...) ((ll_fail)(status, __VA_ARGS__) ? (status) : (status))
#define ll_fail_in(status, where) ((ll_fail_in)(status, where) ? (status) : (status))
