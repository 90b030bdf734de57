/* Inside the count of processors, for its test. */
#ifndef LL_CPUS_H
#define LL_CPUS_H

/* ll_count_cpus, where `groups` says in which control groups the process is, and `root` is where they are mounted. */
int ll_count_cpus_in(const char *groups, const char *root);

#endif
