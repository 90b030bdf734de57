/* INI text. We parse it ourselves because common parsers limit lines to 200 bytes, cut a path at " ;", and join
 * indented lines to the line before. */
#include "base/ini.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

enum { NAME = 200, TEXT_MOST = 1 << 20 };

typedef struct {
    const char *file;
    int line;
    char section[NAME];
    ll_ini_fn *each;
    void *arg;
} parser;

static int is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int is_comment(const char *at) {
    return *at == '#' || *at == ';';
}

/* The text within quotes, moved to where the quote began. */
static char *unquote(char *text, int comments) {
    char *to = text;
    const char *from = text + 1;
    while (*from && !(from[0] == '"' && from[1] != '"')) {
        from += *from == '"'; /* "" is one quote */
        *to++ = *from++;
    }
    if (!*from++) return NULL;
    while (is_space(*from)) from++;
    if (*from && !(comments && is_comment(from))) return NULL;
    *to = 0;
    return text;
}

char *ll_ini_trim(char *text, int comments) {
    while (is_space(*text)) text++;
    if (*text == '"') return unquote(text, comments);
    char *end = text;
    for (char *p = text; *p; p++) {
        if (comments && is_comment(p) && (p == text || is_space(p[-1]))) break;
        if (!is_space(*p)) end = p + 1;
    }
    *end = 0;
    return text;
}

int ll_ini_quoted(const char *value) {
    const size_t n = strlen(value);
    if (!n) return 0;
    if (value[0] == '"' || is_space(value[0]) || is_space(value[n - 1])) return 1;
    for (const char *p = value; *p; p++)
        if (is_comment(p) && (p == value || is_space(p[-1]))) return 1;
    return 0;
}

static ll_status at_line(const parser *p, ll_status status) {
    char where[1024];
    snprintf(where, sizeof where, "%s:%d", p->file, p->line);
    return ll_fail_in(status, where);
}

static ll_status parse_section(parser *p, char *line) {
    char *end = strchr(line, ']');
    if (!end) return ll_fail(LL_EFORMAT, "\"%.100s\" lacks its ]", line);
    *end = 0;
    const char *rest = ll_ini_trim(end + 1, 1), *name = ll_ini_trim(line + 1, 0);
    if (!rest || *rest) return ll_fail(LL_EFORMAT, "text after [%.100s] must be on a line of its own", line + 1);
    if (!name || strlen(name) >= NAME / 2) return ll_fail(LL_EFORMAT, "\"%.100s\" is not a section name", line);
    strcpy(p->section, name);
    return p->each(p->arg, p->section, NULL, NULL, p->line);
}

static ll_status parse_assignment(parser *p, char *line) {
    char *equals = strchr(line, '=');
    if (!equals && !*p->section)
        return ll_fail(LL_EFORMAT, "\"%.100s\" is neither [section] nor key = value; name a recipe (.ini)", line);
    if (!equals) return ll_fail(LL_EFORMAT, "\"%.100s\" is neither [section] nor key = value", line);
    *equals = 0;
    const char *word = ll_ini_trim(line, 0), *value = ll_ini_trim(equals + 1, 1);
    if (!value)
        return ll_fail(LL_EFORMAT, "%s%s%.*s: the quotes around the value do not match; \"\" inside stands for one",
                       p->section, *p->section ? "." : "", NAME, word ? word : "");
    return p->each(p->arg, p->section, word ? word : "", value, p->line);
}

static ll_status parse_line(parser *p, char *line) {
    line += strspn(line, " \t\r");
    if (!*line || *line == '#' || *line == ';') return LL_OK;
    return *line == '[' ? parse_section(p, line) : parse_assignment(p, line);
}

static ll_status parse_lines(parser *p, char *text) {
    if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3; /* the byte order mark that some editors write */
    for (char *next; text; text = next) {
        next = strchr(text, '\n');
        if (next) *next++ = 0;
        p->line++;
        const ll_status status = parse_line(p, text);
        if (status) return at_line(p, status);
    }
    return LL_OK;
}

ll_status ll_ini_parse(const char *text, const char *name, ll_ini_fn *each, void *arg) {
    parser p = {.file = name, .each = each, .arg = arg};
    if (strnlen(text, TEXT_MOST + 1) > TEXT_MOST)
        return ll_fail(LL_EFORMAT, "%s is longer than %d bytes, which is too long for a recipe", name, TEXT_MOST);
    char *copy = ll_strdup(text);
    const ll_status status = copy ? parse_lines(&p, copy) : LL_ENOMEM;
    ll_free(copy);
    return status;
}

static ll_status too_long(uint64_t *limit, const ll_bytes *so_far, void *path) {
    (void)limit, (void)so_far;
    return ll_fail(LL_EFORMAT, "%s is longer than %d bytes, which is too long for a recipe; name a recipe (.ini)",
                   (const char *)path, TEXT_MOST);
}

ll_status ll_ini_load(const char *path, ll_ini_fn *each, void *arg) {
    ll_bytes bytes = {0};
    ll_status status = ll_file_read_by(&bytes, path, TEXT_MOST, too_long, (void *)path);
    if (status) return status;
    if (memchr(bytes.data, 0, bytes.size))
        status = ll_fail(LL_EFORMAT, "%s is not text: it contains zero bytes; name a recipe (.ini)", path);
    else
        status = ll_ini_parse((const char *)bytes.data, path, each, arg);
    ll_bytes_free(&bytes);
    return status;
}
