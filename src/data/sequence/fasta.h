/* The alphabet of protein sequences. */
#ifndef LL_FASTA_H
#define LL_FASTA_H

enum { LL_FASTA_BOUNDARY = 0, LL_FASTA_VOCAB = 26 };

/* The token of a letter, 1..25 in the order of the alphabet. J (Leu or Ile) is not in it and is read as X (any). 0: not
 * a letter. */
int ll_fasta_token(int letter);
/* Blanks and line ends between letters. */
static inline int ll_fasta_is_blank(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
/* Is c left out, where next comes after it (-1: nothing)? Blanks, gaps and a final '*' are. */
static inline int ll_fasta_is_left_out(int c, int next) {
    return ll_fasta_is_blank(c) || c == '-' || c == '.' || (c == '*' && (next < 0 || ll_fasta_is_blank(next)));
}
/* The letter of a token; a new line for the boundary. */
int ll_fasta_letter(int token);

#endif
