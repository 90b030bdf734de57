/* What only the model can tell for a report: it is run on a little held-out data and what comes out is handed to the
 * report room as figures. Work is bounded in multiply-adds, so that it takes seconds whatever the model is.
 *
 *   training_report.c pages of runs                 study.c           what the parts share
 *   study_text.c      text it writes, loss by position
 *   study_attention.c what attention looks at       study_position.c  learned functions of the distance
 *   study_class.c     classes mistaken for others   study_shift.c     images moved to the side
 *   study_acids.c     amino acids that are alike    study_pairs.c     answers to sources
 *   study_vectors.c   learned vectors of distances
 *
 * A part computes first and writes then: one that fails leaves nothing on the page. */
#ifndef LL_STUDY_H
#define LL_STUDY_H

#include "report/run_page.h"
#include "train/train_internal.h"

typedef struct {
    ll_html *h;
    ll_model *model;
    const ll_config *c;
    const char *unit;        /* what a token is: "byte" */
    ll_config window;        /* the recipe, but for language models one sequence of several training lengths a batch */
    ll_reader *data;         /* held-out data in such batches */
    ll_tokenizer *tokenizer; /* NULL for images */
} ll_study;

/* How many times `unit` multiply-adds fit into a part's share of the work, within least..most. */
int ll_study_bound(double unit, int least, int most);
/* Tokens of one sequence from `where` in the data (0 its beginning, 1 its end), at most n; how many they are. */
LL_MUST_USE ll_status ll_study_excerpt(const ll_study *s, double where, int *tokens, int n, int *length);
/* Bytes that a token stands for, at most `size` of them. */
size_t ll_study_token(const ll_study *s, int token, char *out, size_t size);
/* The numbers of a tensor of the model, and (cols or NULL) its columns; NULL: it has none of this name. */
const float *ll_study_tensor(const ll_study *s, const char *name, int *cols);
/* Parameter `name` of the positions of a layer (of a decoder, where there is one); shared ones belong to none. */
const float *ll_study_position(const ll_study *s, int layer, const char *name, int *cols);
/* Which of the layers picture number i of n is of: the first, the last, and evenly between. */
int ll_study_layer(const ll_study *s, int i, int n);

LL_MUST_USE ll_status ll_study_sample(const ll_study *s);
LL_MUST_USE ll_status ll_study_by_position(const ll_study *s);
LL_MUST_USE ll_status ll_study_attention(const ll_study *s);
LL_MUST_USE ll_status ll_study_distance(const ll_study *s);
LL_MUST_USE ll_status ll_study_vectors(const ll_study *s);
LL_MUST_USE ll_status ll_study_acids(const ll_study *s);
LL_MUST_USE ll_status ll_study_answers(const ll_study *s);
LL_MUST_USE ll_status ll_study_classes(const ll_study *s);
LL_MUST_USE ll_status ll_study_shift(const ll_study *s); /* for images; nothing where none of them can be moved */
/* "valid", or "test" where nothing was held out. */
const char *ll_study_split(const ll_config *c);

#endif
