/* API keys, from a file with one on each line: KEY, or KEY and a name for the log. Digests are compared, always all of
 * them and all of their bytes, so that the time does not show how much of a guess is right. */
#include <errno.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "serve/api_keys.h"
#include "serve/serve.h"

enum { MOST = 1000, NAME = 64 };
static struct {
    uint8_t digest[SHA256_DIGEST_LENGTH];
    char name[NAME], owner[LL_OWNER + 1];
} *keys;
static int n;

static void digest(uint8_t out[SHA256_DIGEST_LENGTH], const char *text) {
    SHA2_CTX c;
    SHA256Init(&c);
    SHA256Update(&c, (const uint8_t *)text, strlen(text));
    SHA256Final(out, &c);
}

static int read_line(const char *path, int line, char *text) {
    char *key = strtok(text, " \t\r\n"), *name = key ? strtok(NULL, " \t\r\n") : NULL;
    if (!key || *key == '#') return -1;
    if (strlen(key) < 16)
        return ll_usage("%s, line %d: a key of %zu characters can be guessed; take 16 or more", path, line,
                        strlen(key));
    if (n == MOST) return ll_usage("%s has more than %d keys", path, MOST);
    digest(keys[n].digest, key);
    for (int i = 0; i < LL_OWNER / 2; i++) snprintf(keys[n].owner + 2 * i, 3, "%02x", keys[n].digest[i]);
    if (name)
        snprintf(keys[n].name, NAME, "%.*s", ll_shown(name, NAME - 1), name);
    else
        snprintf(keys[n].name, NAME, "key-%d", n + 1);
    n++;
    return -1;
}

int ll_keys_load(const char *path) {
    char *line = NULL;
    size_t capacity = 0;
    int code = -1, number = 0;
    struct stat info;
    if (!path) return -1;
    FILE *file = ll_serve_open(path);
    if (!file) return ll_usage("--api-keys %s cannot be read: %s", path, strerror(errno));
    if (!fstat(fileno(file), &info) && info.st_mode & 077)
        ll_print("%s can be read by other users; chmod 600 helps", path);
    keys = ll_serve_alloc(MOST, sizeof *keys);
    while (code < 0 && getline(&line, &capacity, file) >= 0) code = read_line(path, ++number, line);
    if (ferror(file)) code = ll_usage("--api-keys %s cannot be read: %s", path, strerror(errno));
    if (line) explicit_bzero(line, capacity);
    free(line);
    fclose(file);
    return code < 0 && !n ? ll_usage("%s has no keys", path) : code;
}

/* Nonzero if the digests differ. Takes the same time for all. */
static unsigned difference(const uint8_t *a, const uint8_t *b) {
    volatile unsigned all = 0;
    for (size_t i = 0; i < SHA256_DIGEST_LENGTH; i++) all |= (unsigned)(a[i] ^ b[i]);
    return all;
}

int ll_keys_find(const char *authorization) {
    uint8_t given[SHA256_DIGEST_LENGTH];
    int found = -1;
    if (!keys) return 0;
    digest(given, authorization && !strncasecmp(authorization, "Bearer ", 7) ? authorization + 7 : "");
    for (int i = 0; i < n; i++)
        if (!difference(given, keys[i].digest)) found = i + 1;
    return found;
}

const char *ll_keys_name(int key) { return key > 0 ? keys[key - 1].name : ""; }

const char *ll_keys_owner(int key) { return key > 0 ? keys[key - 1].owner : "0000000000000000"; }
