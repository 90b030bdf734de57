/* INI text: sections in brackets, "key = value" lines, comments from # or ; at the start of a line or after
 * a space, values in quotes where they contain such things. Read here because the common parsers end lines
 * at 200 bytes, which paths exceed, take what follows " ;" off a path, and glue indented lines together. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/recipe_key.h"

enum { NAME = 200, TEXT_MOST = 1 << 20 };

typedef struct {
    ll_recipe *recipe;
    const char *file;
    int line;
    char section[NAME];
    int *seen; /* for every key, the line that set it */
} parser;

static ll_status at_line(const parser *p, ll_status status) {
    char where[1024];
    snprintf(where, sizeof where, "%s:%d", p->file, p->line);
    return ll_fail_in(status, where);
}

static ll_status parse_section(parser *p, char *line) {
    char *end = strchr(line, ']');
    if (!end) return ll_fail(LL_EFORMAT, "\"%.100s\" lacks its ]", line);
    *end = 0;
    const char *rest = ll_value_trim(end + 1, 1), *name = ll_value_trim(line + 1, 0);
    if (!rest || *rest) return ll_fail(LL_EFORMAT, "text after [%.100s] belongs on a line of its own", line + 1);
    if (!name || strlen(name) >= NAME / 2) return ll_fail(LL_EFORMAT, "\"%.100s\" is no name of a section", line);
    strcpy(p->section, name);
    return LL_OK;
}

static ll_status parse_assignment(parser *p, char *line) {
    char *equals = strchr(line, '=');
    if (!equals) return ll_fail(LL_EFORMAT, "\"%.100s\" is neither [section] nor key = value", line);
    *equals = 0;
    const char *word = ll_value_trim(line, 0), *value = ll_value_trim(equals + 1, 1);
    char name[2 * NAME];
    snprintf(name, sizeof name, "%s%s%.*s", p->section, *p->section ? "." : "", NAME, word ? word : "");
    const ll_key *key = ll_key_find(name);
    if (!key) return ll_fail(LL_EINVAL, "there is no key \"%.200s\"; the nearest is %s", name, ll_key_nearest(name));
    int *seen = &p->seen[key - ll_keys];
    if (*seen) return ll_fail(LL_EFORMAT, "%s is set for the second time; line %d was the first", name, *seen);
    *seen = p->line;
    if (!value)
        return ll_fail(LL_EFORMAT, "%s: the quotes around the value do not match; two in a row stand for one", name);
    return ll_key_assign(&p->recipe->c, key, value);
}

static ll_status parse_line(parser *p, char *line) {
    line += strspn(line, " \t\r");
    if (!*line || *line == '#' || *line == ';') return LL_OK;
    return *line == '[' ? parse_section(p, line) : parse_assignment(p, line);
}

static ll_status parse_lines(parser *p, char *text) {
    if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3; /* a mark some editors leave */
    for (char *next; text; text = next) {
        next = strchr(text, '\n');
        if (next) *next++ = 0;
        p->line++;
        const ll_status status = parse_line(p, text);
        if (status) return at_line(p, status);
    }
    return LL_OK;
}

ll_status ll_recipe_parse(ll_recipe **recipe, const char *text, const char *name) {
    parser p = {.file = name};
    char *copy = NULL;
    ll_status status = strnlen(text, TEXT_MOST + 1) > TEXT_MOST
                           ? ll_fail(LL_EFORMAT, "%s is longer than %d bytes; a recipe is not", name, TEXT_MOST)
                           : ll_recipe_create(&p.recipe);
    if (status) return status;
    p.seen = ll_alloc((size_t)ll_key_count, sizeof *p.seen);
    copy = ll_strdup(text);
    status = p.seen && copy ? parse_lines(&p, copy) : LL_ENOMEM;
    ll_free(copy);
    ll_free(p.seen);
    if (status)
        ll_recipe_free(p.recipe);
    else
        *recipe = p.recipe;
    return status;
}

ll_status ll_recipe_load(ll_recipe **recipe, const char *path) {
    ll_bytes bytes = {0};
    ll_status status = ll_file_read(&bytes, path, TEXT_MOST);
    if (status) return status;
    if (memchr(bytes.data, 0, bytes.size))
        status = ll_fail(LL_EFORMAT, "%s is no text: it contains zero bytes; give it a recipe (.ini)", path);
    else
        status = ll_recipe_parse(recipe, (const char *)bytes.data, path);
    ll_bytes_free(&bytes);
    return status;
}
