/* Bodies and paths of requests to `longline serve`. The first byte says what is asked, a line names the path, and the
 * rest is the body. What is refused says why, with a status that HTTP has and JSON that can be read; what is taken
 * has fields in their ranges. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "../../cli/serve/request.h"

static void check_refusal(const ll_refusal *why) {
    char *text = ll_refusal_text(why);
    json_t *again = text ? json_loads(text, 0, NULL) : NULL;
    check(why->status >= 400 && why->status <= 599 && *why->message);
    check(json_is_string(json_object_get(json_object_get(again, "error"), "message")));
    json_decref(again);
    free(text);
}

static void check_request(ll_request *r) {
    check(r->prompts >= 0 && r->prompts <= LL_PROMPTS && r->stops <= LL_STOPS && r->messages <= LL_MESSAGES);
    check(r->n >= 1 && r->prompts * r->n <= LL_PROMPTS && r->logprobs >= -1 && r->logprobs <= LL_TOP_LOGPROBS);
    check(r->temperature >= 0 && r->top_p >= 0 && r->top_p <= 1 && r->max_tokens >= LL_TOKENS_UNSET);
    for (int i = 0; i < r->prompts; i++)
        check(!r->prompt[i].text != !r->prompt[i].tokens);
    ll_request_keep_stops(r);
    for (int i = 0; i < r->stops; i++)
        check(r->stop[i].size && r->stop[i].size <= LL_STOP_BYTES && !r->stop[i].text[r->stop[i].size]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const methods[] = {"GET", "POST", "DELETE", "PUT"};
    char path[300], session[LL_SESSION_ID];
    ll_refusal why = {0};
    ll_request r;
    if (!size) return 0;
    const int first = *data++;
    const uint8_t *line = memchr(data, '\n', --size);
    const size_t length = line ? (size_t)(line - data) : size, kept = length < sizeof path ? length : sizeof path - 1;
    memcpy(path, data, kept);
    path[kept] = 0;
    ll_ask ask = ll_request_route(methods[first & 3], path, session, &why);
    if (!ask) check_refusal(&why);
    check(!*session || (strlen(session) == LL_SESSION_ID - 1 && !strchr(session, '/')));
    if (!ask) ask = (ll_ask)(1 << (first >> 2) % 15);
    why = (ll_refusal){0};
    const size_t skip = line ? length + 1 : length;
    if (ll_request_read(&r, ask, data + skip, size - skip, &why))
        check_refusal(&why);
    else
        check_request(&r);
    ll_request_free(&r);
    return 0;
}
