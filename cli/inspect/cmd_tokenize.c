/* longline tokenize: the tokens that a model, or a tokenizer, makes of a text, and the text of tokens. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int ids, lines, bare, decode;

static const ll_arg args[] = {
    {LL_ARG_FLAG, 0, "ids", NULL, &ids, 0, 0, "numbers alone, in one line"},
    {LL_ARG_FLAG, 0, "lines", NULL, &lines, 0, 0, "each line is a text of its own, and has a line of numbers"},
    {LL_ARG_FLAG, 0, "bare", NULL, &bare, 0, 0, "without the tokens that go around a text, as [CLS] and [SEP]"},
    {LL_ARG_FLAG, 0, "decode", NULL, &decode, 0, 0, "read numbers, write the text that they stand for"},
    {.type = LL_ARG_END},
};

typedef struct {
    ll_model *model; /* NULL: a tokenizer by itself */
    ll_tokenizer *tokenizer;
    char *text;
    size_t n;
    int has_blank; /* does it put a blank before a text, which decoding takes away? */
} work;

/* ---- Text to tokens ---- */

/* A token's text between quotes; what cannot be shown, or is part of a character, as \xNN. */
static void show_text(const char *text, size_t n) {
    putchar('"');
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c == '\n')
            printf("\\n");
        else if (c == '\t')
            printf("\\t");
        else if (c < 32 || c >= 127)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    printf("\"\n");
}

static void show(work *w, const int *tokens, size_t n, size_t *shown) {
    enum { SOME = 1 << 16 };
    ll_progress_line progress = ll_progress_of(LL_PROGRESS_SHARE, "tokens written");
    for (size_t i = 0; i < n; i++, ++*shown) {
        if (i && i % SOME == 0 && !lines) (void)ll_progress_report((int64_t)i, (int64_t)n, &progress);
        if (ids || lines) {
            printf("%s%d", *shown ? " " : "", tokens[i]);
            continue;
        }
        size_t size;
        const char *text = ll_tokenizer_text(w->tokenizer, tokens[i], &size);
        printf("%d\t", tokens[i]);
        show_text(text, size);
    }
    ll_progress_end(&progress);
}

static int encode_text(work *w, const char *text, size_t n) {
    int *tokens = NULL;
    size_t count = 0, before_n, after_n, shown = 0;
    const int *before = ll_tokenizer_special(w->tokenizer, LL_SPECIAL_BEFORE, &before_n);
    const int *after = ll_tokenizer_special(w->tokenizer, LL_SPECIAL_AFTER, &after_n);
    const ll_status status = ll_tokenizer_encode(w->tokenizer, text, n, &tokens, &count);
    if (status) return ll_failed(status, NULL);
    ll_line_break();
    if (!bare) show(w, before, before_n, &shown);
    show(w, tokens, count, &shown);
    if (!bare) show(w, after, after_n, &shown);
    if (ids || lines) putchar('\n');
    ll_text_free(tokens);
    return -1;
}

/* ---- Tokens to text ---- */

/* A text of one letter shows it. */
static void find_blank(work *w) {
    int *tokens = NULL;
    size_t count = 0, size = 0;
    if (ll_tokenizer_encode(w->tokenizer, "a", 1, &tokens, &count)) return;
    const char *text = count ? ll_tokenizer_text(w->tokenizer, tokens[0], &size) : "";
    w->has_blank = size && *text == ' ';
    ll_text_free(tokens);
}

/* Between numbers. */
static int is_between(char c) { return c && strchr(" \t\r\n,", c); }

/* The next number before `end`; -1: there is none; -2: it is no token, which it says. */
static int next_token(const work *w, const char **text, const char *end) {
    const int vocab = ll_tokenizer_vocab(w->tokenizer);
    while (*text < end && is_between(**text)) ++*text;
    if (*text >= end) return -1;
    const char *word = *text;
    int64_t token = 0;
    for (; *text < end && !is_between(**text); ++*text)
        token = **text < '0' || **text > '9' || token >= vocab ? vocab : 10 * token + **text - '0';
    if (token < vocab) return (int)token;
    ll_print("'%.*s' is no token; numbers from 0 to %d are", (int)(*text - word < 100 ? *text - word : 100), word,
             vocab - 1);
    return -2;
}

