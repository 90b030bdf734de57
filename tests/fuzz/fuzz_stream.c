/* Any bytes as the state of a stream: refused with a reason, or a stream that can be fed, copied and saved. Inputs name
 * their model by 32 zeros, because they cannot contain its digest. */
#include <string.h>

#include "base/safetensors.h"
#include "fuzz/fuzz.h"
#include "fuzz/safetensors_mutator.h"
#include "longline.h"

enum { MODELS = 5, KEYS = 10 };
static const char *const keys[MODELS][KEYS] = {
    {"model.layers=1", "model.width=4", "model.heads=1", "model.ff=4", "model.vocab=3", "attention.kernel=exp",
     "position.type=rope-linear", "position.decay=fixed", "train.seed=1", "train.length=4"},
    {"model.layers=1", "model.width=4", "model.heads=1", "model.ff=4", "model.vocab=3", "attention.kernel=softmax",
     "position.type=learned", "position.max-length=600", "train.length=4", "train.seed=1"},
    {"model.layers=1", "model.width=4", "model.heads=1", "model.ff=4", "model.vocab=3", "attention.kernel=reformer",
     "attention.buckets=4", "attention.chunk=2", "attention.rounds=2", "train.seed=1"},
    {"model.task=seq2seq", "model.layers=1", "model.width=4", "model.heads=1", "model.ff=4", "model.vocab=3",
     "attention.kernel=exp", "position.type=rope-linear", "position.cross=start", "train.length=4"},
    {"model.task=seq2seq", "model.layers=1", "model.width=4", "model.heads=1", "model.ff=4", "model.vocab=3",
     "attention.kernel=softmax", "position.type=learned", "position.max-length=600", "train.length=4"},
};
static const char nameless[] = "00000000000000000000000000000000";

/* The digest of the model, taken from a state that it has saved. */
static void find_digest(ll_model *model, char digest[LL_DIGEST_TEXT]) {
    char path[] = "/tmp/ll-fuzz-XXXXXX";
    const int fd = mkstemp(path);
    ll_stream *s = NULL;
    ll_safetensors *f = NULL;
    check(fd >= 0 && !close(fd) && !ll_stream_create(&s, model) && !ll_stream_save(s, path));
    check(!ll_safetensors_open(&f, path) && !unlink(path));
    check(snprintf(digest, LL_DIGEST_TEXT, "%s", ll_safetensors_meta(f, "model")) == LL_DIGEST_TEXT - 1);
    ll_safetensors_free(f);
    ll_stream_free(s);
}

static ll_model *make(const char *const *key) {
    ll_recipe *recipe = NULL;
    ll_model *model = NULL;
    check(!ll_recipe_create(&recipe));
    for (int i = 0; i < KEYS; i++) check(!ll_recipe_set(recipe, key[i]));
    check(!ll_model_create(&model, recipe));
    ll_recipe_free(recipe);
    return model;
}

static void load(ll_model *model, const uint8_t *data, size_t size) {
    ll_stream *s = NULL, *copy = NULL;
    float logits[3];
    if (ll_stream_load(&s, model, in_memory(data, size))) {
        check(!s && strlen(ll_error()) > 10);
        return;
    }
    const int64_t position = ll_stream_position(s);
    check(position >= 0 && !ll_stream_clone(&copy, s));
    if (position) check(!ll_stream_logits(s, logits));
    if (!ll_stream_feed(s, (const int[]){0, 2, 1}, 3, logits)) check(ll_stream_position(s) == position + 3);
    check(ll_stream_position(copy) == position);
    if (!ll_stream_source(copy, (const int[]){1, 2}, 2)) check(!ll_stream_feed(copy, (const int[]){1}, 1, logits));
    ll_stream_free(copy);
    ll_stream_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ll_model *model[MODELS];
    static char digest[MODELS][LL_DIGEST_TEXT];
    uint8_t *named = malloc(size + 1);
    check(named != NULL);
    for (int i = 0; i < MODELS; i++) {
        if (!model[i]) find_digest(model[i] = make(keys[i]), digest[i]);
        if (size) memcpy(named, data, size);
        uint8_t *name = memmem(named, size, nameless, LL_DIGEST_TEXT - 1);
        if (name) memcpy(name, digest[i], LL_DIGEST_TEXT - 1);
        load(model[i], named, size);
    }
    free(named);
    return 0;
}
