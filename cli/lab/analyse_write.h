/* Tables of experiments as text, CSV, JSON and pictures. */
#ifndef LL_CLI_ANALYSE_H
#define LL_CLI_ANALYSE_H

#include <stdio.h>

#include "cli.h"

void ll_analysis_print(const char *name, const ll_table *table);
void ll_analysis_csv(FILE *file, const ll_table *table);
void ll_analysis_json(FILE *file, const char *name, const ll_table *table);
/* Prints analyse.WHAT=PATH, unless a table goes to standard output (ll_analysis_pipe). */
void ll_analysis_wrote(const char *what, const char *path);
void ll_analysis_pipe(int piped);
/* One picture for each plot of the table, in a folder; prints the names of the files. ending: svg, png. */
ll_status ll_analysis_pictures(const ll_table *table, const char *folder, const char *ending);

/* Attention matrices of a model on the bytes of a file: tables, and heat maps and CSV in a folder (NULL: none). Returns
 * the exit code. */
typedef struct {
    const char *model, *text, *folder, *ending;
    int length, layer; /* layer -1: all */
} ll_attention_maps;
int ll_attention_maps_at(const ll_attention_maps *how);
/* The weights that positions alone give to `tokens` tokens, at most 64: of a model, or (NULL) of new models with every
 * position. -1, or the exit code. */
int ll_attention_maps_at_positions(const ll_model *model, int tokens, int64_t seed, const char *folder,
                                   const char *ending);

#endif
