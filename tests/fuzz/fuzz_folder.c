/* Any bytes as the files of a tokenizer's folder: refused with a reason, or a tokenizer.json that is read or refused
 * with one. A file is its number in the list below and its text, and ends with a byte 31. */
#include "base/memory.h"
#include "data/subwords/subwords.h"
#include "data/subwords/tokenizer_files.h"
#include "fuzz/read_all.h"

static const char *const names[] = {"tokenizer.json",          "vocab.json",       "merges.txt",
                                    "tokenizer_config.json",   "tokenizer.model",  "vocab.txt",
                                    "special_tokens_map.json", "added_tokens.json"};
enum { NAMES = sizeof names / sizeof *names, END = 31 };

static void write_files(const uint8_t *data, size_t size) {
    for (int i = 0; i < NAMES; i++) {
        const char *path = file_of(names[i], data, 0);
        check(!unlink(path));
    }
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, END, size - at);
        const size_t n = end ? (size_t)(end - data) - at : size - at;
        if (n) (void)file_of(names[data[at] % NAMES], data + at + 1, n - 1);
        at += n + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ll_bytes json = {0};
    ll_subwords *s = NULL;
    int number = -2;
    write_files(data, size);
    if (ll_subwords_find(&json, own_folder)) {
        check(strlen(ll_error()) > 10);
    } else if (json.data) {
        if (ll_subwords_create(&s, &json, "input")) check(!s && strlen(ll_error()) > 10);
        ll_subwords_free(s);
    }
    if (ll_subwords_number(&number, own_folder, "a")) check(strlen(ll_error()) > 10);
    check(number >= -1);
    ll_bytes_free(&json);
    return 0;
}
