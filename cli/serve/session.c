/* Sessions: streams with names. If memory is short, the session that was used longest ago is evicted to disk, and it
 * is loaded when it is used again. This costs the size of its state and does not depend on its length.
 *
 * A session has up to two files in --state-dir. Each is written under another name and renamed. `save` writes
 * ID.OWNER.state, and `restore` goes back to it. ID.OWNER.swap is written by an eviction, or at the end of the server,
 * and the session continues from it. So a server that is killed loses what sessions have read since they were saved,
 * but no session that was saved. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/job.h"
#include "serve/serve_metrics.h"
#include "serve/session.h"

enum { BUCKETS = 4096, PATH = 4300 };

static ll_session *bucket[BUCKETS], *newest, *oldest;
static int sessions;
static size_t in_memory, on_disk;
static int lock = -1;

/* ---- The table ---- */

static ll_session **bucket_of(const char *id) {
    return &bucket[strtoul((const char[]){id[13], id[14], id[15], 0}, NULL, 16) % BUCKETS];
}

static void unlink_use(ll_session *s) {
    *(s->newer ? &s->newer->older : &newest) = s->older;
    *(s->older ? &s->older->newer : &oldest) = s->newer;
}

static void link_use(ll_session *s) {
    s->newer = NULL, s->older = newest;
    *(newest ? &newest->newer : &oldest) = s;
    newest = s;
}

static void count_all(void) {
    ll_count_set(LL_COUNT_SESSIONS, sessions);
    ll_count_set(LL_COUNT_STATE_BYTES, (int64_t)in_memory);
    ll_count_set(LL_COUNT_DISK_BYTES, (int64_t)on_disk);
}

static ll_session *lookup(const char *id) {
    ll_session *s = *bucket_of(id);
    while (s && strcmp(s->id, id) != 0) s = s->chain;
    return s;
}

static ll_session *add(const char *id, ll_served *m, const char *owner) {
    ll_session *s = ll_serve_alloc(1, sizeof *s);
    memcpy(s->id, id, LL_SESSION_ID);
    memcpy(s->owner, owner, sizeof s->owner);
    s->model = m;
    s->position = -1;
    s->chain = *bucket_of(id);
    *bucket_of(id) = s;
    link_use(s);
    sessions++;
    return s;
}

ll_session *ll_session_next(const ll_session *s) { return s ? s->older : newest; }

int ll_session_owned(const ll_session *s, int key) { return !s->deleted && !strcmp(ll_keys_owner(key), s->owner); }

/* ---- Files ---- */

static void path_of(char path[PATH], const ll_session *s, const char *kind) {
    snprintf(path, PATH, "%s/%s.%s.%s", ll_serve.state_dir, s->id, s->owner, kind);
}

static size_t file_size(const ll_session *s, const char *kind) {
    char path[PATH];
    struct stat info;
    path_of(path, s, kind);
    return stat(path, &info) ? 0 : (size_t)info.st_size;
}

static void measure_files(ll_session *s) {
    on_disk -= s->disk;
    s->disk = (s->saved ? file_size(s, "state") : 0) + (s->swapped ? file_size(s, "swap") : 0);
    on_disk += s->disk;
    count_all();
}

static void remove_file(const ll_session *s, const char *kind) {
    char path[PATH];
    path_of(path, s, kind);
    (void)unlink(path);
}

/* Writes the stream, or nothing if the files of all sessions would then exceed the quota. The file replaces the one of
 * its name, and `save` also that of an eviction. */
static int write_file(ll_session *s, const char *kind, ll_refusal *why) {
    char path[PATH];
    const int saves = !strcmp(kind, "state");
    const size_t replaced = saves ? s->disk : s->swapped ? file_size(s, kind) : 0;
    if (on_disk - replaced + s->bytes > (size_t)ll_serve.quota)
        return ll_refuse(why, 507, "", "the server's quota of %lld bytes of saved sessions is used up",
                         (long long)ll_serve.quota);
    path_of(path, s, kind);
    if (!ll_stream_save(s->stream, path)) return 0;
    ll_log_event("error", "%s", ll_error());
    return ll_refuse(why, 507, "", "the session cannot be saved on this server");
}

static void unload(ll_session *s) {
    ll_stream_free(s->stream);
    s->stream = NULL;
    in_memory -= s->bytes;
    count_all();
}

/* Removes a session from memory. It is written to its file first if it has changed. */
static int swap_out(ll_session *s, ll_refusal *why) {
    if (s->dirty) {
        if (write_file(s, "swap", why)) return -1;
        s->swapped = 1, s->dirty = 0;
        measure_files(s);
    }
    unload(s);
    ll_count(LL_COUNT_EVICTED, 1);
    return 0;
}

static int exceeds(size_t bytes) { return in_memory + bytes > (size_t)ll_serve.memory; }

