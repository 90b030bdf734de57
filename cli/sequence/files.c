/* The files of sequences: their format, and whether they are there. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sequence/sequences.h"

int ll_choose_format(ll_input_format *kind, const char *format, int whole, int music) {
    static const struct {
        const char *name;
        ll_input_format kind;
    } kinds[] = {{"lines", LL_INPUT_LINES}, {"jsonl", LL_INPUT_JSONL}, {"fasta", LL_INPUT_FASTA},
                 {"idx", LL_INPUT_IDX},     {"png", LL_INPUT_PNG},     {"midi", LL_INPUT_MIDI}};
    *kind = music ? LL_INPUT_MIDI : whole ? LL_INPUT_WHOLE : LL_INPUT_AUTO;
    if (whole && format) return ll_usage("give --whole or --format, not both");
    if (!format) return -1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(format, kinds[i].name)) {
            *kind = kinds[i].kind;
            return -1;
        }
    return ll_usage("--format %s: needs lines, jsonl, fasta, idx, png or midi", format);
}

int ll_keys_check(const ll_input_options *how) {
    const char *const keys[] = {how->label_key, how->text_key, how->id_key};
    static const char *const options[] = {"--label-key", "--text-key", "--id-key"};
    if (how->format == LL_INPUT_AUTO || how->format == LL_INPUT_JSONL) return -1;
    for (int i = 0; i < 3; i++)
        if (keys[i]) return ll_usage("%s is for JSONL", options[i]);
    return -1;
}

/* Is it a table by its name, perhaps a packed one? */
static int is_table(const char *path) {
    static const char *const endings[] = {".csv", ".csv.gz", ".csv.xz", ".csv.zst",
                                          ".tsv", ".tsv.gz", ".tsv.xz", ".tsv.zst"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ll_ends_with(path, endings[i])) return 1;
    return 0;
}

void ll_tables_are_lines(int files, const char **paths) {
    int i = 0;
    while (i < files && !is_table(paths[i])) i++;
    if (i < files)
        ll_print(
            "%s is read as lines: each with all of its columns is one text, and so is a header. JSONL keeps a text "
            "apart; --format lines takes lines without this message",
            paths[i]);
}

const char *ll_first_unreadable(int files, const char **paths) {
    struct stat about;
    for (int i = 0; i < files; i++)
        if (strcmp(paths[i], "-") && (access(paths[i], R_OK) || stat(paths[i], &about) || S_ISDIR(about.st_mode)))
            return paths[i];
    return NULL;
}

static int is_called(const char *path, const char *name) { return !strcmp(ll_shown_path(path), name); }

void ll_note_empty(int files, const char **paths, int *file, const char *name) {
    const char *last = *file ? paths[*file - 1] : "";
    if (*file && name && is_called(last, name)) return;
    for (; *file < files && !(name && is_called(paths[*file], name)); ++*file)
        if (strcmp(paths[*file], last))
            ll_print("%s: there is no sequence in it", ll_shown_path(paths[*file]));
    if (name) ++*file;
}
