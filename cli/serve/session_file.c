/* What the header of a session's file tells, without its state. The file is safetensors: 8 bytes with the size of the
 * header, then the header as JSON (docs/format.md). */
#include <stdio.h>
#include <stdlib.h>

#include "serve/serve.h"
#include "serve/session.h"

enum { HEADER_MOST = 1 << 24 };

/* NULL: the file has none. */
static json_t *read_header(FILE *file) {
    unsigned char size[8];
    uint64_t n = 0;
    if (fread(size, 1, sizeof size, file) != sizeof size) return NULL;
    for (int i = 8; i--;) n = n << 8 | size[i];
    char *text = n <= HEADER_MOST ? ll_serve_try((size_t)n + 1, 1) : NULL;
    json_t *header = text && fread(text, 1, (size_t)n, file) == n ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
    free(text);
    return header;
}

int64_t ll_session_position(const char *path) {
    FILE *file = fopen(path, "rbe");
    if (!file) return -1;
    json_t *header = read_header(file);
    const char *position = json_string_value(json_object_get(json_object_get(header, "__metadata__"), "position"));
    const int64_t n = position ? strtoll(position, NULL, 10) : -1;
    json_decref(header);
    fclose(file);
    return n;
}
