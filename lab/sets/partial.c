/* The file beside an unfinished download: its address and the version of the file, a line each. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "sets/fetch.h"

ll_status ll_partial_unwritable(const char *path) {
    return ll_fail(LL_EIO, "cannot write %s: %s", path, strerror(errno));
}

ll_status ll_partial_begin(ll_partial *part, const char *version) {
    char text[LL_VERSION_TEXT + 1];
    if (fflush(part->file) || ftruncate(fileno(part->file), 0)) return ll_partial_unwritable("what comes");
    part->bytes = 0;
    snprintf(part->version, sizeof part->version, "%s", version);
    unlink(part->note);
    if (!*version) return LL_OK;
    const size_t n = (size_t)snprintf(text, sizeof text, "%s\n", version), all = strlen(part->url) + 1 + n;
    char *note = ll_alloc(all + 1, 1);
    if (!note) return LL_ENOMEM;
    snprintf(note, all + 1, "%s\n%s", part->url, text);
    const ll_status status = ll_file_write(part->note, note, all);
    ll_free(note);
    return status;
}

void ll_partial_note_read(ll_partial *part) {
    ll_bytes note = {0};
    const size_t n = strlen(part->url);
    if (access(part->note, F_OK) || ll_file_read(&note, part->note, 1 << 16)) return;
    const char *text = (const char *)note.data, *version = text + n + 1;
    if (note.size > n + 1 && !memcmp(text, part->url, n) && text[n] == '\n')
        snprintf(part->version, sizeof part->version, "%.*s", (int)strcspn(version, "\n"), version);
    ll_bytes_free(&note);
}
