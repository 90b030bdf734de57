/* For tests/analyze.sh, before each source: tools that see one file at a time learn that these return their status. */
#include "base/status.h"
#define ll_fail(status, ...) ((void)(ll_fail)(status, __VA_ARGS__), (status))
#define ll_fail_in(status, where) ((void)(ll_fail_in)(status, where), (status))
