/* Every key there is, once: its name, field, default, range and what it means. Parsing, printing, help and
 * error texts are loops over this table. */
#include "recipe/recipe_key.h"

#include <string.h>

#define RANGE(help, lo, hi) help " (" #lo " to " #hi ")"
#define KEY(name, word, type, field, fallback, choices, lo, hi, help)                                                  \
    { {name, word, fallback, choices, help}, type, offsetof(ll_config, field), (double)(lo), (double)(hi) }
#define INT(name, field, fallback, lo, hi, help)                                                                       \
    KEY(name, "integer", LL_KEY_INT, field, fallback, NULL, lo, hi, RANGE(help, lo, hi))
#define INT64(name, field, fallback, lo, hi, help)                                                                     \
    KEY(name, "integer", LL_KEY_INT64, field, fallback, NULL, lo, hi, RANGE(help, lo, hi))
#define NUMBER(name, field, fallback, lo, hi, help)                                                                    \
    KEY(name, "number", LL_KEY_NUMBER, field, fallback, NULL, lo, hi, RANGE(help, lo, hi))
#define FLAG(name, field, fallback, help) KEY(name, "flag", LL_KEY_FLAG, field, fallback, "on|off", 0, 1, help)
#define TEXT(name, field, help) KEY(name, "text", LL_KEY_TEXT, field, "", NULL, 0, 0, help)
#define CHOICE(name, field, fallback, choices, help)                                                                   \
    KEY(name, "choice", LL_KEY_CHOICE, field, fallback, choices, 0, 0, help)

