/* What a disk may hold after the power failed, from the calls that trouble.c has recorded:
 *
 *     disk_states TRACE BEFORE OUT FOLDER BITS
 *
 *   BEFORE   the folder as it was when the recording began, all of it on the disk
 *   OUT      each different folder that may be found is written as OUT/0, OUT/1, ..
 *   FOLDER   its full name while the calls were recorded
 *   BITS     up to 2^BITS choices are tried for each call, all where there are no more
 *
 * The power may fail after any call. What an fsync of a file has confirmed is there: its bytes. What an fsync of the
 * folder has confirmed is there: its names. Of all later calls any may have reached the disk and any not, in any order,
 * and of a write also its first half alone. A rename is on the disk whole or not at all.
 *
 * Prints how many choices were tried, how many different folders they gave, and how many of these hold a .safetensors
 * file that never was whole. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CALLS = 4096, FILES = 256, NAME = 256, PATH = 4096, SEEN = 1 << 20 };

typedef struct {
    uint8_t *data;
    size_t size;
} bytes;

enum what { OPEN, WRITE, TRUNCATE, SYNC, RENAME, UNLINK };

typedef struct {
    enum what what;
    int inode;   /* -1: that of the folder */
    size_t at;   /* where a write begins */
    bytes bytes; /* those of a write; the size after a truncation */
    char name[NAME], to[NAME];
} call;

static call calls[CALLS];
static int n_calls;
static bytes first[FILES]; /* content of each inode before the recording */
static int n_inodes;
static struct {
    char name[NAME];
    int inode;
} before[FILES];
static int n_before;
static uint64_t whole[CALLS]; /* digests of each content that a file had when it was renamed */
static int n_whole;
static uint64_t seen[SEEN];
static int n_seen, n_broken;
static long n_tried;

static void need(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "disk_states: %s\n", what);
    exit(1);
}

static uint64_t digest(uint64_t h, const void *data, size_t size) {
    const uint8_t *p = data;
    uint64_t word = 0;
    for (; size >= sizeof word; p += sizeof word, size -= sizeof word) {
        memcpy(&word, p, sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 1099511628211u;
    return h ^ h >> 32;
}

static void resize(bytes *b, size_t size) {
    if (size > b->size) {
        b->data = realloc(b->data, size);
        need(b->data != NULL, "no memory");
        memset(b->data + b->size, 0, size - b->size);
    }
    b->size = size;
}

static void put(bytes *b, size_t at, const uint8_t *data, size_t size) {
    if (at + size > b->size) resize(b, at + size);
    if (size) memcpy(b->data + at, data, size);
}

static bytes copy_of(bytes b) {
    bytes c = {0};
    put(&c, 0, b.data, b.size);
    return c;
}

static bytes read_file(const char *path) {
    bytes b = {0};
    uint8_t chunk[1 << 16];
    FILE *file = fopen(path, "rb");
    need(file != NULL, path);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, file));) put(&b, b.size, chunk, n);
    fclose(file);
    return b;
}

/* ---- The folder before, and the calls ---- */

static int is_model(const char *name) {
    const char *end = strstr(name, ".safetensors");
    return end && !end[strlen(".safetensors")];
}

static void read_before(const char *folder) {
    DIR *dir = opendir(folder);
    need(dir != NULL, folder);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[PATH];
        struct stat about;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (stat(path, &about) || !S_ISREG(about.st_mode)) continue;
        first[n_inodes] = read_file(path);
        if (is_model(e->d_name)) whole[n_whole++] = digest(0, first[n_inodes].data, first[n_inodes].size);
        snprintf(before[n_before].name, NAME, "%s", e->d_name);
        before[n_before++].inode = n_inodes++;
    }
    closedir(dir);
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The names and files as the running program sees them. */
static struct {
    char name[FILES][NAME];
    int inode[FILES], count;
    bytes held[FILES];
    size_t position[FILES];
} live;

static int slot_of(const char *name) {
    for (int i = 0; i < live.count; i++)
        if (!strcmp(live.name[i], name)) return i;
    return -1;
}

static void bind_live(const char *name, int inode) {
    int i = slot_of(name);
    if (i < 0) i = live.count++;
    need(i < FILES, "too many names");
    snprintf(live.name[i], NAME, "%s", name);
    live.inode[i] = inode;
}

