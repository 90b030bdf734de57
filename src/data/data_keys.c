/* The keys of [data]. Choices are numbered in this order by the enums of data_options.h. */
#include "data/data_options.h"

#define PART ll_data_options
#include "base/key_table.h"

#define FILES "data.format=bytes|idx|fasta|words|labelled|listops|retrieval|cifar10|pathfinder|pieces|pairs|midi|" \
              "subwords|png"
#define IMAGES "data.format=idx|cifar10|pathfinder|png"

// clang-format off
static const ll_key keys[] = {
    CHOICE("data.format", format, "bytes",
           "bytes|idx|demo|fasta|words|labelled|listops|retrieval|cifar10|pathfinder|pieces|"
           "pairs|copy|reverse|copy-reverse|midi|subwords|recall|png",
           "bytes, words, pieces, subwords: text; idx, cifar10, pathfinder, png: images; fasta: proteins; midi: music; "
           "labelled, listops: texts with classes; retrieval: pairs of texts; pairs: source TAB target; copy, reverse, "
           "recall: made"),
    TEXT_IF("data.train", train,
            "training data: a file, plain, .gz, .xz or .zst. Formats bytes, words, pieces, subwords, fasta, midi, "
            "cifar10, labelled and pathfinder also take a folder, and the first seven several paths with ':' between "
            "them; png takes a folder with one of PNG files for each class", FILES, RESUMABLE),
    TEXT_IF("data.valid", valid, "data to evaluate on while training; empty = valid-fraction of train",
            FILES, RESUMABLE),
    TEXT_IF("data.test", test, "data of the final evaluation", FILES, RESUMABLE),
    TEXT_IF("data.train-labels", train_labels, "labels of train; empty = the file beside the images",
            "data.format=idx", RESUMABLE),
    TEXT_IF("data.valid-labels", valid_labels, "labels of valid; empty = the file beside the images",
            "data.format=idx", RESUMABLE),
    TEXT_IF("data.test-labels", test_labels, "labels of test; empty = the file beside the images",
            "data.format=idx", RESUMABLE),
    NUMBER_IF("data.valid-fraction", valid_fraction, "0.1", 0, 0.9,
              "share of train, from its end, that is held out if valid is empty; formats labelled, listops, retrieval, "
              "png: from all of it", FILES),
    INT_IF("data.shortest", shortest, "1", 1, 1000000,
           "symbols of the shortest source, formats copy, reverse; least pairs, format recall",
           "data.format=copy|reverse|copy-reverse|recall"),
    INT_IF("data.longest", longest, "20", 1, 1000000,
           "symbols of the longest source, formats copy, reverse; most pairs, format recall",
           "data.format=copy|reverse|copy-reverse|recall"),
    INT_IF("data.symbols", symbols, "26", 1, 64,
           "number of different symbols, letters and then digits, formats copy, reverse (62 at most); of keys, "
           "format recall", "data.format=copy|reverse|copy-reverse|recall"),
    INT64("data.limit", limit, "0", 0, 1000000000000000, "bytes or examples of train that are used; 0 = all"),
    INT_IF("data.resize", resize, "0", 0, 4096, "width and height to which images are resized; 0 = as they are",
           IMAGES),
    INT_IF("data.resize-side", resize_side, "0", 0, 4096,
           "side of a square to which images are resized, whose middle of data.resize pixels, which must be set, is "
           "taken; 0 = data.resize", IMAGES),
    CHOICE_IF("data.resize-filter", resize_filter, "bilinear", "bilinear|bicubic", "how images are resized", IMAGES),
    INT_IF("data.shift", shift, "0", -4096, 4096, "pixels by which images are shifted to the right; new pixels are 0",
           IMAGES),
    INT_IF("data.margin", margin, "0", 0, 4096, "uses only images with so many empty columns on both sides", IMAGES),
    INT_IF("data.only", only, "-1", -1, 255, "uses only images of this class, if data.margin is set; -1 = all", IMAGES),
    FLAG_IF("data.joined", joined, "off", "joins sequences and cuts them into windows of train.length",
            "data.format=fasta|midi"),
    INT_IF("data.transpose", transpose, "0", 0, 127, "most semitones by which training transposes music",
           "data.format=midi"),
    CHOICE_IF("data.grid", fine, "4", "4|12", "positions in a quarter note of music; 12 also has triplets",
              "data.format=midi"),
    INT64_IF("data.min-count", min_count, "1", 1, 1000000000, "words that occur less often become <unk>",
             "data.format=words"),
    INT_IF("data.vocab-size", vocab_size, "0", 0, 1000000,
           "size of the vocabulary made from train; 0 = all words, or 8000 pieces", "data.format=words|pieces"),
    CHOICE_IF("data.separator", separator, "tab", "tab|comma", "separator of columns: TSV or CSV",
              "data.format=labelled"),
    FLAG_IF("data.header", header, "off", "the first row has the names of the columns", "data.format=labelled"),
    INT_IF("data.label-column", label_column, "1", 1, 1000, "column of the class", "data.format=labelled"),
    INT_IF("data.text-column", text_column, "2", 1, 1000, "column of the text", "data.format=labelled"),
    TEXT_IF("data.label-key", label_key, "key of the class in JSONL; empty = label", "data.format=labelled"),
    TEXT_IF("data.text-key", text_key, "key of the text in JSONL; empty = text or sequence",
            "data.format=labelled"),
    TEXT_IF("data.docs", docs, "TSV of names and texts; empty = the pairs contain their texts",
            "data.format=retrieval", RESUMABLE),
    TEXT_IF("data.tokenizer", tokenizer,
            "tokenizer.json, or a folder with it, with vocab.txt, with vocab.json and merges.txt, or with "
            "tokenizer.model; empty = the tokenizer of train.from", "data.format=subwords"),
    TEXT_IF("data.classes", class_names, "names of classes in order: neg,pos; empty = numbers, or all names, sorted",
            "model.task=classify"),
};
// clang-format on

const ll_key_table ll_data_keys = {keys, sizeof keys / sizeof *keys};
