/* The part [data] of a recipe: files and format of the sequences. Keys: data_keys.c. */
#ifndef LL_DATA_OPTIONS_H
#define LL_DATA_OPTIONS_H

#include <stdint.h>

#include "base/key.h"

enum {
    LL_DATA_BYTES,
    LL_DATA_IDX,
    LL_DATA_DEMO,
    LL_DATA_FASTA,
    LL_DATA_WORDS,
    LL_DATA_LABELLED,
    LL_DATA_LISTOPS,
    LL_DATA_RETRIEVAL,
    LL_DATA_CIFAR10,
    LL_DATA_PATHFINDER,
    LL_DATA_PIECES,
    LL_DATA_PAIRS,
    LL_DATA_COPY,
    LL_DATA_REVERSE,
    LL_DATA_COPY_REVERSE,
    LL_DATA_MIDI,
    LL_DATA_SUBWORDS,
    LL_DATA_RECALL,
    LL_DATA_PNG
};
enum { LL_SEPARATOR_TAB, LL_SEPARATOR_COMMA };
enum { LL_RESIZE_BILINEAR, LL_RESIZE_BICUBIC };

typedef struct {
    int format;
    char *train, *valid, *test;                       /* files or folders; images for idx */
    char *train_labels, *valid_labels, *test_labels;  /* idx */
    int shortest, longest, symbols;                   /* copy, reverse: of the generated sources; recall: pairs, keys */
    double valid_fraction;                            /* share of train that is held out if valid is empty */
    int64_t limit;                                    /* bytes or examples of train that are used; 0 = all */
    int resize, resize_side, resize_filter;           /* images */
    int shift, margin, only;                          /* images */
    int joined;                                       /* fasta, midi */
    int transpose, fine;                              /* midi; fine: the grid has thirds of sixteenths */
    int64_t min_count;                                /* words */
    int vocab_size;                                   /* words, pieces */
    int separator, header, label_column, text_column; /* labelled: columns from 1 */
    char *label_key, *text_key;                       /* labelled: of JSONL */
    char *docs;                                       /* retrieval: id and text */
    char *class_names;                                /* labelled, png: "neg,pos" */
    char *tokenizer;                                  /* subwords: a file or folder */
} ll_data_options;

/* What a reader needs to know of a recipe. */
typedef struct {
    ll_data_options data;
    int channels;      /* of images: model.channels; 0: 1 */
    int task, classes; /* LL_TASK_...; classes: 0 = as many as the data have */
    int vocab;         /* tokens of the model; 0 = as many as the data have */
    int batch, length; /* length: 0 = as the data have */
    int streams;       /* rows of training batches are streams: consecutive windows of texts */
    int64_t seed;
    int closed; /* 1: the names of the classes are of other data, and a folder that they lack is an error */
} ll_reader_options;

extern const ll_key_table ll_data_keys;

#endif