/* Choices are numbered in this order by the enums of recipe.h. */
// clang-format off
const ll_key ll_keys[] = {
    CHOICE("model.task", model.task, "lm", "lm|classify|mlm|match|seq2seq",
           "what to learn: the next token, a class, masked tokens, whether texts belong together, another sequence"),
    INT("model.vocab", model.vocab, "256", 0, 1000000, "tokens that exist; 0 = as many as the data has"),
    INT("model.classes", model.classes, "10", 0, 1000000, "classes of a classifier; 0 = as many as the data has"),
    INT("model.layers", model.layers, "6", 1, 1000, "Transformer blocks"),
    INT("model.encoder-layers", model.encoder_layers, "0", 0, 1000, "blocks of the encoder, task = seq2seq; 0 = layers"),
    INT("model.width", model.width, "512", 1, 65536, "numbers that represent a token"),
    INT("model.heads", model.heads, "8", 1, 1024, "attention heads of a block"),
    INT("model.head-size", model.head_size, "0", 0, 65536, "values of a head; 0 = width / heads"),
    INT("model.ff", model.ff, "2048", 1, 1048576, "hidden units of the feed-forward layer"),
    INT("model.separator", model.separator, "-1", -1, 999999,
        "token that begins a document anew, so that nothing before it is seen: 10 = lines, 0 = files; -1 = none"),
    CHOICE("model.norm", model.norm, "pre", "pre|post", "layer norm before each sublayer, or after its sum"),
    CHOICE("model.activation", model.activation, "gelu", "gelu|relu", "nonlinearity of the feed-forward layer"),
    FLAG("model.tied-embedding", model.tied, "on", "output layer of a language model = its token embedding"),
    CHOICE("model.pool", model.pool, "mean", "mean|first",
           "what a classifier reads: the mean of all tokens, or a learned token that is put in front (first)"),
    FLAG("model.embedding-norm", model.embedding_norm, "off", "layer norm after the embedding"),
    FLAG("model.final-norm", model.final_norm, "on", "layer norm after the last block, where norm = pre"),
    NUMBER("model.dropout", model.dropout, "0", 0, 0.99, "share of activations set to 0 in training"),
    NUMBER("model.init-std", model.init_std, "0", 0, 10,
           "standard deviation of new weights; 0 = 0.02 at width 512, more where that is less: 0.45 / sqrt(width)"),

    CHOICE("attention.kernel", attention.kernel, "softmax",
           "softmax|favor|relu|elu1|exp|sigmoid|abs|gelu|cos|tanh|identity|square|"
           "value|local|linformer|nystrom|reformer",
           "exact softmax, or linear: its estimate by random features (favor), or features f(x), f = max(x, 0), ...; "
           "value: V itself, the papers' identity attention (OPT); local: softmax over near tokens; "
           "linformer: over learnt sums of tokens; nystrom: through landmarks; "
           "reformer: over what a hash puts near"),
    INT("attention.query-multiple", attention.query_multiple, "1", 1, 64, "query and key size of a head / its value size"),
    CHOICE("attention.features", attention.features, "positive", "positive|hyperbolic|trigonometric|gaussian",
           "kind of random features, kernel = favor; all but positive make two of a row, gaussian has its own kernel"),
    INT("attention.num-features", attention.num_features, "256", 0, 65536, "features of a head after a random projection"),
    CHOICE("attention.projection", attention.projection, "auto", "auto|none|orthogonal|iid|hadamard|givens",
           "random projection before the features; auto = orthogonal for favor, none for other kernels"),
    CHOICE("attention.row-norms", attention.row_norms, "chi", "chi|sqrt-d",
           "lengths of its rows: of normal vectors, or all the same (the regularised softmax kernel)"),
    INT("attention.redraw", attention.redraw, "1000", 0, 1000000000,
        "steps between new draws of the random features, kernel = favor, until the rate falls low; 0 = never"),
    FLAG("attention.normalise", attention.normalise, "on",
         "divide by the sum of the weights, linear kernels; off where features can be negative and sums come near 0"),
    NUMBER("attention.feature-eps", attention.feature_eps, "-1", -1, 1,
           "added to every feature; -1 = 0 for favor, elu1, exp and sigmoid, 0.001 for the others"),
    INT("attention.window", attention.window, "128", 1, 1048576,
        "tokens that a token sees on each side, itself included, kernel = local"),
    INT("attention.max-length", attention.linformer_length, "4096", 1, 16777216, "longest sequence, kernel = linformer"),
    INT("attention.projected-length", attention.linformer_rank, "256", 1, 65536,
        "sums of keys and values that are left of a sequence, kernel = linformer"),
    INT("attention.landmarks", attention.landmarks, "64", 1, 1024, "means of queries and of keys, kernel = nystrom"),
    INT("attention.iterations", attention.iterations, "6", 1, 64,
        "steps towards the inverse between landmarks, kernel = nystrom"),
    INT("attention.buckets", attention.buckets, "64", 2, 65536, "values of the hash, an even number, kernel = reformer"),
    INT("attention.chunk", attention.chunk, "64", 1, 4096,
        "tokens that see each other and as many before them, sorted by hash, kernel = reformer"),
    INT("attention.rounds", attention.rounds, "4", 1, 64, "hashes, each of which adds to what a token sees, kernel = reformer"),
    CHOICE("attention.compat", attention.compat, "none",
           "none|google|lucidrains|fast-transformers|permuteformer|relative-performer",
           "stabiliser, eps and divisor of a released program, linear kernels; causal favor may then see later tokens"),

    CHOICE("position.type", position.type, "none",
           "none|sinusoidal|learned|permute|permute2d|rope|rope-linear|sine-spe|conv-spe|relative-s1|"
           "relative-s2|t5|shaw|orthogonal",
           "how tokens know where they are; permute, permute2d, rope-linear and orthogonal turn features of linear "
           "kernels, t5 and shaw add to logits of softmax. Ablations of PermuteFormer: permute with decay = none is "
           "without r, none with decay = fixed without pi, orthogonal without Property 3"),
    CHOICE("position.cycles", position.cycles, "long", "random|long",
           "of the permutations of permute and permute2d: those of a random one, as published, or one of more than "
           "half of the features, of another length in each head, which is faster"),
    CHOICE("position.decay", position.decay, "none", "none|fixed",
           "weight r^distance with one r a head, causal linear kernels"),
    NUMBER("position.decay-first", position.decay_first, "2", -20, 20, "r of the first head = 1 / (1 + exp(-decay-first))"),
    NUMBER("position.decay-last", position.decay_last, "5", -20, 20,
           "where heads go from decay-first in equal steps, reached one past the last head"),
    CHOICE("position.cross", position.cross, "none", "none|start|end|both",
           "where cross attention counts positions of the source from: its start, its end, half of the heads each"),
    INT("position.max-length", position.max_length, "4096", 1, 16777216, "positions in the table, type = learned"),
    INT("position.width", position.width, "0", 0, 32768, "pixels in a row, for images; 0 = as the data has"),
    INT("position.height", position.height, "0", 0, 32768, "rows of an image; 0 = as the data has"),
    FLAG("position.image", position.image, "off", "tokens are the pixels of an image, types conv-spe, relative-s1, -s2"),
    INT("position.realizations", position.realizations, "64", 1, 65536, "width of queries and keys, types sine-spe, conv-spe"),
    INT("position.sines", position.sines, "5", 1, 4096, "sinusoids of a feature, type = sine-spe"),
    INT("position.taps", position.taps, "16", 1, 4096, "length of a filter along each axis, type = conv-spe"),
    FLAG("position.gated", position.gated, "on", "learn how much each feature minds positions, types sine-spe, conv-spe"),
    FLAG("position.shared", position.shared, "off",
         "all layers have the same parameters and noise, types spe, relative, t5, shaw"),
    INT("position.scales", position.scales, "8", 1, 4096, "learnt frequencies, type = relative-s1"),
    INT("position.clip", position.distances, "6", 1, 255, "distances from here on count as one, types relative-s2, shaw"),
    FLAG("position.values", position.distance_values, "on", "values, too, have vectors by distance, type = shaw"),

    INT64("train.steps", train.steps, "10000", 0, 1000000000000, "updates of the parameters"),
    INT64("train.warmup", train.warmup, "500", 0, 1000000000000, "steps in which the learning rate rises from 0"),
    INT("train.batch", train.batch, "8", 1, 65536, "sequences in a batch"),
    INT("train.length", train.length, "1024", 0, 134217728, "tokens in a sequence; 0 = as the data has (images)"),
    INT("train.accumulate", train.accumulate, "1", 1, 65536, "batches whose gradients make one step"),
    CHOICE("train.precision", train.precision, "fp32", "fp32|bf16",
           "what products of linear layers and logits multiply; bf16 is faster on AMD processors from Zen 4 on"),
    CHOICE("train.optimizer", train.optimizer, "adamw", "adam|adamw",
           "Adam with weight decay in the gradient, or beside it"),
    CHOICE("train.schedule", train.schedule, "cosine", "constant|linear|inverse-sqrt|cosine",
           "the learning rate after the warm-up"),
    NUMBER("train.learning-rate", train.learning_rate, "0.0005", 0, 100, "learning rate at its highest"),
    NUMBER("train.final-rate", train.final_rate, "0", 0, 100, "learning rate at the last step, schedules linear and cosine"),
    NUMBER("train.beta1", train.beta1, "0.9", 0, 0.999999, "memory of the mean of gradients"),
    NUMBER("train.beta2", train.beta2, "0.98", 0, 0.999999, "memory of the mean of squared gradients"),
    NUMBER("train.eps", train.eps, "1e-08", 1e-20, 1, "added to the root of the mean of squared gradients"),
    NUMBER("train.weight-decay", train.weight_decay, "0.01", 0, 10, "pull of weights towards 0, in learning rates"),
    NUMBER("train.clip", train.clip, "1", 0, 1e9, "largest norm of a gradient; 0 = any"),
    INT64("train.seed", train.seed, "1", 0, 9223372036854775807, "all that is random follows from it"),
    INT64("train.eval-every", train.eval_every, "500", 0, 1000000000000, "steps between evaluations; 0 = only at the end"),
    INT("train.eval-batches", train.eval_batches, "20", 0, 1000000000, "batches of an evaluation; 0 = the whole split"),
    INT64("train.checkpoint-every", train.checkpoint_every, "1000", 0, 1000000000000,
          "steps between checkpoints; 0 = only at the end"),
    TEXT("train.from", train.from,
         "model file, or folder of a run, whose weights this run begins with, where names and shapes are the same"),
    FLAG("train.report", train.report, "on", "write report.html, at evaluations and, with all figures, at the end"),

    CHOICE("data.format", data.format, "bytes",
           "bytes|idx|demo|fasta|words|labelled|listops|retrieval|cifar10|pathfinder|pieces|"
           "pairs|copy|reverse|copy-reverse|midi",
           "text by bytes, words or pieces, images, proteins (fasta), texts with classes or in pairs, lines of source "
           "TAB target (pairs), sources that are made, to be copied or reversed, or music (midi)"),
    TEXT("data.train", data.train,
         "training data: a file, plain, .gz or .xz; or a folder, formats bytes, words, pieces, fasta, midi, cifar10, "
         "labelled and pathfinder; or several of either with ':' between, all of these formats but the last two"),
    TEXT("data.valid", data.valid, "data to evaluate on while training; empty = valid-fraction of train"),
    TEXT("data.test", data.test, "data for the final evaluation"),
    TEXT("data.train-labels", data.train_labels, "labels of train, format = idx"),
    TEXT("data.valid-labels", data.valid_labels, "labels of valid, format = idx"),
    TEXT("data.test-labels", data.test_labels, "labels of test, format = idx"),
    NUMBER("data.valid-fraction", data.valid_fraction, "0.1", 0, 0.9,
           "share cut from the end of train where valid is empty"),
    INT("data.shortest", data.shortest, "1", 1, 1000000, "symbols of the shortest source, formats copy, reverse"),
    INT("data.longest", data.longest, "20", 1, 1000000, "symbols of the longest source, formats copy, reverse"),
    INT("data.symbols", data.symbols, "26", 1, 62, "different symbols, formats copy, reverse"),
    INT64("data.limit", data.limit, "0", 0, 1000000000000000, "bytes or examples of train in use; 0 = all"),
    INT("data.resize", data.resize, "0", 0, 4096, "images are made this wide and high; 0 = as they are"),
    INT("data.shift", data.shift, "0", -4096, 4096, "pixels that images are moved to the right; what comes in is 0"),
    INT("data.margin", data.margin, "0", 0, 4096, "only images with so many columns of 0 on both sides"),
    INT("data.only", data.only, "-1", -1, 255, "only images of this class, where data.margin is set; -1 = of all"),
    FLAG("data.joined", data.joined, "off",
         "sequences follow each other in windows of train.length, formats fasta, midi"),
    INT("data.transpose", data.transpose, "0", 0, 127, "semitones that music is moved up or down at most in training"),
    CHOICE("data.grid", data.fine, "4", "4|12", "places in a quarter note of music: sixteenths, or triplets, too"),
    INT64("data.min-count", data.min_count, "1", 1, 1000000000, "words seen less often are unknown, format = words"),
    INT("data.vocab-size", data.vocab_size, "0", 0, 1000000,
        "tokens of a vocabulary made from train; 0 = all words, 8000 pieces"),
    CHOICE("data.separator", data.separator, "tab", "tab|comma", "what parts columns, format = labelled: TSV or CSV"),
    FLAG("data.header", data.header, "off", "the first row has names of columns, format = labelled"),
    INT("data.label-column", data.label_column, "1", 1, 1000, "column of the class, format = labelled"),
    INT("data.text-column", data.text_column, "2", 1, 1000, "column of the text, format = labelled"),
    TEXT("data.docs", data.docs, "TSV of names and texts for format = retrieval; empty = pairs hold their texts"),
    TEXT("data.classes", data.class_names, "names of classes in order, as neg,pos; empty = numbers, or all names, sorted"),
};
// clang-format on

const int ll_key_count = sizeof ll_keys / sizeof *ll_keys;

const ll_recipe_key *ll_recipe_key_at(int i) {
    return i >= 0 && i < ll_key_count ? &ll_keys[i].about : NULL;
}

const ll_key *ll_key_find(const char *name) {
    for (int i = 0; i < ll_key_count; i++)
        if (!strcmp(ll_keys[i].about.name, name)) return &ll_keys[i];
    return NULL;
}

static const char *after_dot(const char *name) {
    const char *dot = strchr(name, '.');
    return dot ? dot + 1 : name;
}

/* A right word in a wrong section, or in none, is nearer than any other word. */
const char *ll_key_nearest(const char *name) {
    const char *nearest = NULL;
    int least = 1 << 20;
    for (int i = 0; i < ll_key_count; i++) {
        const char *key = ll_keys[i].about.name;
        const int whole = ll_edit_distance(key, name), word = 1 + ll_edit_distance(after_dot(key), after_dot(name));
        const int distance = whole < word ? whole : word;
        if (distance < least) {
            least = distance;
            nearest = key;
        }
    }
    return nearest;
}
