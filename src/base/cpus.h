/* Inside the count of processors, for its test. */
#ifndef LL_CPUS_H
#define LL_CPUS_H

/* The processor time that control groups allow, as a number of processors, rounded up; 0: no limit. `groups` is
 * /proc/self/cgroup. `root` is the folder where control groups are mounted. */
int ll_cpu_limit(const char *groups, const char *root);
/* ll_count_cpus with that limit. */
int ll_count_cpus_in(const char *groups, const char *root);

#endif
