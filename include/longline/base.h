/* What the rest of the interface needs: version, status and error text, the machine, recipes. */
#ifndef LL_BASE_H
#define LL_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define LL_C_BEGIN extern "C" {
#define LL_C_END }
#else
#define LL_C_BEGIN
#define LL_C_END
#endif

#if defined(__GNUC__)
#define LL_API __attribute__((visibility("default")))
#define LL_MUST_USE __attribute__((warn_unused_result))
#else
#define LL_API
#define LL_MUST_USE
#endif

LL_C_BEGIN

#define LL_VERSION_MAJOR 0
#define LL_VERSION_MINOR 2
#define LL_VERSION_PATCH 0

/* "0.2.0", of the library that runs (not of the header compiled against). */
LL_API const char *ll_version(void);

/* ---- Status ---- */

typedef enum {
    LL_OK = 0,
    LL_EINVAL,  /* an argument, option or recipe key that cannot be */
    LL_ENOMEM,  /* memory refused */
    LL_EIO,     /* a file that cannot be read or written */
    LL_EFORMAT, /* a file whose content is wrong */
    LL_ESTOPPED, /* stopped on request, everything saved */
    LL_EDIVERGED, /* a loss, a gradient or what a model gives became infinite or NaN */
    LL_EDIST /* another rank failed, or cannot be reached */
} ll_status;

/* One sentence on the last failure in this thread: where, what was found, what to do. Never NULL. */
LL_API const char *ll_error(void);
/* Edits from one word to another: a character put in, left out or replaced, or two neighbours swapped; for "did you
 * mean ...?". The first 63 bytes count. */
LL_API int ll_edit_distance(const char *a, const char *b);

/* Progress of a call that may take long: `done` of `total` units (total 0: unknown). If it returns non-zero, the call
 * stops with LL_ESTOPPED. */
typedef int ll_done_fn(int64_t done, int64_t total, void *arg);
/* Progress of reading a file: `done` of `total` bytes, as they are on the disk. name NULL: of a text that is in memory
 * and is looked through, in any unit. total 0: a long call goes on that does not say how far it is. */
typedef void ll_reading_fn(const char *name, int64_t done, int64_t total, void *arg);

/* ---- Machine ---- */

/* Sets how many threads later calls use, at most 256; more count as 256. 0, the default: one for each core that the
 * process may use, or fewer where a control group limits its time to less. The number changes no bit of a result. May
 * be called from any thread at any time: a call that runs keeps the number it began with. */
LL_API void ll_set_threads(int threads);
LL_API int ll_threads(void);

/* Instruction tier of the compute kernels: "scalar", "avx2", "avx512", "avx512bf16", on AArch64 "neon", "neonbf16",
 * in WebAssembly "wasm", or NULL for the fastest this machine has (the default, or what the environment variable LL_CPU
 * names). LL_EINVAL if the name is unknown or the machine lacks it. A wrong LL_CPU is an error of
 * ll_set_cpu(NULL) alone; a program that never calls it then runs the fastest tier. Not while other calls run. Existing
 * operators, models and streams use the new tier from then on. */
LL_API LL_MUST_USE ll_status ll_set_cpu(const char *tier);
LL_API const char *ll_cpu(void);

/* Seconds on a clock that never goes back; bytes this process holds in memory now (0: not known). */
LL_API double ll_now(void);
LL_API size_t ll_memory_now(void);

/* ---- Tokens ---- */

/* Bytes are tokens 0..255. Models of pairs of texts have these tokens besides. */
enum { LL_TOKEN_PAD = 256, LL_TOKEN_BEGIN, LL_TOKEN_END, LL_TOKEN_COUNT };

/* ---- Recipes ---- */

/* A recipe is INI text with the sections [model] [attention] [position] [train] [data] [dist]; it describes
 * model, data and training completely. docs/keys.md lists the keys; so does ll_recipe_key_at. */
typedef struct ll_recipe ll_recipe;

