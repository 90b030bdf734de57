/* What follows from the settings of a model of images: sizes, and what its pixels are scaled by. */
#include <string.h>

#include "base/text.h"
#include "model/config/model_config.h"

int ll_config_grid_width(const ll_model_config *c) { return c->position.width / (c->model.patch ? c->model.patch : 1); }
int ll_config_grid_height(const ll_model_config *c) {
    return c->position.height / (c->model.patch ? c->model.patch : 1);
}

int ll_config_tokens(const ll_model_config *c) {
    return c->model.patch ? ll_config_grid_width(c) * ll_config_grid_height(c) : c->length;
}

int64_t ll_config_image_numbers(const ll_model_config *c) {
    return (int64_t)c->position.width * c->position.height * c->model.channels;
}

/* "0.5" or "0.485,0.456,0.406"; returns how many there are, or -1. */
static int read_list(double x[LL_CHANNELS], const char *text) {
    int n = 0;
    for (; n < LL_CHANNELS; n++) {
        char one[40];
        const size_t size = strcspn(text, ",");
        if (size >= sizeof one) return -1;
        memcpy(one, text, size);
        one[size] = 0;
        if (!ll_parse_number(&x[n], one)) return -1;
        if (!text[size]) return n + 1;
        text += size + 1;
    }
    return -1;
}

static ll_status read_pixels(double x[LL_CHANNELS], const ll_model_config *c, const char *key, const char *text) {
    const int n = read_list(x, text && *text ? text : "0.5"), channels = c->model.channels;
    if (n != 1 && n != channels)
        return ll_fail(LL_EINVAL,
                       "%s = \"%.100s\" must be a number, or one for each of the %d channels of model.channels with "
                       "commas between them",
                       key, text ? text : "", channels);
    for (int i = n; i < LL_CHANNELS; i++) x[i] = x[n == 1 ? 0 : n - 1];
    return LL_OK;
}

ll_status ll_config_pixels(const ll_model_config *c, double mean[LL_CHANNELS], double deviation[LL_CHANNELS]) {
    ll_status status = read_pixels(mean, c, "model.pixel-mean", c->model.pixel_mean);
    if (!status) status = read_pixels(deviation, c, "model.pixel-std", c->model.pixel_std);
    for (int i = 0; i < LL_CHANNELS && !status; i++)
        if (!(deviation[i] > 0))
            status = ll_fail(LL_EINVAL, "model.pixel-std = \"%.100s\" divides pixels and must be above 0",
                             c->model.pixel_std);
    return status;
}

static ll_status check_numbers(const ll_model_config *c) {
    const long long numbers = ll_config_image_numbers(c);
    const int width = c->position.width, height = c->position.height;
    if (numbers > LL_LENGTH_MOST)
        return ll_fail(LL_EINVAL,
                       "an image of %d x %d with model.channels = %d has %lld numbers, and a sequence has at most %d; "
                       "set a smaller position.width and position.height, and resize the images with data.resize",
                       width, height, c->model.channels, numbers, LL_LENGTH_MOST);
    if (c->length == numbers) return LL_OK;
    return ll_fail(LL_EINVAL,
                   "train.length = %d, and an image of %d x %d with model.channels = %d has %lld numbers; set "
                   "train.length=%lld",
                   c->length, width, height, c->model.channels, numbers, numbers);
}

static ll_status check_patch(const ll_model_config *c) {
    const int side = c->model.patch, width = c->position.width, height = c->position.height;
    double mean[LL_CHANNELS], deviation[LL_CHANNELS];
    if (c->model.task != LL_TASK_CLASSIFY)
        return ll_fail(LL_EINVAL, "model.patch = %d reads whole images; set model.task=classify, or patch=0", side);
    if (c->model.vocab != 256)
        return ll_fail(LL_EINVAL, "model.patch = %d reads pixels of 0 to 255; set model.vocab=256, which is %d", side,
                       c->model.vocab);
    if (c->model.token_types || c->model.mask_token >= 0)
        return ll_fail(LL_EINVAL, "model.patch = %d has no tokens for model.token-types and model.mask-token; leave "
                                  "them out", side);
    if (width < 1 || height < 1)
        return ll_fail(LL_EINVAL, "model.patch = %d needs the size of images; set position.width and position.height",
                       side);
    if (width % side || height % side)
        return ll_fail(LL_EINVAL,
                       "model.patch = %d does not divide images of %d x %d (position.width and -height); change it, or "
                       "resize the images with data.resize",
                       side, width, height);
    const ll_status status = check_numbers(c);
    return status ? status : ll_config_pixels(c, mean, deviation);
}

ll_status ll_check_image(const ll_model_config *c) {
    const int has_cls = !ll_task_per_token(c->model.task) && c->model.pool == LL_POOL_FIRST;
    if (c->position.cls && (c->position.type != LL_POSITION_LEARNED || !has_cls))
        return ll_fail(LL_EINVAL, "position.cls-token = on gives a CLS token a learned position; set "
                                  "position.type=learned, model.task=classify and model.pool=first, or off");
    if (c->model.channels == 2)
        return ll_fail(LL_EINVAL, "model.channels = 2 is no kind of image; use 1 (gray) or 3 (red, green, blue)");
    if (c->model.patch) return check_patch(c);
    if (c->model.channels > 1)
        return ll_fail(LL_EINVAL, "model.channels = %d is for images that are cut into patches; set model.patch, or "
                                  "channels=1 for gray pixels",
                       c->model.channels);
    return LL_OK;
}
