/* The core alone: trains a small model for two steps, loads it, and writes 20 bytes. */
#include <longline.h>
#include <stdio.h>

static const char recipe_text[] = "[model]\nlayers = 1\nwidth = 16\nheads = 2\nff = 32\n"
                                  "[attention]\nkernel = relu\n[position]\ntype = permute\n"
                                  "[train]\nsteps = 2\nbatch = 2\nlength = 32\neval-batches = 1\n"
                                  "[data]\nformat = demo\n";

static ll_status train(const char *folder) {
    ll_recipe *recipe = NULL;
    ll_trainer *trainer = NULL;
    ll_status status = ll_recipe_parse(&recipe, recipe_text, "recipe");
    if (!status) status = ll_trainer_create(&trainer, recipe, folder, NULL);
    if (!status) status = ll_trainer_run(trainer, NULL, NULL);
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return status;
}

static ll_status write_bytes(const char *path) {
    ll_model *model = NULL;
    ll_stream *stream = NULL;
    float logits[256];
    const ll_sampling how = ll_sampling_default();
    ll_status status = ll_model_load(&model, path);
    if (!status) status = ll_stream_create(&stream, model);
    for (int i = 0, token = 'A'; i < 20 && !status; i++) {
        status = ll_stream_feed(stream, &token, 1, logits);
        if (!status) printf("token=%d\n", token = ll_sample(logits, 256, &how, i));
    }
    ll_stream_free(stream);
    ll_model_free(model);
    return status;
}

int main(void) {
    const int failed = train("core-run") || write_bytes("core-run/best.safetensors");
    return failed ? fprintf(stderr, "%s\n", ll_error()) > 0 : 0;
}
