/* Runs a fuzz target without a fuzzer over the files of the folders named as arguments: each file as it is, truncated
 * at a few dozen sizes, and with one byte changed at a few hundred positions. Data are in blocks of their exact size,
 * so that the address sanitizer sees a read past the end. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long inputs;

static void feed(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    inputs++;
}

static void vary(uint8_t *data, size_t size) {
    static const uint8_t change[] = {0x01, 0x80, 0xff, 0x20};
    feed(data, size);
    for (size_t i = 0; i < 48 && i < size; i++) feed(data, size < 48 ? i : size * i / 48);
    /* Headers are at the beginning, so each of the first bytes is changed. */
    const size_t tries = size < 384 ? size : 384;
    for (size_t i = 0; i < tries; i++) {
        const size_t at = i < 256 || size < 384 ? i : 256 + (size - 256) * (i - 256) / 128;
        data[at] ^= change[i % 4];
        feed(data, size);
        data[at] ^= change[i % 4];
    }
}

static int one_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (!file || fstat(fileno(file), &about) || !S_ISREG(about.st_mode)) {
        fprintf(stderr, "%s: cannot be read\n", path);
        if (file) fclose(file);
        return 1;
    }
    const size_t size = (size_t)about.st_size;
    uint8_t *data = malloc(size + 1);
    const int bad = !data || fread(data, 1, size, file) != size;
    if (!bad) vary(data, size);
    free(data);
    fclose(file);
    return bad;
}

static int one_folder(const char *path) {
    struct dirent **entry = NULL;
    const int n = scandir(path, &entry, NULL, alphasort);
    int bad = n < 0, files = 0;
    for (int i = 0; i < n; i++) {
        char name[4096];
        if (entry[i]->d_name[0] != '.') {
            snprintf(name, sizeof name, "%s/%s", path, entry[i]->d_name);
            bad |= one_file(name);
            files++;
        }
        free(entry[i]);
    }
    free(entry);
    if (!files) fprintf(stderr, "%s: no files to replay\n", path);
    return bad || !files;
}

int main(int argc, char **argv) {
    int bad = argc < 2;
    for (int i = 1; i < argc; i++) bad |= one_folder(argv[i]);
    printf("%ld inputs\n", inputs);
    return bad;
}