/* Evicts sessions that were used longest ago until `bytes` more fit into memory. */
static int evict(size_t bytes, ll_refusal *why) {
    if (exceeds(bytes) && !ll_serve.state_dir)
        return ll_refuse(why, 429, "", "the server's memory for sessions is used up; delete one");
    for (ll_session *s = oldest; s && exceeds(bytes); s = s->newer)
        if (s->stream && !s->busy && swap_out(s, why)) return -1;
    return 0;
}

int ll_session_room(ll_refusal *why) { return evict(0, why); }

static void set_stream(ll_session *s, ll_stream *stream) {
    s->stream = stream;
    s->bytes = ll_stream_bytes(stream);
    s->position = ll_stream_position(stream);
    in_memory += s->bytes;
    count_all();
}

static int load_file(const ll_session *s, const char *kind, ll_stream **stream, ll_refusal *why) {
    char path[PATH];
    path_of(path, s, kind);
    if (!ll_batcher_load(stream, s->model->batcher, path)) return 0;
    ll_log_event("error", "%s", ll_error());
    return ll_refuse(why, 500, "session", "the session cannot be read back: its file is damaged, or of another model");
}

static int read_file(ll_session *s, const char *kind, ll_refusal *why) {
    ll_stream *stream = NULL;
    if (evict(s->bytes, why) || load_file(s, kind, &stream, why)) return -1;
    set_stream(s, stream);
    return 0;
}

/* ---- Use ---- */

ll_session *ll_session_peek(const char *id, int key, ll_refusal *why) {
    ll_session *s = lookup(id);
    if (s && ll_session_owned(s, key)) return s;
    ll_refuse(why, 404, "session", "there is no such session");
    return NULL;
}

ll_session *ll_session_find(const char *id, int key, ll_refusal *why) {
    ll_session *s = ll_session_peek(id, key, why);
    if (!s) return NULL;
    if (s->busy) {
        ll_refuse(why, 409, "session", "the session is busy with another request");
        return NULL;
    }
    if (s->broken) {
        ll_refuse(why, 409, "session", "a request broke off within the session; restore it, or delete it");
        return NULL;
    }
    if (!s->stream && read_file(s, s->swapped ? "swap" : "state", why)) return NULL;
    unlink_use(s);
    link_use(s);
    return s;
}

static int count_owned(int key) {
    int n = 0;
    for (const ll_session *s = newest; s; s = s->older) n += ll_session_owned(s, key);
    return n;
}

ll_session *ll_session_new(ll_served *m, const ll_session *from, int key, ll_refusal *why) {
    static const char digits[] = "0123456789abcdef";
    unsigned char word[12];
    char id[LL_SESSION_ID] = "sess_";
    ll_stream *stream = NULL;
    if (count_owned(key) >= ll_serve.sessions) {
        ll_refuse(why, 429, "", "there are %lld sessions, as many as one key may have; delete one",
                  (long long)ll_serve.sessions);
        return NULL;
    }
    if (getrandom(word, sizeof word, 0) != sizeof word) {
        ll_refuse(why, 500, "", "no random numbers to be had");
        return NULL;
    }
    memcpy(id + 5, m->digest, LL_NAME_DIGEST);
    for (size_t i = 0; i < sizeof word; i++) {
        id[5 + LL_NAME_DIGEST + 2 * i] = digits[word[i] >> 4];
        id[6 + LL_NAME_DIGEST + 2 * i] = digits[word[i] & 15];
    }
    const ll_status status =
        from ? ll_stream_clone(&stream, from->stream) : ll_batcher_stream(&stream, m->batcher);
    if (status) {
        ll_refuse_status(why, status, "");
        return NULL;
    }
    if (evict(ll_stream_bytes(stream), why)) {
        ll_stream_free(stream);
        return NULL;
    }
    ll_session *s = add(id, m, ll_keys_owner(key));
    s->dirty = 1;
    set_stream(s, stream);
    return s;
}

/* Discards all that was not saved. */
static void discard(ll_session *s) {
    if (s->stream) unload(s);
    if (s->swapped) remove_file(s, "swap");
    s->swapped = s->dirty = 0;
    measure_files(s);
}

void ll_session_used(ll_session *s) {
    if (s->broken) {
        discard(s);
        return;
    }
    in_memory -= s->bytes;
    s->dirty = 1;
    set_stream(s, s->stream);
    ll_refusal why = {0};
    if (ll_serve.state_dir && evict(0, &why)) ll_log_event("error", "%s", why.message);
}

static int needs_folder(ll_refusal *why) {
    return ll_serve.state_dir ? 0 : ll_refuse(why, 400, "", "this server keeps no sessions on disk (--state-dir)");
}

int ll_session_save(ll_session *s, ll_refusal *why) {
    if (needs_folder(why) || write_file(s, "state", why)) return -1;
    if (s->swapped) remove_file(s, "swap");
    s->saved = 1, s->swapped = s->dirty = 0;
    measure_files(s);
    return 0;
}

