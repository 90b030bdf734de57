/* Creates folders with their parents, and lists them in an order that does not depend on the disk. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

enum { DEPTH = 64, NAMES = 1 << 24, LOCK_TRIES = 10 };

typedef struct {
    char **name;
    int count, capacity;
} names;

int ll_is_folder(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

int ll_is_absent(const char *path) { return access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR); }

char *ll_path_join(const char *folder, const char *name) {
    const size_t n = strlen(folder), m = strlen(name) + 1;
    const size_t slash = n && folder[n - 1] != '/';
    char *path = ll_alloc(n + slash + m, 1);
    if (!path) return NULL;
    memcpy(path, folder, n);
    if (slash) path[n] = '/';
    memcpy(path + n + slash, name, m);
    return path;
}

ll_status ll_run_folder_check(const char *folder, const char *name) {
    char *path = ll_path_join(folder, name);
    ll_status status = path ? LL_OK : LL_ENOMEM;
    if (!status && ll_is_absent(folder))
        status = ll_fail(LL_EIO, "there is no run folder %s: %s", folder, strerror(errno));
    else if (!status && access(folder, F_OK))
        status = ll_fail(LL_EIO, "cannot open %s: %s", folder, strerror(errno));
    else if (!status && !ll_is_folder(folder))
        status = ll_fail(LL_EIO, "%s is a file; give the folder of a run", folder);
    else if (!status && ll_is_absent(path))
        status = ll_fail(LL_EIO, "%s is not the folder of a run: it has no %s", folder, name);
    else if (!status && access(path, F_OK))
        status = ll_fail(LL_EIO, "cannot open %s: %s", path, strerror(errno));
    ll_free(path);
    return status;
}

/* Opens and locks the file; returns 0 or errno. It is opened for writing, because NFS locks no other files. If its
 * previous owner removed it between the two calls, it is created again. If the locked file still does not have its name
 * after some tries, the lock is of no use. */
static int lock_file(int *fd, const char *path) {
    for (int i = 0; i < LOCK_TRIES; i++) {
        *fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        if (*fd < 0 || flock(*fd, LOCK_EX | LOCK_NB)) return errno;
        if (ll_file_is_named(*fd, path)) return 0;
        close(*fd);
    }
    *fd = -1;
    return ENOLCK;
}

ll_status ll_folder_lock(int *lock, int *without, const char *folder) {
    char *path = ll_path_join(folder, LL_LOCK_FILE);
    if (!path) return LL_ENOMEM;
    const int why = lock_file(lock, path);
    ll_free(path);
    *without = why;
    if (why == EWOULDBLOCK) {
        close(*lock);
        *lock = -1;
        return ll_fail(LL_EIO, "another run is writing to %s; wait for its end, or choose another folder", folder);
    }
    if (*lock < 0 && access(folder, W_OK | X_OK))
        return ll_fail(LL_EIO, "cannot write to folder %s: %s; choose another with --out", folder, strerror(why));
    return LL_OK;
}

static ll_status make(const char *path) {
    const int why = mkdir(path, 0777) ? errno : 0;
    if (!why || ll_is_folder(path)) return LL_OK;
    if (why == EEXIST) return ll_fail(LL_EIO, "cannot create folder %s: a file has that name", path);
    return ll_fail(LL_EIO, "cannot create folder %s: %s", path, strerror(why));
}

ll_status ll_folder_create(const char *path) {
    if (!*path) return ll_fail(LL_EINVAL, "cannot create a folder without a name");
    char *part = ll_strdup(path);
    if (!part) return LL_ENOMEM;
    ll_status status = LL_OK;
    for (char *p = part + 1; !status && *p; p++)
        if (*p == '/' && p[-1] != '/') {
            *p = 0;
            status = make(part);
            *p = '/';
        }
    if (!status) status = make(part);
    ll_free(part);
    return status;
}

ll_status ll_folder_create_for(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return LL_OK;
    char *folder = ll_strdup(path);
    if (!folder) return LL_ENOMEM;
    folder[slash - path] = 0;
    const ll_status status = ll_folder_create(folder);
    ll_free(folder);
    return status;
}

/* Takes ownership of `path`. */
static ll_status add(names *list, char *path) {
    if (list->count == list->capacity) {
        const int capacity = list->capacity ? 2 * list->capacity : 64;
        char **bigger = capacity > NAMES ? NULL : ll_alloc((size_t)capacity, sizeof *bigger);
        if (!bigger) {
            ll_free(path);
            return capacity > NAMES ? ll_fail(LL_EINVAL, "more than %d files in one folder", NAMES) : LL_ENOMEM;
        }
        if (list->count) memcpy(bigger, list->name, (size_t)list->count * sizeof *bigger);
        ll_free(list->name);
        list->name = bigger;
        list->capacity = capacity;
    }
    list->name[list->count++] = path;
    return LL_OK;
}

static ll_status walk(names *list, const char *folder, int depth);

/* Links to files count as files. Links to folders are not followed, so that every walk ends. A link that leads nowhere
 * counts as a file, so that whoever reads it reports it. What was removed meanwhile is left out. */
static ll_status visit(names *list, char *path, int depth) {
    struct stat info, link;
    ll_status status = LL_OK;
    if (stat(path, &info)) {
        if (!lstat(path, &link) && S_ISLNK(link.st_mode)) return add(list, path);
        if (errno != ENOENT) status = ll_fail(LL_EIO, "cannot look at %s: %s", path, strerror(errno));
    } else {
        if (S_ISREG(info.st_mode)) return add(list, path);
        if (S_ISDIR(info.st_mode) && !lstat(path, &link) && S_ISDIR(link.st_mode)) status = walk(list, path, depth + 1);
    }
    ll_free(path);
    return status;
}

/* Is it the folder of a run, whose files are results and no data? */
static ll_status ask_for_lock(int *locked, const char *folder) {
    char *path = ll_path_join(folder, LL_LOCK_FILE);
    *locked = path && !access(path, F_OK);
    ll_free(path);
    return path ? LL_OK : LL_ENOMEM;
}

static ll_status walk(names *list, const char *folder, int depth) {
    int locked = 0;
    ll_status status = depth ? ask_for_lock(&locked, folder) : LL_OK;
    if (status || locked) return status;
    if (depth > DEPTH) return ll_fail(LL_EIO, "%s: folders are nested more than %d deep", folder, DEPTH);
    DIR *dir = opendir(folder);
    if (!dir && errno == ENOMEM) return ll_fail(LL_ENOMEM, "no memory to read folder %s", folder);
    if (!dir) return ll_fail(LL_EIO, "cannot read folder %s: %s", folder, strerror(errno));
    while (!status) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno) status = ll_fail(LL_EIO, "cannot read folder %s: %s", folder, strerror(errno));
            break;
        }
        if (entry->d_name[0] == '.') continue;
        char *path = ll_path_join(folder, entry->d_name);
        status = path ? visit(list, path, depth) : LL_ENOMEM;
    }
    closedir(dir);
    return status;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

ll_status ll_folder_list(char ***paths, int *count, const char *path) {
    names list = {0};
    const ll_status status = walk(&list, path, 0);
    if (status) {
        ll_names_free(list.name, list.count);
        return status;
    }
    if (list.count) qsort(list.name, (size_t)list.count, sizeof *list.name, by_name);
    *paths = list.name;
    *count = list.count;
    return LL_OK;
}

void ll_names_free(char **paths, int count) {
    for (int i = 0; i < count; i++) ll_free(paths[i]);
    ll_free(paths);
}