static int inode_of(const char *name) {
    const int i = slot_of(name);
    return i < 0 ? -1 : live.inode[i];
}

static void follow_open(call *c, int append) {
    int inode = inode_of(c->name);
    if (inode < 0) bind_live(c->name, inode = n_inodes++);
    need(n_inodes < FILES, "too many files");
    c->inode = inode;
    live.position[inode] = append ? live.held[inode].size : 0;
}

static void follow_call(call *c, long one) {
    c->inode = inode_of(c->name);
    need(c->inode >= 0 || c->what == SYNC || c->what == UNLINK, "a call for a file whose open was not recorded");
    switch (c->what) {
    case WRITE:
        c->at = one < 0 ? live.position[c->inode] : (size_t)one;
        put(&live.held[c->inode], c->at, c->bytes.data, c->bytes.size);
        if (one < 0) live.position[c->inode] += c->bytes.size;
        break;
    case TRUNCATE: resize(&live.held[c->inode], c->bytes.size); break;
    case RENAME:
        if (is_model(c->to)) {
            const bytes b = live.held[c->inode];
            whole[n_whole++] = digest(0, b.data, b.size);
        }
        bind_live(c->to, c->inode);
        bind_live(c->name, -1);
        break;
    case UNLINK: bind_live(c->name, -1); break;
    default: break;
    }
}

static void read_trace(const char *path, const char *folder) {
    static const char *const names[] = {"open", "write", "truncate", "sync", "rename", "unlink"};
    FILE *file = fopen(path, "rb");
    char what[16], line[2 * PATH], other[PATH] = "";
    long one, two;
    int at;
    need(file != NULL, path);
    for (int i = 0; i < n_before; i++) {
        bind_live(before[i].name, before[i].inode);
        live.held[before[i].inode] = copy_of(first[before[i].inode]);
    }
    while (fgets(line, sizeof line, file)) {
        need(sscanf(line, "%15s %ld %ld %n", what, &one, &two, &at) == 3 && n_calls < CALLS, "a line of the trace");
        line[strcspn(line, "\n")] = 0;
        call *c = &calls[n_calls];
        *c = (call){.inode = -1};
        while (c->what < UNLINK && strcmp(what, names[c->what])) c->what++;
        if (c->what == WRITE) {
            resize(&c->bytes, (size_t)two);
            need(fread(c->bytes.data, 1, (size_t)two, file) == (size_t)two && fgetc(file) == '\n', "bytes of a write");
        }
        if (c->what == RENAME) {
            need(fgets(other, sizeof other, file) != NULL, "the second name of a rename");
            other[strcspn(other, "\n")] = 0;
            snprintf(c->to, NAME, "%s", last_part(other));
        }
        if (c->what == TRUNCATE) c->bytes.size = (size_t)one;
        if (strncmp(line + at, folder, strlen(folder))) continue; /* a file in another folder */
        const char *name = line + at + strlen(folder);
        snprintf(c->name, NAME, "%s", *name ? last_part(name) : "");
        if (c->what == OPEN)
            follow_open(c, two != 0);
        else
            follow_call(c, one);
        n_calls++;
    }
    fclose(file);
}

/* ---- What may be found ---- */

static int alters_names(const call *c) { return c->what == OPEN || c->what == RENAME || c->what == UNLINK; }

/* Has call i been confirmed by an fsync before `end`? */
static int is_on_disk(int i, int end) {
    for (int k = i + 1; k < end; k++) {
        if (calls[k].what != SYNC) continue;
        if (alters_names(&calls[i]) ? calls[k].inode < 0 : calls[k].inode == calls[i].inode) return 1;
    }
    return 0;
}

typedef struct {
    char name[FILES][NAME];
    int inode[FILES], count;
    bytes held[FILES];
} disk;

static void bind_name(disk *d, const char *name, int inode) {
    int i = 0;
    while (i < d->count && strcmp(d->name[i], name)) i++;
    if (i == d->count) snprintf(d->name[d->count++], NAME, "%s", name);
    d->inode[i] = inode;
}

