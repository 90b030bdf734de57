/* Sequences from files of any size. One block of a file and one piece of a sequence are in memory. */
#include "data/input.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/versioned.h"
#include "data/music/score.h"

/* ---- Lines, and whole files ---- */

static ll_status begin_line(ll_input *in, int *found) {
    *found = ll_input_peek(in) >= 0;
    return *found ? ll_input_number(in, in->line) : in->status;
}

static ll_status more_line(ll_input *in, int *ends) {
    ll_status status = ll_input_reserve(in, in->piece, 0);
    in->text = in->buffer;
    for (int c; !status && !*ends && (c = ll_input_peek(in)) >= 0;) {
        if (in->n == in->piece && c != '\n') return LL_OK;
        ll_input_take(in);
        if (c == '\n')
            *ends = 1;
        else if (c != '\r' || ll_input_peek(in) != '\n')
            in->buffer[in->n++] = (uint8_t)c;
    }
    if (!status && !*ends) *ends = 1;
    return status ? status : in->status;
}

static ll_status begin_whole(ll_input *in, int *found) {
    /* An empty file is a sequence, too. */
    *found = !in->image++;
    in->begin_line = 0;
    const char *name = in->path[in->file - 1];
    return ll_input_name(in, name, strlen(name));
}

static ll_status more_whole(ll_input *in, int *ends) {
    const ll_status status = ll_input_reserve(in, in->piece, 0);
    if (status) return status;
    in->text = in->buffer;
    in->n = ll_input_bytes(in, in->buffer, in->piece);
    *ends = ll_input_peek(in) < 0 && in->status != LL_ESTOPPED;
    /* What was read before a signal is returned first; the next call reports the signal. */
    return in->status == LL_ESTOPPED && in->n ? LL_OK : in->status;
}

static const ll_input_kind lines = {begin_line, more_line, 1}, whole = {begin_whole, more_whole, 0};

/* ---- Files ---- */

enum { MAGIC = 4, MARK = 3 };

/* UTF-8's byte order mark, and what may come after it. */
static const uint8_t mark[] = {0xef, 0xbb, 0xbf, '{'}, mark_fasta[] = {0xef, 0xbb, 0xbf, '>'};

/* Are these the first n bytes of the file? */
static int begins(ll_input *in, const uint8_t *magic, size_t n) {
    while (in->size < n && !memcmp(in->block, magic, in->size) && !in->status) {
        size_t got = 0;
        in->status = ll_unpack_read(in->source, &got, in->block + in->size, sizeof in->block - in->size);
        if (!got) break;
        in->size += got;
    }
    return in->size >= n && !memcmp(in->block, magic, n);
}

static const ll_input_kind *kind_of(ll_input *in) {
    switch (in->format) {
    case LL_INPUT_LINES: return &lines;
    case LL_INPUT_JSONL: return &ll_input_json;
    case LL_INPUT_FASTA: return &ll_input_fasta;
    case LL_INPUT_WHOLE: return &whole;
    case LL_INPUT_IDX: return &ll_input_idx;
    case LL_INPUT_MIDI: return &ll_input_midi;
    case LL_INPUT_PNG: return &ll_input_png;
    case LL_INPUT_AUTO: break;
    }
    /* 0, 0, 8 and the number of axes, with colours one more. */
    static const uint8_t gray[] = {0, 0, 8, 3}, colours[] = {0, 0, 8, 4};
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    const int c = ll_input_peek(in);
    if (c == '>' || c == ';') return &ll_input_fasta;
    if (c == '{') return &ll_input_json;
    if (begins(in, mark, MAGIC)) return &ll_input_json;
    if (begins(in, mark_fasta, MAGIC)) return &ll_input_fasta;
    if (begins(in, png, sizeof png)) return &ll_input_png;
    return begins(in, gray, MAGIC) || begins(in, colours, MAGIC) ? &ll_input_idx : &lines;
}

static void close_file(ll_input *in) {
    if (in->source) in->before += ll_unpack_taken(in->source);
    ll_unpack_close(in->source);
    ll_unpack_close(in->label_source);
    in->source = in->label_source = NULL;
}

/* Of a file without keys. */
static ll_status refuse_keys(const ll_input *in) {
    const char *const keys[] = {in->label_key, in->text_key, in->id_key}, *const what[] = {"classes", "texts", "names"};
    for (int i = 0; i < 3; i++)
        if (keys[i])
            return ll_fail(LL_EFORMAT, "%s is not JSONL, and only JSONL has %s under a key (\"%.100s\")",
                           ll_unpack_name(in->source), what[i], keys[i]);
    return LL_OK;
}

static ll_status open_next(ll_input *in) {
    const char *path = in->path[in->file++];
    const ll_status status = ll_unpack_open(&in->source, strcmp(path, "-") ? path : NULL);
    if (status) return status;
    in->at = in->size = 0;
    in->line = 1;
    in->image = 0;
    in->status = LL_OK;
    in->kind = kind_of(in);
    if (in->width && ll_input_peek(in) < 0 && !in->status)
        return ll_fail(LL_EFORMAT, "%s is empty, and no image", ll_unpack_name(in->source));
    if (in->kind->lines && begins(in, mark, MARK)) in->at = MARK;
    if (in->kind != &ll_input_json && ll_input_peek(in) >= 0) {
        const ll_status keys = refuse_keys(in);
        if (keys) return keys;
    }
    if (in->labels && in->kind != &ll_input_idx && ll_input_peek(in) >= 0)
        return ll_fail(LL_EFORMAT, "%s is no idx file of images, and only these have a file of labels (%.100s)",
                       ll_unpack_name(in->source), in->labels);
    return in->status;
}

