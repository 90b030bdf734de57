/* The memory that a run would take, and what there is of it. */
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli.h"

double ll_memory_available(void) {
    char line[128];
    double kib = INFINITY;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1) break;
    if (file) fclose(file);
    return 1024 * kib;
}

/* What ulimit -v leaves; infinite without a limit. */
static double addresses_left(void) {
    struct rlimit limit;
    double pages = 0;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) return INFINITY;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%lf", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return fmax(0, (double)limit.rlim_cur - pages * (double)sysconf(_SC_PAGESIZE));
}

static void question(double needed, double left, const char *whose) {
    char a[24], b[24];
    if (needed > left)
        ll_print("the run needs about %s of memory, and %s %s: train.recompute = on, train.chunk, and a smaller "
                 "train.batch or train.length need less",
                 ll_size(a, needed), whose, ll_size(b, left));
}

int ll_print_memory(const ll_recipe *recipe, int ranks) {
    ll_rank_memory m;
    const ll_status status = ll_dist_memory(recipe, ranks, &m);
    if (status) return ll_failed(status, NULL);
    printf("memory.parameters=%.0f\nmemory.weights=%.0f\nmemory.gradients=%.0f\nmemory.received=%.0f\n"
           "memory.moments=%.0f\nmemory.activations=%.0f\nmemory.states=%.0f\nmemory.teacher=%.0f\n"
           "memory.report=%.0f\nmemory.total=%.0f\n",
           m.parameters, m.weights, m.gradients, m.received, m.moments, m.activations, m.states, m.teacher, m.report,
           m.total);
    question(m.total, ll_memory_available(), "this machine has left");
    question(m.total, addresses_left(), "ulimit -v leaves");
    return 0;
}

/* A run that has been created has its addresses already. */
void ll_question_memory(const ll_recipe *recipe) {
    const int ranks = ll_dist_ranks().size;
    ll_rank_memory m;
    if (!ll_dist_memory(recipe, ranks > 1 ? ranks : 0, &m))
        question(m.total, ll_memory_available(), "this machine has left");
}