typedef struct {
    const char *name;    /* "position.type" */
    const char *type;    /* "integer", "number", "flag", "text" or "choice" */
    const char *fallback; /* default, as text */
    const char *choices; /* "none|permute|..." or NULL */
    const char *help;    /* one line: what, unit, range */
    const char *needs;   /* the key has an effect only with "KEY=VALUE|VALUE.. or KEY=VALUE.."; NULL: with any values */
    int resumable;       /* a resumed run may change it, because it does not change what was trained so far */
} ll_recipe_key;

LL_API LL_MUST_USE ll_status ll_recipe_create(ll_recipe **recipe); /* all keys at their defaults */
/* From INI text, in a file or in memory; `name` is how messages call the text. LL_EIO: the file cannot be read.
 * LL_EFORMAT or LL_EINVAL names the line. */
LL_API LL_MUST_USE ll_status ll_recipe_load(ll_recipe **recipe, const char *path);
LL_API LL_MUST_USE ll_status ll_recipe_parse(ll_recipe **recipe, const char *text, const char *name);
LL_API void ll_recipe_free(ll_recipe *recipe);

/* Sets "section.key=value". An unknown key is LL_EINVAL and the text names the nearest one. */
LL_API LL_MUST_USE ll_status ll_recipe_set(ll_recipe *recipe, const char *assignment);
/* Value of a key as text, valid until the key is set again; NULL for an unknown key. */
LL_API const char *ll_recipe_get(const ll_recipe *recipe, const char *key);
/* What a loss is counted in: "byte", "word", "piece", "residue", "event" or "token" where every token has a target,
 * else "example". */
LL_API const char *ll_recipe_unit(const ll_recipe *recipe);
/* The whole recipe as INI text, resolved (every key). The caller frees it with ll_text_free. */
LL_API LL_MUST_USE ll_status ll_recipe_text(const ll_recipe *recipe, char **text);
/* Key number i, or NULL past the last. */
LL_API const ll_recipe_key *ll_recipe_key_at(int i);
/* Frees a text, or tokens, that a call gave to the caller. */
LL_API void ll_text_free(void *text);

/* ---- Kernels and positions ---- */

/* What a stream keeps: a state of constant size; all keys and values; nothing, as there is no stream. */
typedef enum { LL_STREAM_CONSTANT, LL_STREAM_GROWS, LL_STREAM_NONE } ll_stream_kind;
/* How long a sequence can be: any length, up to what a table holds, or as many tokens as an image has. */
typedef enum { LL_LENGTH_ANY, LL_LENGTH_TABLE, LL_LENGTH_IMAGE } ll_length_kind;

/* A choice of attention.kernel or position.type: one row of the table that recipes are checked by. */
typedef struct {
    const char *name;  /* the word in a recipe */
    const char *what;  /* one line */
    const char *paper; /* "Chen 2021", "none (longline's own)", or "" */
    const char *cost;  /* time of a head for T tokens, queries of size D, values of E, m features: "T m (D + E)";
                        * of positions: what they add */
    int causal, whole; /* may see earlier tokens alone (language models), all tokens (classifiers) */
    ll_stream_kind stream;
    ll_length_kind length;
    int decay;  /* kernels: position.decay is possible, which is so for all with features */
    double eps; /* kernels: what models add to every feature, unless attention.feature-eps says otherwise */
} ll_mechanism;

/* Kernel or position number i, in the order of the recipe's choices; NULL past the last. */
LL_API const ll_mechanism *ll_kernel_at(int i);
LL_API const ll_mechanism *ll_position_at(int i);
/* Can a model have both? causal: a language model. If not, LL_EINVAL, and ll_error() has the reason and the remedy. The
 * pair's ll_stream_kind is the larger of the two, and so is its ll_length_kind. */
LL_API LL_MUST_USE ll_status ll_pair_legal(const char *kernel, const char *position, int causal);

LL_C_END

#endif
