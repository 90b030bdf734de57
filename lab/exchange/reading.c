/* From a config.json to a recipe. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "exchange/family.h"

enum { CONFIG_DEPTH = 16 };

/* Do the tensors of this folder have the family's prefix? A bare model is saved without it. */
static int has_prefix(json_t *names, const char *prefix) {
    const char *name;
    json_t *value;
    json_object_foreach(names, name, value) if (!strncmp(name, prefix, strlen(prefix))) return 1;
    return 0;
}

/* An object from a file; NULL without one. Numbers that no family reads may be too large for an integer, so all are
 * floating-point ones. */
static ll_status parse(json_t **json, const ll_bytes *bytes, const char *path) {
    json_error_t error;
    int refused;
    if (ll_json_is_deep(bytes->data, bytes->size, CONFIG_DEPTH))
        return ll_fail(LL_EFORMAT, "%s: nested more than %d deep", path, CONFIG_DEPTH);
    *json = ll_json_load(bytes->data, bytes->size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error, &refused);
    if (refused) return ll_fail(LL_ENOMEM, "no memory for %s", path);
    if (!*json) return ll_fail(LL_EFORMAT, "%s: not JSON at byte %d: %s", path, error.position, error.text);
    return json_is_object(*json) ? LL_OK : ll_fail(LL_EFORMAT, "%s: no JSON object", path);
}

ll_status ll_reading_begin(ll_reading *r, const ll_bytes *config, const ll_bytes *processor, const char *path,
                           json_t *names) {
    const char *slash = strrchr(path, '/');
    *r = (ll_reading){.path = path, .names = names};
    snprintf(r->processor_path, sizeof r->processor_path, "%.*spreprocessor_config.json",
             slash ? (int)(slash - path) + 1 : 0, path);
    r->status = parse(&r->json, config, path);
    if (!r->status && processor) r->status = parse(&r->processor, processor, r->processor_path);
    if (r->status) return r->status;
    const char *type = ll_hf_text(r, "model_type", NULL);
    if (r->status) return r->status;
    r->family = ll_family_of(type);
    if (!strcmp(type, "deit"))
        return ll_fail(LL_EINVAL,
                       "%s: model_type = \"deit\" has a distillation token beside the CLS token, which no model here "
                       "has; import a DeiT without that token, whose model_type is \"vit\"",
                       path);
    if (!r->family)
        return ll_fail(LL_EINVAL, "%s: model_type = \"%s\" is not a family that can be imported: %s", path, type,
                       ll_families_text());
    if (has_prefix(names, r->family->prefix)) snprintf(r->prefix, sizeof r->prefix, "%s", r->family->prefix);
    r->status = ll_recipe_create(&r->recipe);
    if (!r->status) r->family->read(r);
    return r->status;
}

void ll_reading_free(ll_reading *r) {
    ll_recipe_free(r->recipe);
    json_decref(r->json);
    json_decref(r->processor);
}