static void reach(disk *d, const call *c, int half) {
    switch (c->what) {
    case OPEN:
        for (int i = 0; i < d->count; i++)
            if (!strcmp(d->name[i], c->name) && d->inode[i] >= 0) return;
        bind_name(d, c->name, c->inode);
        break;
    case WRITE: put(&d->held[c->inode], c->at, c->bytes.data, half ? c->bytes.size / 2 : c->bytes.size); break;
    case TRUNCATE: resize(&d->held[c->inode], c->bytes.size); break;
    case RENAME:
        bind_name(d, c->to, c->inode);
        bind_name(d, c->name, -1);
        break;
    case UNLINK: bind_name(d, c->name, -1); break;
    default: break;
    }
}

/* 1 if no earlier folder is equal. */
static int is_new(const disk *d, int *broken) {
    uint64_t sum = 0;
    *broken = 0;
    for (int i = 0; i < d->count; i++) {
        if (d->inode[i] < 0) continue;
        const bytes b = d->held[d->inode[i]];
        const uint64_t one = digest(0, b.data, b.size);
        if (is_model(d->name[i])) {
            int k = 0;
            while (k < n_whole && whole[k] != one) k++;
            *broken |= k == n_whole;
        }
        sum += digest(one, d->name[i], strlen(d->name[i])); /* the order does not matter */
    }
    for (int i = 0; i < n_seen; i++)
        if (seen[i] == sum) return 0;
    need(n_seen < SEEN, "too many different folders");
    seen[n_seen++] = sum;
    return 1;
}

static void write_out(const disk *d, const char *out, int number) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/%d", out, number);
    need(!mkdir(path, 0777), path);
    for (int i = 0; i < d->count; i++) {
        if (d->inode[i] < 0) continue;
        snprintf(path, sizeof path, "%s/%d/%s", out, number, d->name[i]);
        FILE *file = fopen(path, "wb");
        need(file != NULL, path);
        const bytes b = d->held[d->inode[i]];
        need(fwrite(b.data, 1, b.size, file) == b.size && !fclose(file), path);
    }
}

static disk d;

/* The disk with all calls up to `end`. Of those in `open` it has only the ones with a bit in `chosen`, and with `half`
 * only half of the last one. */
static void try_one(int end, const int *open, int n_open, uint64_t chosen, int half, const char *out) {
    for (int i = 0; i < FILES; i++) free(d.held[i].data);
    memset(&d, 0, sizeof d);
    for (int i = 0; i < n_before; i++) {
        bind_name(&d, before[i].name, before[i].inode);
        d.held[before[i].inode] = copy_of(first[before[i].inode]);
    }
    for (int i = 0, k = 0; i < end; i++) {
        if (k < n_open && open[k] == i) {
            if (chosen >> k++ & 1) reach(&d, &calls[i], half && !(chosen >> k));
        } else if (calls[i].what != SYNC) {
            reach(&d, &calls[i], 0);
        }
    }
    int broken;
    n_tried++;
    if (!is_new(&d, &broken)) return;
    n_broken += broken;
    write_out(&d, out, n_seen - 1);
}

int main(int argc, char **argv) {
    need(argc == 6, "usage: disk_states TRACE BEFORE OUT FOLDER BITS");
    const int most_bits = atoi(argv[5]);
    read_before(argv[2]);
    read_trace(argv[1], argv[4]);
    uint64_t draw = 1;
    for (int end = 0; end <= n_calls; end++) {
        int open[64], n_open = 0;
        for (int i = 0; i < end; i++)
            if (calls[i].what != SYNC && !is_on_disk(i, end)) {
                need(n_open < 64, "too many calls without fsync");
                open[n_open++] = i;
            }
        const int bits = n_open < most_bits ? n_open : most_bits;
        for (uint64_t i = 0; i < UINT64_C(1) << bits; i++) {
            draw = draw * 6364136223846793005u + 1442695040888963407u;
            const uint64_t chosen = n_open <= most_bits ? i : draw >> (64 - n_open);
            try_one(end, open, n_open, chosen, 0, argv[3]);
            try_one(end, open, n_open, chosen, 1, argv[3]);
        }
    }
    printf("calls=%d choices=%ld folders=%d broken=%d\n", n_calls, n_tried, n_seen, n_broken);
    return n_broken > 0;
}
