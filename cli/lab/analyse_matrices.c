/* longline analyse matrices: attention matrices of each head on a text. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/analyse_write.h"

enum { TEXT = 1 << 20 }; /* bytes that are read of a text, and 64 more for each token */

typedef struct {
    const ll_attention_maps *how;
    ll_model *model;
    int layers, heads, most, T, n; /* most: of the T numbers that are read; n: tokens, with the CLS token */
    int *tokens;
    float *A, *streamed; /* (layers, heads, n, n); (heads, n, n) */
} matrices;

static int key(const ll_model *model, const char *name) {
    const char *text = ll_recipe_get(ll_model_recipe(model), name);
    return text ? atoi(text) : 0;
}

/* ---- The text ---- */

typedef struct {
    uint8_t *at;
    size_t size, capacity;
} bytes;

/* How the file is read: a model of images, proteins or music has one image, sequence or piece of it. */
static ll_input_format format_of(const ll_recipe *recipe) {
    const ll_input_format kind = ll_format_input(ll_recipe_get(recipe, "data.format"));
    if (ll_reads_images(recipe) || kind == LL_INPUT_FASTA) return LL_INPUT_AUTO;
    return kind == LL_INPUT_MIDI ? kind : LL_INPUT_WHOLE;
}

/* The first sequence of the file, or as much of it as there is space for. */
static ll_status read_sequence(const matrices *x, bytes *text) {
    const ll_recipe *recipe = ll_model_recipe(x->model);
    ll_input_options how = ll_input_of(recipe);
    ll_input *input = NULL;
    how.format = format_of(recipe);
    ll_status status = ll_input_open(&input, &x->how->text, 1, &how);
    for (int found = 1, ends = 0; !status && found && !ends && text->size < text->capacity;) {
        ll_sequence s;
        status = ll_input_next(input, &s, &found);
        if (status || !found) break;
        const size_t left = text->capacity - text->size, n = s.size < left ? s.size : left;
        memcpy(text->at + text->size, s.text, n);
        text->size += n;
        ends = s.ends;
    }
    ll_input_close(input);
    return status;
}

static void add_tokens(matrices *x, const int *tokens, size_t n) {
    for (size_t i = 0; i < n && x->T < x->most; i++) x->tokens[x->T++] = tokens[i];
}

/* The first tokens of the text, as the model reads it. */
static ll_status encode(matrices *x, const bytes *text) {
    ll_tokenizer *tokenizer = NULL;
    int *tokens = NULL;
    size_t n = 0;
    ll_status status = ll_tokenizer_create(&tokenizer, x->model);
    if (!status) status = ll_tokenizer_encode(tokenizer, text->at, text->size, &tokens, &n);
    if (!status) {
        size_t special;
        const int *before = ll_tokenizer_special(tokenizer, LL_SPECIAL_BEFORE, &special);
        add_tokens(x, before, special);
        add_tokens(x, tokens, n);
    }
    ll_text_free(tokens);
    ll_tokenizer_free(tokenizer);
    return status;
}

/* The first tokens of the file. -1, or the exit code. */
static int read_text(matrices *x) {
    const int image = ll_image_numbers(ll_model_recipe(x->model));
    bytes text = {.capacity = image ? (size_t)image + 1 : TEXT + 64 * (size_t)x->how->length};
    text.at = malloc(text.capacity);
    if (!text.at) return ll_fail_message("out of memory");
    ll_status status = read_sequence(x, &text);
    const int fits = !image || text.size == (size_t)image;
    if (!status && fits && text.size) status = encode(x, &text);
    free(text.at);
    if (status) return ll_failed(status, x->how->text);
    if (x->T) return -1;
    if (!text.size)
        ll_print("--text: %s is empty; name a file that holds some text", x->how->text);
    else
        ll_print("--text: %s has no image; the model reads those of %d numbers, from PNG or idx files", x->how->text,
                 image);
    return 2;
}

/* ---- Statistics of a matrix ---- */

typedef struct {
    double entropy, distance, diagonal, sum_low, sum_high,
        stream; /* means over queries; the largest difference to a stream */
} measures;

static measures measure(const matrices *x, const float *A, const float *streamed) {
    measures m = {.sum_low = INFINITY, .sum_high = -INFINITY};
    const int n = x->n;
    for (int i = 0; i < n; i++) {
        double sum = 0, entropy = 0, distance = 0;
        for (int j = 0; j < n; j++) {
            const double w = (double)A[(size_t)i * (size_t)n + (size_t)j];
            sum += w;
            if (w > 0) entropy -= w * log2(w);
            distance += w * abs(i - j);
            if (streamed) m.stream = fmax(m.stream, fabs(w - (double)streamed[(size_t)i * (size_t)n + (size_t)j]));
        }
        m.entropy += entropy / n;
        m.distance += distance / n;
        m.diagonal += (double)A[(size_t)i * (size_t)n + (size_t)i] / n;
        m.sum_low = fmin(m.sum_low, sum);
        m.sum_high = fmax(m.sum_high, sum);
    }
    return m;
}

static void print_layer(const matrices *x, int layer, const float *A, int streams) {
    const size_t size = (size_t)x->n * (size_t)x->n;
    for (int h = 0; h < x->heads; h++) {
        const measures m = measure(x, A + (size_t)h * size, streams ? x->streamed + (size_t)h * size : NULL);
        printf("%5d %5d %9.3f %9.2f %9.4f %9.4f %9.4f ", layer, h, m.entropy, m.distance, m.diagonal, m.sum_low,
               m.sum_high);
        if (streams)
            printf("%9.1e\n", m.stream);
        else
            printf("%9s\n", "-");
    }
}