static int decode_text(work *w, const char *text, size_t n) {
    const char *at = text, *end = text + n;
    int token, first = 1;
    while ((token = next_token(w, &at, end)) >= 0) continue; /* all of them first: a text is whole or not there */
    if (token == -2) return 2;
    for (; (token = next_token(w, &text, end)) >= 0; first = 0) {
        size_t size;
        const char *out = ll_tokenizer_text(w->tokenizer, token, &size);
        const int skip = first && w->has_blank && size && *out == ' ';
        fwrite(out + skip, 1, size - (size_t)skip, stdout);
    }
    if (lines) putchar('\n');
    return -1;
}

/* ---- The command ---- */

static int convert(work *w) {
    int (*const one)(work *, const char *, size_t) = decode ? decode_text : encode_text;
    if (decode) find_blank(w);
    if (!lines) return one(w, w->text, w->n);
    const char *line;
    int code = -1;
    ll_progress_line progress = ll_progress_of(LL_PROGRESS_BYTES, decode ? "tokens" : "text");
    for (size_t at = 0, n; code < 0 && ll_next_line(w->text, w->n, &at, &line, &n);) {
        code = one(w, line, n);
        (void)ll_progress_report((int64_t)at, (int64_t)w->n, &progress);
    }
    ll_progress_end(&progress);
    return code;
}

/* Does a model lie there? Else it is a tokenizer. A model begins with the size of a header, which begins with {; or it
 * is packed. */
static int is_model(const char *path) {
    static const char packed[][3] = {"\x1f\x8b", "\xfd\x37", "\x28\xb5", "\x50\x2a"}; /* the last is of pzstd */
    char name[PATH_MAX], first[9] = {0};
    struct stat about;
    if (stat(path, &about)) return strstr(path, ".safetensors") != NULL;
    if (S_ISDIR(about.st_mode)) return ll_model_file(path, name) != path;
    if (!S_ISREG(about.st_mode)) return 1;
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(first, 1, sizeof first, file) : 0;
    if (file) fclose(file);
    int is = n == sizeof first && first[8] == '{' && !memcmp(first + 4, "\0\0\0\0", 4);
    for (size_t i = 0; i < sizeof packed / sizeof *packed && !strstr(path, ".json"); i++)
        is |= n >= 2 && !memcmp(first, packed[i], 2);
    return is;
}

static int open_tokenizer(work *w, const char *path) {
    if (!is_model(path)) {
        const ll_status status = ll_tokenizer_import(&w->tokenizer, path);
        return status ? ll_failed(status, path) : -1;
    }
    const int code = ll_load_model(&w->model, path);
    if (code >= 0) return code;
    if (ll_reads_images(ll_model_recipe(w->model))) {
        ll_print("%s reads images, which have no tokens of text; use %s", path, ll_uses(w->model));
        return 2;
    }
    const ll_status status = ll_tokenizer_create(&w->tokenizer, w->model);
    return status ? ll_failed(status, NULL) : -1;
}

static int tokenize(int n, const char **words) {
    work w = {0};
    if (ids && decode) return ll_usage("--ids is of what --decode reads, not of what it writes");
    int code = open_tokenizer(&w, words[0]);
    if (code < 0 && n < 2 && isatty(STDIN_FILENO)) ll_print("reads from the terminal; Ctrl-D ends the text");
    if (code < 0) code = ll_read_whole(n > 1 ? words[1] : "-", SIZE_MAX, &w.text, &w.n);
    if (code < 0) code = convert(&w);
    ll_tokenizer_free(w.tokenizer);
    ll_model_free(w.model);
    free(w.text);
    return code < 0 ? 0 : code;
}

const ll_command ll_command_tokenize = {
    .name = "tokenize",
    .words = "MODEL [FILE]",
    .least = 1,
    .most = 2,
    .summary = "show the tokens that a model makes of a text",
    .text =
        "Reads a text from FILE (plain, .gz, .xz, .zst; else standard input) and prints a line for each token: its\n"
        "number and what it stands for. MODEL may also be a tokenizer by itself: tokenizer.json, or a folder with it\n"
        "or with vocab.txt, or with vocab.json and merges.txt, or with tokenizer.model. What --decode writes of the\n"
        "numbers from --ids is the text again, byte for byte, where the tokenizer keeps all of it, as GPT-2's does.\n\n"
        "  echo 'Hello, world' | longline tokenize gpt2.safetensors\n"
        "  longline tokenize gpt2/tokenizer.json book.txt --ids | wc -w\n"
        "  longline tokenize gpt2.safetensors book.txt --ids | longline tokenize gpt2.safetensors --decode",
    .args = args,
    .run = tokenize,
};