/* Goes to the next sequence of any file. At the end all files are closed. */
static ll_status begin_next(ll_input *in) {
    for (;;) {
        ll_status status = LL_OK;
        int found = 0;
        if (!in->source) {
            in->over = in->file == in->files;
            if (in->over) return LL_OK;
            if ((status = open_next(in))) return status;
        }
        in->begin_line = in->line;
        in->label = NULL;
        status = in->kind->begin(in, &found);
        if (status) return status;
        if (found) {
            in->open = 1;
            return LL_OK;
        }
        close_file(in);
    }
}

ll_status ll_input_next(ll_input *in, ll_sequence *s, int *found) {
    const int begins = !in->open;
    int ends = 0;
    ll_status status = LL_OK;
    *found = 0;
    if (begins && !in->over) status = begin_next(in);
    if (!status && in->over) return LL_OK;
    in->n = 0;
    if (!status) status = in->kind->more(in, &ends);
    if (status) {
        in->over = 1;
        in->open = 0;
        return status;
    }
    in->open = !ends;
    *found = 1;
    const char *given = in->path[in->file - 1];
    *s = (ll_sequence){.id = in->id,
                       .file = strcmp(given, "-") ? given : ll_unpack_name(in->source),
                       .line = in->kind->lines ? in->begin_line : 0,
                       .text = in->text,
                       .size = in->n,
                       .begins = begins,
                       .ends = ends,
                       .label = in->label};
    return LL_OK;
}

void ll_input_progress(const ll_input *in, int64_t *done, int64_t *total) {
    *done = in->before + (in->source ? ll_unpack_taken(in->source) : 0);
    *total = in->total;
}

/* ---- Open and close ---- */

/* Files that are missing or may not be read are reported now, not after the files before them have been read. */
static ll_status check_path(ll_input *in, const char *path) {
    struct stat info;
    char *found = NULL;
    if (!strcmp(path, "-") ? fstat(0, &info)
                           : !(found = ll_unpack_find(path)) || stat(found, &info) || access(found, R_OK)) {
        const int why = errno;
        ll_free(found);
        if (!strcmp(path, "-")) return ll_fail(LL_EIO, "cannot read standard input: %s", strerror(why));
        if (why == ENOMEM) return ll_fail(LL_ENOMEM, "no memory to open %s", path);
        return ll_fail(LL_EIO, "cannot open %s: %s", path, strerror(why));
    }
    ll_free(found);
    if (S_ISDIR(info.st_mode) && !strcmp(path, "-"))
        return ll_fail(LL_EINVAL, "standard input is a folder; name files");
    if (S_ISDIR(info.st_mode)) return ll_fail(LL_EIO, "%s is a folder; name files", path);
    if (!S_ISREG(info.st_mode))
        in->total = -1;
    else if (in->total >= 0)
        in->total += (int64_t)info.st_size;
    return LL_OK;
}

static ll_status copy(char **to, const char *from) {
    if (!from) return LL_OK;
    *to = ll_strdup(from);
    return *to ? LL_OK : LL_ENOMEM;
}

static ll_status set_up(ll_input *in, const char *const *paths, int n, const ll_input_options *given) {
    ll_input_options options;
    const ll_input_options *const how = &options;
    if (ll_struct_take(&options, sizeof options, given, "ll_input_options")) return LL_EINVAL;
    if ((unsigned)how->format > LL_INPUT_PNG)
        return ll_fail(LL_EINVAL, "there is no format %d of files", (int)how->format);
    in->format = how->format;
    in->width = how->width, in->height = how->height, in->channels = how->channels;
    in->side = how->side, in->bicubic = how->bicubic;
    in->piece = how->piece ? how->piece : 1 << 16;
    in->fine = how->grid == LL_GRID;
    if (how->grid && how->grid != 4 && !in->fine)
        return ll_fail(LL_EINVAL, "a quarter note of music has 4 or %d positions, not %d", LL_GRID, how->grid);
    if (in->width < 0 || in->height < 0 || (in->channels && in->channels != 1 && in->channels != 3))
        return ll_fail(LL_EINVAL, "pictures of %d x %d with %d numbers a pixel, which can be 1 or 3", in->width,
                       in->height, in->channels);
    if (n < 1) return ll_fail(LL_EINVAL, "no files to read; \"-\" is standard input");
    if (how->labels && n > 1)
        return ll_fail(LL_EINVAL, "labels %s belong to one file of images, not to %d", how->labels, n);
    in->path = ll_alloc((size_t)n, sizeof *in->path);
    ll_status status = in->path ? LL_OK : LL_ENOMEM;
    if (!status) status = copy(&in->text_key, how->text_key);
    if (!status) status = copy(&in->id_key, how->id_key);
    if (!status) status = copy(&in->label_key, how->label_key);
    if (!status) status = copy(&in->labels, how->labels);
    for (; in->files < n && !status; in->files++) {
        status = check_path(in, paths[in->files]);
        if (!status) status = copy(&in->path[in->files], paths[in->files]);
    }
    return status;
}

ll_status ll_input_open(ll_input **input, const char *const *paths, int n, const ll_input_options *how) {
    ll_input *in = ll_alloc(1, sizeof *in);
    if (!in) return LL_ENOMEM;
    const ll_status status = set_up(in, paths, n, how);
    if (status) {
        ll_input_close(in);
        return status;
    }
    *input = in;
    return LL_OK;
}

void ll_input_close(ll_input *in) {
    if (!in) return;
    close_file(in);
    for (int i = 0; i < in->files; i++) ll_free(in->path[i]);
    ll_free(in->path);
    ll_free(in->text_key);
    ll_free(in->id_key);
    ll_free(in->label_key);
    ll_free(in->labels);
    ll_free(in->id);
    ll_free(in->label_text);
    ll_free(in->buffer);
    json_decref(in->json);
    ll_free(in);
}