/* ---- Files ---- */

static int write_csv(const matrices *x, int layer, const float *A) {
    char path[4200];
    snprintf(path, sizeof path, "%s/attention-%d.csv", x->how->folder, layer);
    ll_output output;
    FILE *file = ll_output_begin(&output, path);
    if (!file) return 1;
    fprintf(file, "layer,head,query,key,weight\n");
    for (int h = 0; h < x->heads; h++)
        for (int i = 0; i < x->n; i++)
            for (int j = 0; j < x->n; j++)
                fprintf(file, "%d,%d,%d,%d,%.7g\n", layer, h, i, j,
                        (double)A[((size_t)h * (size_t)x->n + (size_t)i) * (size_t)x->n + (size_t)j]);
    const int code = ll_output_end(&output);
    if (code < 0) printf("analyse.csv=%s\n", path);
    return code;
}

static int draw(const matrices *x, int first, int layers) {
    enum { MOST = 1024 };
    static ll_panel panels[MOST];
    static char labels[MOST][32];
    char path[4200], title[300];
    const int n = layers * x->heads < MOST ? layers * x->heads : MOST;
    for (int i = 0; i < n; i++) {
        snprintf(labels[i], sizeof labels[i], "layer %d head %d", first + i / x->heads, i % x->heads);
        panels[i] = (ll_panel){labels[i], x->n, x->n, x->A + (size_t)i * (size_t)x->n * (size_t)x->n};
    }
    snprintf(title, sizeof title, "Attention on %d tokens, %s and %s", x->n,
             ll_recipe_get(ll_model_recipe(x->model), "attention.kernel"),
             ll_recipe_get(ll_model_recipe(x->model), "position.type"));
    const ll_heat_map map = {.title = title,
                             .x_label = "across: the token attended to",
                             .y_label = "down: the token that attends",
                             .across = x->heads > 8 ? 8 : x->heads,
                             .n = n,
                             .panels = panels};
    snprintf(path, sizeof path, "%s/attention.%s", x->how->folder, x->how->ending);
    if (n < layers * x->heads) ll_print("%s shows the first %d of %d matrices", path, n, layers * x->heads);
    const ll_status status = ll_heat_map_write(&map, path);
    if (status) return ll_failed(status, NULL);
    printf("analyse.figure=%s\n", path);
    return -1;
}

/* ---- The command ---- */

static int run(matrices *x, int first, int layers) {
    const size_t size = (size_t)x->heads * (size_t)x->n * (size_t)x->n;
    const int streams = !ll_model_can_stream(x->model);
    int code = -1;
    printf("layer  head   entropy  distance  diagonal   least sum   most   stream\n");
    for (int l = 0; l < layers && code < 0; l++) {
        float *A = x->A + (size_t)l * size;
        ll_status status = ll_model_attention(x->model, x->tokens, x->T, first + l, 0, A);
        if (!status && streams) status = ll_model_attention(x->model, x->tokens, x->T, first + l, 1, x->streamed);
        if (status) return ll_failed(status, NULL);
        print_layer(x, first + l, A, streams);
    }
    printf(
        "\nentropy in bits, distance in tokens, both means over queries; diagonal: mean weight of a token for itself;\n"
        "sums of the weights of a query; stream: largest difference to the same weights from a stream.\n\n");
    for (int l = 0; l < layers && code < 0 && x->how->folder; l++)
        code = write_csv(x, first + l, x->A + (size_t)l * size);
    if (code < 0 && x->how->folder) code = draw(x, first, layers);
    return code < 0 ? 0 : code;
}

static int show_matrices(matrices *x) {
    const ll_attention_maps *how = x->how;
    x->layers = key(x->model, "model.layers"), x->heads = key(x->model, "model.heads");
    if (how->layer >= x->layers) return ll_usage("--layer %d: the model has layers 0 to %d", how->layer, x->layers - 1);
    const int first = how->layer < 0 ? 0 : how->layer, layers = how->layer < 0 ? x->layers : 1;
    const ll_recipe *recipe = ll_model_recipe(x->model);
    /* Patches make sense together alone. */
    x->most = key(x->model, "model.patch") ? ll_image_numbers(recipe) : how->length;
    x->tokens = calloc((size_t)x->most, sizeof *x->tokens);
    if (!x->tokens) return ll_fail_message("out of memory");
    const int code = read_text(x);
    if (code >= 0) return code;
    x->n = x->T / ll_patch_numbers(recipe) + ll_model_cls_tokens(x->model);
    if (how->folder && x->n > LL_HEAT_MAP_LONGEST)
        return ll_usage("pictures of matrices are of up to %d tokens, not %d: give a shorter --length, or no --out",
                        LL_HEAT_MAP_LONGEST, x->n);
    const size_t size = (size_t)x->heads * (size_t)x->n * (size_t)x->n;
    x->A = calloc((size_t)layers * size, sizeof *x->A);
    x->streamed = calloc(size, sizeof *x->streamed);
    if (!x->A || !x->streamed)
        return ll_fail_message("not enough memory for %d x %d matrices of %d heads; give a shorter --length", x->n,
                               x->n, x->heads);
    return run(x, first, layers);
}

int ll_attention_maps_at(const ll_attention_maps *how) {
    matrices x = {.how = how};
    int code = ll_load_model(&x.model, how->model);
    if (code >= 0) return code;
    code = show_matrices(&x);
    free(x.tokens), free(x.A), free(x.streamed);
    ll_model_free(x.model);
    return code;
}
