/* The parts of a report that need the model. It runs on a little held-out data, and the report room draws the results.
 * Work is bounded in multiply-adds, so that it takes seconds for any model.
 *
 * A part first computes, then writes, so that a part that fails leaves nothing on the page. */
#ifndef LL_STUDY_H
#define LL_STUDY_H

#include "report/run_page.h"
#include "train/train_internal.h"

typedef struct {
    ll_html *h;
    ll_model *model;
    const ll_config *c;
    const char *unit;        /* the name of a token: "byte" */
    ll_config window;        /* the recipe; for language models with one sequence of several training lengths a batch */
    ll_reader *data;         /* held-out data in such batches */
    ll_tokenizer *tokenizer; /* NULL for images */
} ll_study;

/* How many times `unit` multiply-adds fit into a part's share of the work, limited to least..most. */
int ll_study_bound(double unit, int least, int most);
/* At most n tokens of one sequence, from position `where` in the data (0 its beginning, 1 its end); returns how
 * many. */
LL_MUST_USE ll_status ll_study_excerpt(const ll_study *s, double where, int *tokens, int n, int *length);
/* The gray pixels of an image of the data. */
void ll_study_gray(const ll_study *s, const int *tokens, unsigned char *pixels);
/* The bytes of a token, at most `size` of them. */
size_t ll_study_token(const ll_study *s, int token, char *out, size_t size);
/* The numbers of a tensor of the model, and (cols or NULL) its columns; NULL: there is none of this name. */
const float *ll_study_tensor(const ll_study *s, const char *name, int *cols);
/* Parameter `name` of a layer's positions (of the decoder, if there is one); shared ones belong to no layer. */
const float *ll_study_position(const ll_study *s, int layer, const char *name, int *cols);
/* The layer that picture number i of n shows: the first, the last, and evenly between. */
int ll_study_layer(const ll_study *s, int i, int n);

LL_MUST_USE ll_status ll_study_sample(const ll_study *s);
LL_MUST_USE ll_status ll_study_by_position(const ll_study *s);
LL_MUST_USE ll_status ll_study_attention(const ll_study *s);
LL_MUST_USE ll_status ll_study_distance(const ll_study *s);
LL_MUST_USE ll_status ll_study_vectors(const ll_study *s);
LL_MUST_USE ll_status ll_study_acids(const ll_study *s);
LL_MUST_USE ll_status ll_study_answers(const ll_study *s);
LL_MUST_USE ll_status ll_study_classes(const ll_study *s);
LL_MUST_USE ll_status ll_study_shift(const ll_study *s); /* for images; nothing if none can be shifted */
/* "valid", or "test" if nothing was held out. */
const char *ll_study_split(const ll_config *c);

#endif
