/* Finds the launcher and the plug-in. A launcher sets variables in the environment. Each MPI library has a plug-in of
 * its own, beside the program, beside the library, in ../lib/longline or in ../longline. LL_MPI names another file, or,
 * for a launcher that serves several libraries, the library. */
#include "dist/launch.h"
#include "longline-dist.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const libraries[] = {"openmpi", "mpich"};

static int is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

static int number_of(const char *name) {
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

/* The MPI library of the launcher; NULL: there is no launcher. Slurm starts programs of both libraries; the names of
 * its variables show which one. */
static const char *find_library(void) {
    const char *chosen = getenv("LL_MPI");
    const int pmi = is_set("PMI_RANK") && is_set("PMI_SIZE");
    const int ranks = is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMIX_RANK") || pmi;
    const int slurm = is_set("SLURM_PROCID") && is_set("SLURM_STEP_ID") && number_of("SLURM_STEP_NUM_TASKS") > 1;
    if (!ranks && !slurm) return NULL;
    if (chosen && *chosen) return chosen;
    return is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMIX_RANK") || !is_set("PMI_RANK") ? libraries[0] : libraries[1];
}

/* Does the launcher say that it started one process? Its variables may also come from a shell that it started. */
static int is_alone(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    int most = 0;
    for (int i = 0; i < 3; i++)
        if (number_of(sizes[i]) > most) most = number_of(sizes[i]);
    return most == 1;
}

/* The folder of this program, or of this library. */
static void own_folder(char *folder, size_t size, int library) {
    Dl_info info;
    char path[PATH_MAX] = "";
    if (library) {
        const int found = dladdr((void *)(size_t)ll_launch, &info) && info.dli_fname;
        if (found) snprintf(path, sizeof path, "%s", info.dli_fname);
    } else {
        const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
        path[n > 0 ? n : 0] = 0;
    }
    char *slash = strrchr(path, '/');
    if (slash) *slash = 0;
    snprintf(folder, size, "%s", slash ? path : ".");
}

/* Opens the plug-in. If the file exists but cannot be opened, `reason` gets the linker's message. RTLD_GLOBAL is needed
 * because MPI libraries look for their own symbols among the global ones. */
static void *open_plugin(const char *library, char *reason, size_t size) {
    static const char *const beside[] = {"", "/longline", "/../lib/longline", "/../longline"};
    enum { PLACES = sizeof beside / sizeof *beside };
    char folder[PATH_MAX], path[PATH_MAX + 128];
    if (strchr(library, '/')) {
        void *at = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
        if (!at) snprintf(reason, size, ": %s", dlerror());
        return at;
    }
    for (int i = 0; i < 2 * PLACES; i++) {
        own_folder(folder, sizeof folder, i % 2);
        snprintf(path, sizeof path, "%s%s/longline-mpi-%s.so", folder, beside[i / 2], library);
        if (access(path, F_OK)) continue;
        void *at = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (at) return at;
        snprintf(reason, size, ": %s", dlerror());
    }
    return NULL;
}

int ll_dist_launch_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (int i = 0; i < 4 && find_library(); i++)
        if (is_set(names[i])) return number_of(names[i]);
    return 0;
}

int ll_launch_wait(void) {
    enum { USUAL = 120 };
    const int seconds = number_of("LL_MPI_WAIT");
    return seconds > 0 ? seconds : USUAL;
}

ll_status ll_launch(const ll_transport **transport) {
    const char *library = find_library();
    char reason[600] = "";
    *transport = NULL;
    if (!library) return LL_OK;
    setenv("UCX_LOG_FILE", "stderr", 0); /* UCX, which MPI may use, writes warnings to stdout, where results go */
    void *at = open_plugin(library, reason, sizeof reason);
    if (!at && is_alone()) return LL_OK;
    if (!at)
        return ll_fail(LL_EDIST,
                       "started as one of several ranks, but the plug-in longline-mpi-%s.so cannot be opened%s; build "
                       "longline where the compiler of this MPI is (mpicc.%s), or start one process",
                       library, reason, library);
    const ll_transport *(*entry)(void);
    *(void **)&entry = dlsym(at, LL_TRANSPORT_ENTRY);
    *transport = entry ? entry() : NULL;
    if (*transport && (*transport)->abi == LL_TRANSPORT_ABI) return LL_OK;
    return ll_fail(LL_EDIST, "the plug-in longline-mpi-%s.so is of another version of longline; install both anew",
                   library);
}
