/* Small files of each format, in the folder of a test program. */
#ifndef LL_EACH_FORMAT_H
#define LL_EACH_FORMAT_H

#include "guard.h"
#include "png_file.h"

static uint64_t seed = 1; /* of what is drawn in the files */

static inline void make(const char *sub) { CHECK_OK(ll_folder_create(at(sub))); }

/* Lines of words. */
static inline size_t write_words(char *text, int words) {
    size_t n = 0;
    for (int i = 0; i < words; i++)
        n += (size_t)sprintf(text + n, "w%d%s", below(&seed, 40), below(&seed, 7) ? " " : "\n");
    return n;
}

/* A folder of texts, of which one is packed. */
static inline char *put_texts(const char *sub) {
    static char text[1 << 16];
    char name[300];
    make(sub);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s/%d", sub, i);
        const size_t n = write_words(text, 20 + 200 * i);
        if (i == 3)
            put_gz(name, text, n);
        else
            put(name, text, n);
    }
    return kept(at(sub));
}

static inline char *put_proteins(void) {
    static char text[1 << 14];
    char name[300];
    make("proteins");
    for (int file = 0; file < 3; file++) {
        size_t n = 0;
        for (int i = 0; i < 20; i++) {
            n += (size_t)sprintf(text + n, ">s\n");
            for (int k = 1 + below(&seed, 90); k; k--) text[n++] = "ACDEFGHIKL"[below(&seed, 10)];
            text[n++] = '\n';
        }
        snprintf(name, sizeof name, "proteins/%d", file);
        if (file == 1)
            put_xz(name, text, n);
        else
            put(name, text, n);
    }
    return kept(at("proteins"));
}

static inline char *put_rows(const char *name, const char *format, int rows, int packed) {
    static char text[1 << 17];
    size_t n = 0;
    for (int i = 0; i < rows; i++)
        n += (size_t)sprintf(text + n, format, i % 2, i % 50, i * 7 % 50, below(&seed, 1000));
    return kept(packed ? put_gz(name, text, n) : put(name, text, n));
}

static inline char *put_class_texts(void) {
    char name[300], text[100];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "films/%s", i % 2 ? "pos" : "neg");
        make(name);
        snprintf(name, sizeof name, "films/%s/%d", i % 2 ? "pos" : "neg", i);
        put(name, text, (size_t)sprintf(text, "text number %d, of %d bytes or so", i, below(&seed, 1000)));
    }
    return kept(at("films"));
}

static inline char *put_music(void) {
    static const char *const notes[] = {"Pitch_60", "Pitch_64", "Pitch_67"};
    char name[300], text[1 << 12];
    make("music");
    for (int i = 0; i < 6; i++) {
        size_t n = (size_t)sprintf(text, "Piece Bar Meter_4/4 ");
        for (int k = 0; k < 20 + 10 * i; k++)
            n += (size_t)sprintf(text + n, "Position_%d %s Duration_4 ", 1 + k % 16, notes[below(&seed, 3)]);
        snprintf(name, sizeof name, "music/%d.txt", i);
        put(name, text, n);
    }
    return kept(at("music"));
}

static inline char *put_pictures(void) {
    char name[300];
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "pictures/%s", i % 3 ? "cat" : "dog");
        make(name);
        snprintf(name, sizeof name, "pictures/%s/%d.png", i % 3 ? "cat" : "dog", i);
        put_png(name, 9 + i, 9, 20 * i);
    }
    return kept(at("pictures"));
}

static inline char *put_paths(void) {
    char name[300], list[2000];
    size_t n = 0;
    make("paths/metadata");
    make("paths/imgs");
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "paths/imgs/%d.png", i);
        put_png(name, 6, 6, i);
        n += (size_t)sprintf(list + n, "imgs %d.png %d %d\n", i, i, i % 2);
    }
    put("paths/metadata/0.npy", list, n);
    return kept(at("paths"));
}

static inline char *put_cifar(const char *name) {
    enum { RECORD = 3073, COUNT = 12 };
    static uint8_t records[COUNT * RECORD];
    for (int i = 0; i < COUNT * RECORD; i++) records[i] = (uint8_t)(i % RECORD ? below(&seed, 256) : i / RECORD % 10);
    return kept(put_gz(name, records, sizeof records));
}

static inline void put_idx(char **images, char **labels) {
    enum { SIDE = 6, COUNT = 30 };
    uint8_t image[16 + COUNT * SIDE * SIDE] = {0, 0, 8, 3, 0, 0, 0, COUNT, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    uint8_t label[8 + COUNT] = {0, 0, 8, 1, 0, 0, 0, COUNT};
    for (size_t i = 16; i < sizeof image; i++) image[i] = (uint8_t)below(&seed, 256);
    for (int i = 0; i < COUNT; i++) label[8 + i] = (uint8_t)(i % 5);
    *images = kept(put_gz("images", image, sizeof image));
    *labels = kept(put("labels", label, sizeof label));
}

/* Byte-pair encoding: a token for each byte, for "w1", and for two blanks. */
static inline char *put_tokenizer(void) {
    static char json[8000];
    size_t n = (size_t)sprintf(json, "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                                     "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int b = 0, next = 256; b < 256; b++) {
        const int seen = (b >= 33 && b <= 126) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        n += (size_t)sprintf(json + n, "%s\"\\u%04x\":%d", b ? "," : "", seen ? b : next++, b);
    }
    n += (size_t)sprintf(json + n, ",\"w1\":256,\"\\u0120\\u0120\":257},\"merges\":[\"w 1\",\"\\u0120 \\u0120\"]}}");
    return kept(put("tokenizer.json", json, n));
}

#endif
