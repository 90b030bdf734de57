/* Opens readers: chooses the format, opens a split, and answers what is known of it. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/format.h"

static const char *const split_name[3] = {"train", "valid", "test"};
static const char *const task_name[] = {"lm", "classify", "mlm", "match", "seq2seq"};

// clang-format off
static const ll_format *const formats[] = {
    [LL_DATA_BYTES] = &ll_format_bytes,
    [LL_DATA_IDX] = &ll_format_idx,
    [LL_DATA_DEMO] = &ll_format_demo,
    [LL_DATA_FASTA] = &ll_format_fasta,
    [LL_DATA_WORDS] = &ll_format_words,
    [LL_DATA_LABELLED] = &ll_format_labelled,
    [LL_DATA_LISTOPS] = &ll_format_listops,
    [LL_DATA_RETRIEVAL] = &ll_format_retrieval,
    [LL_DATA_CIFAR10] = &ll_format_cifar10,
    [LL_DATA_PATHFINDER] = &ll_format_pathfinder,
    [LL_DATA_PIECES] = &ll_format_pieces,
    [LL_DATA_MIDI] = &ll_format_midi,
    [LL_DATA_PAIRS] = &ll_format_pairs,
    [LL_DATA_COPY] = &ll_format_copy,
    [LL_DATA_REVERSE] = &ll_format_reverse,
    [LL_DATA_COPY_REVERSE] = &ll_format_copy_reverse,
    [LL_DATA_SUBWORDS] = &ll_format_subwords,
    [LL_DATA_RECALL] = &ll_format_recall,
    [LL_DATA_PNG] = &ll_format_png,
};
// clang-format on

static int is_known(int format) { return format >= 0 && (size_t)format < sizeof formats / sizeof *formats; }

const ll_format *ll_format_named(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i]->name, name)) return formats[i];
    return NULL;
}

int ll_data_is_made(const ll_data_options *c) { return is_known(c->format) && formats[c->format]->made; }

int ll_data_shared(char *first, size_t size, const ll_data_options *c, int test) {
    const char *path = test ? c->test : c->valid;
    if (!is_known(c->format) || formats[c->format]->made || !path || !*path || !c->train) return 0;
    return ll_files_shared(first, size, formats[c->format]->pick, path, test ? LL_SPLIT_TEST : LL_SPLIT_VALID, c->train,
                           LL_SPLIT_TRAIN);
}

const char *ll_data_unit(const ll_data_options *c) { return is_known(c->format) ? formats[c->format]->unit : "token"; }

/* Tasks of pairs have few formats, which the error names. For other tasks the error names the task that fits. */
static ll_status lacks_pairs(const ll_format *format, int task) {
    char names[200] = "";
    for (size_t i = 0, n = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i]->tasks >> task & 1 && n < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", formats[i]->name);
    return ll_fail(LL_EINVAL, "data.format=%s has no pairs for model.task=%s; these have: %s", format->name,
                   task_name[task], names);
}

static ll_status check_task(const ll_format *format, int task) {
    int can = 0;
    if (format->tasks >> task & 1) return LL_OK;
    if (task == LL_TASK_MATCH || task == LL_TASK_SEQ2SEQ) return lacks_pairs(format, task);
    while (!(format->tasks >> can & 1)) can++;
    return ll_fail(LL_EINVAL, "data.format=%s %s; set model.task=%s", format->name,
                   can == LL_TASK_LM        ? "has no classes to learn"
                   : can == LL_TASK_MATCH   ? "has pairs of texts"
                   : can == LL_TASK_SEQ2SEQ ? "has pairs of sequences"
                                            : "has examples with classes",
                   task_name[can]);
}

static ll_status copy(ll_bytes *to, const ll_bytes *from) {
    if (!from || !from->size) return LL_OK;
    if (!(to->data = ll_alloc(from->size + 1, 1))) return LL_ENOMEM;
    memcpy(to->data, from->data, from->size);
    to->size = from->size;
    return LL_OK;
}

static ll_status check_streams(ll_reader *r, int batch) {
    if (r->examples && !r->texts)
        return ll_fail(LL_EINVAL,
                       "data.format=%s has no text that continues from window to window; set train.carry-state=off",
                       r->format->name);
    if (r->rows < batch)
        return ll_fail(LL_EINVAL,
                       "train.carry-state reads train.batch = %d streams side by side, and the data has %lld "
                       "windows; set a smaller train.batch or train.length",
                       batch, (long long)r->rows);
    r->streams = 1;
    return LL_OK;
}

ll_status ll_reader_create(ll_reader **reader, const ll_reader_options *c, const char *split,
                           const ll_bytes *vocabulary) {
    int which = 0;
    while (which < 3 && strcmp(split, split_name[which])) which++;
    if (which == 3) return ll_fail(LL_EINVAL, "there is no split \"%s\"; there are train, valid and test", split);
    if (!is_known(c->data.format)) return ll_fail(LL_EINVAL, "data.format number %d does not exist", c->data.format);
    const ll_format *format = formats[c->data.format];
    ll_status status = check_task(format, c->task);
    if (status) return status;
    ll_reader *r = ll_alloc(1, sizeof *r);
    if (!r) return LL_ENOMEM;
    r->format = format;
    r->task = c->task;
    r->B = c->batch;
    r->T = c->length;
    r->mask = -1;
    if (format->own && !(r->own = ll_alloc(1, format->own))) status = LL_ENOMEM;
    if (!status) status = copy(&r->vocabulary, vocabulary);
    if (!status) status = format->open(r, c, which);
    if (status) {
        ll_reader_free(r);
        return status;
    }
    if (c->streams && which == LL_SPLIT_TRAIN && (status = check_streams(r, c->batch))) {
        ll_reader_free(r);
        return status;
    }
    if (c->task == LL_TASK_MLM && r->mask < 0) r->mask = r->vocab++;
    *reader = r;
    return LL_OK;
}

void ll_reader_free(ll_reader *r) {
    if (!r) return;
    if (r->own && r->format->close) r->format->close(r);
    ll_free(r->own);
    for (int i = 0; i < 2; i++) ll_bytes_free(&r->file[i]);
    ll_bytes_free(&r->vocabulary);
    ll_free(r->class_names);
    ll_free(r);
}

int ll_reader_vocab(const ll_reader *reader) {
    return reader->vocab;
}

const ll_bytes *ll_reader_vocabulary(const ll_reader *reader) {
    return &reader->vocabulary;
}

const char *ll_reader_class_names(const ll_reader *reader) {
    return reader->class_names;
}

int64_t ll_reader_left_out(const ll_reader *reader) { return reader->left_out; }

const char *ll_reader_heading(const ll_reader *reader) { return reader->heading; }

const char *ll_reader_unused(const ll_reader *reader) { return reader->unused; }

void ll_reader_cut(const ll_reader *reader, int64_t *texts, int64_t *cut) {
    *texts = reader->seen;
    *cut = reader->cut;
}

int ll_reader_classes(const ll_reader *reader) {
    return reader->classes;
}

int64_t ll_reader_size(const ll_reader *reader) {
    return reader->size;
}

int ll_reader_channels(const ll_reader *reader) { return reader->channels; }

void ll_reader_image(const ll_reader *reader, int *width, int *height) {
    *width = reader->width;
    *height = reader->height;
}
