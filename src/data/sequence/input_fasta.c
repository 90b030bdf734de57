/* FASTA: a line that begins with '>' names a sequence, whose letters follow on any number of lines. Lower case stays.
 * Gaps, blanks and a final '*' are skipped. Lines that begin with ';' are comments. Anything else is refused; otherwise
 * a file of another format would be read to the end without an error. */
#include "base/memory.h"
#include "data/input.h"
#include "data/sequence/fasta.h"

enum { NAME_MOST = 4096 };

static void skip_line(ll_input *in) {
    for (int c; (c = ll_input_peek(in)) >= 0 && c != '\n';) ll_input_take(in);
}

/* Comments and empty lines before a header. */
static void skip_comments(ll_input *in) {
    for (int c; (c = ll_input_peek(in)) >= 0 && (ll_fasta_is_blank(c) || c == ';');) {
        if (c == ';')
            skip_line(in);
        else
            ll_input_take(in);
    }
}

/* The rest of a header. A file whose lines end with CR alone would be one. */
static ll_status skip_header(ll_input *in) {
    for (int c; (c = ll_input_peek(in)) >= 0 && c != '\n';) {
        ll_input_take(in);
        const int next = ll_input_peek(in);
        if (c == '\r' && next >= 0 && next != '\r' && next != '\n')
            return ll_input_wrong(in, "a line that ends with CR alone; convert the file: tr '\\r' '\\n' <OLD >NEW");
    }
    return LL_OK;
}

static ll_status begin(ll_input *in, int *found) {
    char name[NAME_MOST];
    size_t n = 0;
    skip_comments(in);
    int c = ll_input_peek(in);
    if (c < 0) return in->status;
    if (c != '>') return ll_input_wrong(in, "no header, which begins with '>'; is it a FASTA file?");
    in->begin_line = in->line;
    ll_input_take(in);
    for (; (c = ll_input_peek(in)) >= 0 && !ll_fasta_is_blank(c); ll_input_take(in)) {
        if (n == NAME_MOST) return ll_input_wrong(in, "a name of more than %d bytes", NAME_MOST);
        if (c == 0) return ll_input_wrong(in, "a zero byte in a name");
        name[n++] = (char)c;
    }
    const ll_status status = n ? ll_input_name(in, name, n) : ll_input_number(in, in->line);
    *found = 1;
    return status ? status : skip_header(in);
}

static int is_letter(int c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Handles one byte that is not a letter; *first: does a line begin here? */
static ll_status pass_over(ll_input *in, int *first) {
    const int c = ll_input_take(in), next = ll_input_peek(in);
    const int begins = *first;
    *first = c == '\n';
    if (ll_fasta_is_left_out(c, next)) return LL_OK;
    if (c == ';' && begins) {
        skip_line(in);
        return LL_OK;
    }
    return ll_input_wrong(in, "byte 0x%02x is not a letter of a sequence", (unsigned)c);
}

static ll_status more(ll_input *in, int *ends) {
    ll_status status = ll_input_reserve(in, in->piece, 0);
    int first = 0; /* a piece that ends with a line also consumes the line end */
    in->text = in->buffer;
    for (int c; !status && (c = ll_input_peek(in)) >= 0;) {
        if (c == '>' && first) break;
        if (!is_letter(c)) {
            status = pass_over(in, &first);
            continue;
        }
        if (in->n == in->piece) return LL_OK;
        in->buffer[in->n++] = (uint8_t)ll_input_take(in);
        first = 0;
    }
    *ends = 1;
    return status ? status : in->status;
}

const ll_input_kind ll_input_fasta = {begin, more, 1};