int ll_session_restore(ll_session *s, ll_refusal *why) {
    if (needs_folder(why)) return -1;
    if (s->busy) return ll_refuse(why, 409, "session", "the session is busy with another request");
    if (!s->saved) return ll_refuse(why, 409, "session", "the session was never saved");
    ll_stream *stream = NULL; /* the session stays as it is until all else has succeeded */
    if (load_file(s, "state", &stream, why)) return -1;
    s->busy = 1; /* so that it is not evicted for what replaces it */
    const int failed = evict(ll_stream_bytes(stream) - (s->stream ? s->bytes : 0), why);
    s->busy = 0;
    if (failed) {
        ll_stream_free(stream);
        return -1;
    }
    discard(s);
    s->broken = 0;
    set_stream(s, stream);
    return 0;
}

void ll_session_delete(ll_session *s) {
    ll_session **at = bucket_of(s->id);
    while (*at != s) at = &(*at)->chain;
    *at = s->chain;
    if (s->stream) unload(s);
    if (s->saved) remove_file(s, "state");
    if (s->swapped) remove_file(s, "swap");
    on_disk -= s->disk;
    unlink_use(s);
    sessions--;
    free(s);
    count_all();
}

/* ---- Start and end of the server ---- */

/* Parses sess_ID.OWNER.KIND; 0: the file is not one of a session. Removes temporary files of a server that was
 * killed. */
static int parse_name(const char *name, char id[LL_SESSION_ID], char owner[LL_OWNER + 1], char kind[6]) {
    int end = 0;
    if (sscanf(name, "%37[a-f0-9s_].%16[a-f0-9].%5[a-z]%n", id, owner, kind, &end) != 3) return 0;
    if (strlen(id) != LL_SESSION_ID - 1 || strlen(owner) != LL_OWNER) return 0;
    if (strcmp(kind, "state") != 0 && strcmp(kind, "swap") != 0) return 0;
    if (!strncmp(name + end, ".tmp-", 5)) (void)unlinkat(lock, name, 0);
    return !name[end];
}

static void add_file(const char *name) {
    char id[LL_SESSION_ID], owner[LL_OWNER + 1], kind[6];
    if (!parse_name(name, id, owner, kind)) return;
    ll_served *m = ll_served_of(id);
    if (!m) return; /* its model is not served now; the file stays */
    ll_session *s = lookup(id);
    if (!s) s = add(id, m, owner);
    if (!strcmp(kind, "swap"))
        s->swapped = 1;
    else
        s->saved = 1;
    measure_files(s);
}

/* If a server was killed after it saved a session and before it removed the .swap file, the saved file has read as much
 * or more. The .swap file is removed here. Times of files do not tell which is newer: copies of a folder lose them. */
static void remove_stale_swap(ll_session *s) {
    char state[PATH], swap[PATH];
    path_of(state, s, "state");
    path_of(swap, s, "swap");
    if (!s->saved || !s->swapped) return;
    const int64_t position = ll_session_position(swap);
    if (position < 0 || position > ll_session_position(state)) return;
    remove_file(s, "swap");
    s->swapped = 0;
    measure_files(s);
}

/* What the file says from which the session goes on. */
static void read_position(ll_session *s) {
    char path[PATH];
    const char *kind = s->swapped ? "swap" : "state";
    path_of(path, s, kind);
    s->position = ll_session_position(path);
    s->bytes = file_size(s, kind);
}

int ll_sessions_open(void) {
    const char *folder = ll_serve.state_dir;
    if (!folder) return -1;
    if (mkdir(folder, 0700) && errno != EEXIST)
        return ll_usage("--state-dir %s cannot be made: %s", folder, strerror(errno));
    lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0) return ll_usage("--state-dir %s cannot be opened: %s", folder, strerror(errno));
    if (flock(lock, LOCK_EX | LOCK_NB)) return ll_usage("--state-dir %s: another server has it", folder);
    if (access(folder, W_OK)) return ll_usage("--state-dir %s cannot be written to", folder);
    DIR *all = opendir(folder);
    for (struct dirent *entry; all && (entry = readdir(all));) add_file(entry->d_name);
    if (all) closedir(all);
    for (ll_session *s = newest; s; s = s->older) {
        remove_stale_swap(s);
        read_position(s);
    }
    return -1;
}

int ll_sessions_close(void) {
    int saved = 0, lost = 0;
    for (ll_session *s = newest, *then; s; s = then) {
        ll_refusal why = {0};
        then = s->older;
        if (ll_serve.state_dir && s->stream && s->dirty) {
            const int failed = swap_out(s, &why);
            saved += !failed, lost += failed != 0;
        }
        if (s->stream) unload(s);
        free(s);
    }
    if (saved || lost) ll_log_event(lost ? "error" : "info", "%d sessions saved, %d lost", saved, lost);
    newest = oldest = NULL;
    if (lock >= 0) close(lock);
    return lost;
}
