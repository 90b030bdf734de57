/* Limits of processor time by control groups, laid out as in containers and on machines. */
#include "folder.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/cpus.h"
#include "base/parallel.h"

/* Writes this text to folder/name, and creates the folders on the way. */
static void put(const char *name, const char *text) {
    char *path = at(name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0777);
    }
    CHECK_OK(ll_file_write(path, text, strlen(text)));
}

static int limit(const char *root, const char *groups) {
    put("groups", groups);
    return ll_cpu_limit(at("groups"), at(root));
}

static void test_version_2(void **state) {
    (void)state;
    put("two/cpu.max", "max 100000\n");
    put("two/a/cpu.max", "350000 100000\n");
    put("two/a/b/cpu.max", "max 100000\n");
    put("two/a/c/cpu.max", "50000 100000\n");
    put("two/d/cpu.max", "200000 100000\n");
    assert_int_equal(limit("two", "0::/\n"), 0);
    assert_int_equal(limit("two", "0::/a\n"), 4); /* 3.5, rounded up */
    assert_int_equal(limit("two", "0::/a/b\n"), 4);
    assert_int_equal(limit("two", "0::/a/c\n"), 1);
    assert_int_equal(limit("two", "0::/d"), 2);
    assert_int_equal(limit("two", "0::/d/gone/further\n"), 2);
}

static void test_version_1(void **state) {
    (void)state;
    put("one/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("one/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("one/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
    put("one/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    put("one/memory/cpu.max", "100000 100000\n");
    assert_int_equal(limit("one", "4:cpu,cpuacct:/\n0::/\n"), 0);
    assert_int_equal(limit("one", "7:memory:/\n4:cpu,cpuacct:/job\n0::/\n"), 3);
    assert_int_equal(limit("one", "7:cpuset:/job\n"), 0);
    put("other/cpu/cpu.cfs_quota_us", "150000\n"); /* in a container the group has its name on the host */
    put("other/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(limit("other", "4:cpuacct,cpu:/docker/0123\n"), 2);
}

static void test_both_versions(void **state) {
    (void)state;
    put("both/unified/x/cpu.max", "600000 100000\n");
    put("both/cpu/cpu.cfs_quota_us", "500000\n");
    put("both/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(limit("both", "0::/x\n"), 6);
    assert_int_equal(limit("both", "0::/x\n1:cpu:/\n"), 5);
}

static void test_damaged_groups(void **state) {
    (void)state;
    put("bad/cpu.max", "-7 0\n");
    put("bad/a/cpu.max", "100000\n");
    put("bad/b/cpu.max", "");
    assert_int_equal(limit("bad", "0::/\n"), 0);
    assert_int_equal(limit("bad", "0::/a\n"), 0);
    assert_int_equal(limit("bad", "0::/b\n"), 0);
    assert_int_equal(limit("bad", "0:/a\n\n::\n"), 0);
    assert_int_equal(ll_cpu_limit(at("gone"), at("bad")), 0);
    assert_in_range(ll_count_cpus(), 1, 8192);
    put("few/cpu.max", "100000 100000\n"); /* one processor, however many the machine has */
    put("groups", "0::/\n");
    assert_int_equal(ll_count_cpus_in(at("groups"), at("few")), 1);
    put("many/cpu.max", "max 100000\n");
    assert_int_equal(ll_count_cpus_in(at("groups"), at("many")), ll_count_cpus_in(at("gone"), at("many")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_version_1),
        cmocka_unit_test(test_both_versions),
        cmocka_unit_test(test_damaged_groups),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
