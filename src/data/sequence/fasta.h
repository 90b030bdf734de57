/* Protein sequences in FASTA, as bytes in memory; `name` is how errors call them. */
#ifndef LL_FASTA_H
#define LL_FASTA_H

#include "base/status.h"

enum { LL_FASTA_BOUNDARY = 0, LL_FASTA_VOCAB = 26 };

/* The token of a letter, 1..25 in the order of the alphabet. J (Leu or Ile) is not in it and is read as X (any). 0: not
 * a letter. */
int ll_fasta_token(int letter);
/* The letter of a token; a new line for the boundary. */
int ll_fasta_letter(int token);

/* Writes the sequences to `out` as tokens, each after a boundary (at most size + 1 tokens). *tokens and *sequences are
 * their numbers. The caller adds a final boundary. */
LL_MUST_USE ll_status ll_fasta_parse(uint8_t *out, int64_t *tokens, int64_t *sequences, const uint8_t *data,
                                     size_t size, const char *name);

#endif
