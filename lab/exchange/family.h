/* Families of pretrained models, as Hugging Face's library writes them: how a config.json becomes a recipe, and which
 * of its tensors is which of ours. One table for each family serves import and export. */
#ifndef LL_FAMILY_H
#define LL_FAMILY_H

#include <jansson.h>

#include "base/safetensors.h"
#include "model/model_internal.h"

/* The layout of a foreign tensor. */
enum {
    LL_TABLE = 0,     /* like ours: vectors, embeddings, weights (in, out) of GPT-2 */
    LL_OUT_IN = 1,    /* weights (out, in) */
    LL_ROTATED = 2,   /* channels i and i + n/2 are rotated together; ours are 2i and 2i + 1 */
    LL_BY_HEAD = 4,   /* the parts of a fused tensor are interleaved head by head */
    LL_DUPLICATE = 8, /* a duplicate of another tensor; it may be missing */
    LL_KEPT = 16,     /* not in our model; stored for an export; it may be missing */
    LL_BATCH_OF_ONE = 32, /* theirs has three axes, of which those before ours have size 1 */
    LL_SQUARES = 64,      /* theirs has four axes: (out, channels, patch, patch) of a convolution */
    LL_DRAWN = 128        /* it may be missing; ours then has its first, drawn numbers */
};

typedef struct {
    const char *theirs; /* '*' stands for the family's prefix, '#' for the number of a layer */
    const char *ours;   /* likewise '#'; NULL for tensors that are only stored */
    int flags;
    int part, parts; /* part of a fused tensor; parts = 0: it is not fused */
} ll_tensor_rule;

typedef struct ll_family ll_family;

/* The weights of a folder: one file, or several with an index. */
typedef struct {
    const char *folder;
    ll_safetensors **file;
    char **name; /* of each file */
    int files;
} ll_weights;

enum { LL_PROCESSOR_PATH = 4200 };

/* A config.json that is read into a recipe. The first error is kept; later calls then do nothing. */
typedef struct {
    const ll_family *family;
    const char *path;
    json_t *json;
    json_t *processor; /* preprocessor_config.json, or NULL */
    char processor_path[LL_PROCESSOR_PATH]; /* beside path */
    json_t *names; /* an object with the names of all tensors */
    ll_recipe *recipe;
    char prefix[32]; /* prefix of this folder's tensors: the family's, or "" */
    ll_status status;
} ll_reading;

struct ll_family {
    const char *type; /* config.json's model_type */
    const char *name;
    const char *prefix;
    const ll_tensor_rule *rules; /* ends with theirs = NULL */
    void (*read)(ll_reading *r);
};

/* The family of a model_type; NULL: none. ll_families_text lists them. */
const ll_family *ll_family_of(const char *type);
const char *ll_families_text(void);

/* ---- folder_weights.c ---- */

LL_MUST_USE ll_status ll_weights_open(ll_weights *w, const char *folder);
void ll_weights_close(ll_weights *w);
const ll_st_tensor *ll_weights_find(const ll_weights *w, const char *name);

/* ---- config_keys.c: keys of config.json ---- */

/* A whole number from 0 to 2^30; -1: it is something else. */
int64_t ll_hf_whole(const json_t *value);
/* An integer, a number, a flag, a text. If the key is missing or null, the result is `fallback`; if that is LL_NEEDED
 * or NULL, it is an error. */
enum { LL_NEEDED = -1000000 };
int64_t ll_hf_integer(ll_reading *r, const char *key, int64_t fallback);
double ll_hf_number(ll_reading *r, const char *key, double fallback);
int ll_hf_flag(ll_reading *r, const char *key, int fallback);
const char *ll_hf_text(ll_reading *r, const char *key, const char *fallback);
/* Fails unless the key is missing, null, or this text. */
void ll_hf_only(ll_reading *r, const char *key, const char *value);
/* Sets a key of the recipe. */
void ll_hf_set(ll_reading *r, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Is there a tensor of this name ('*': the prefix)? */
int ll_hf_has(const ll_reading *r, const char *theirs);

/* ---- mapping.c ---- */

enum { LL_TENSOR_NAME = 160 };
/* A rule for one layer: the foreign name, and our tensor. tensor < 0: our model has none. */
typedef struct {
    const ll_tensor_rule *rule;
    char theirs[LL_TENSOR_NAME];
    int tensor;
} ll_mapped;

/* The rules of a family for a model, layer by layer: for (i = 0; ll_mapped_at(&m, ..., i); i++). */
int ll_mapped_at(ll_mapped *m, const ll_model *model, const ll_family *family, const char *prefix, int i);
/* Gives a tensor of LayerNorm the name that older folders have, gamma or beta. 0: it has no other name. */
int ll_mapped_older(ll_mapped *m);
/* Shape of the whole foreign tensor, of which ours may be a part; returns its rank. */
enum { LL_MAPPED_AXES = 4 };
int ll_mapped_shape(const ll_model *model, const ll_mapped *m, size_t shape[LL_MAPPED_AXES]);
/* The index in the foreign tensor of our element (row, col). */
size_t ll_mapped_index(const ll_model *model, const ll_mapped *m, int row, int col);

/* ---- import_tokenizer.c ---- */

/* The folder's tokenizer, where it has one, becomes the model's vocabulary. */
LL_MUST_USE ll_status ll_import_tokenizer(ll_model *model, const char *folder);

/* ---- reading.c ---- */

/* The recipe of a config.json, of a preprocessor_config.json or NULL, and of the names of all tensors, which are
 * borrowed. path: of the first, for errors. Free r with ll_reading_free, also on failure. */
LL_MUST_USE ll_status ll_reading_begin(ll_reading *r, const ll_bytes *config, const ll_bytes *processor,
                                       const char *path, json_t *names);
void ll_reading_free(ll_reading *r);

#endif
