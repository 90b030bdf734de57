/* All allocations of a program refused in turn, while it runs once: before each that is tried it forks, and the child
 * is the run in which that one is refused. What came before is not run again, so that every allocation of a long run
 * can be tried. The program must have one thread and no socket.
 *
 *   LL_ASK, LL_ANSWER  pipes of a script that takes part: it is told "copy N 0" before the fork, and "look N CODE" when
 *                      the child has ended with exit code CODE, or 128 and its signal; it answers each with a line
 *   LL_FROM, LL_STEP, LL_TO  allocations FROM, FROM + STEP, .. TO are tried; all without them
 *   LL_LIMIT           seconds of processor time that a child has
 *   LL_STOP            children that have a handler for it get SIGTERM, so that a run of minutes that goes on without
 *                      the allocation saves and ends
 *
 * A child works in the folder `try`, where the script has put a copy of the folder `here`, to which all that the
 * program writes belongs. Its outputs are try/out and try/err. */
#ifndef LL_TRUST_BRANCH_H
#define LL_TRUST_BRANCH_H
#include <time.h>

void branch_begin(void);
int branch_is_on(void);
int branch_at(long n); /* 1: this is the child in which allocation n is refused */

void branch_clock(clockid_t clock, struct timespec *t); /* takes the time of branches off a clock */

/* realpath for the program while branches are on: a path stays relative, so that it names the copy in a child. NULL for
 * a link, and where nothing is: the caller asks libc. */
char *branch_realpath(const char *path, char *out);
#endif
