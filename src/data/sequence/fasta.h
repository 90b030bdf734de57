/* The alphabet of protein sequences. */
#ifndef LL_FASTA_H
#define LL_FASTA_H

enum { LL_FASTA_BOUNDARY = 0, LL_FASTA_VOCAB = 26 };

/* The token of a letter, 1..25 in the order of the alphabet. J (Leu or Ile) is not in it and is read as X (any). 0: not
 * a letter. */
int ll_fasta_token(int letter);
/* The letter of a token; a new line for the boundary. */
int ll_fasta_letter(int token);

#endif
