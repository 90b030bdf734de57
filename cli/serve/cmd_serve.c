/* longline serve: models over HTTP. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "serve/api_keys.h"
#include "serve/serve_threads.h"
#include "serve/served_models.h"
#include "serve/session.h"

static const ll_arg args[] = {
    {LL_ARG_TEXT, 0, "listen", "ADDR:PORT", &ll_serve.listen, 0, 0,
     "where; 127.0.0.1 is for this machine alone; port 0 = any free one"},
    {LL_ARG_TEXT, 0, "models", "DIR", &ll_serve.models, 0, 0, "serve every .safetensors file of a folder"},
    {LL_ARG_TEXT, 0, "api-keys", "FILE", &ll_serve.keys, 0, 0,
     "ask for a key; FILE has one a line, and behind it a name for the log"},
    {LL_ARG_TEXT, 0, "state-dir", "DIR", &ll_serve.state_dir, 0, 0, "keep sessions here, also while no server runs"},
    {LL_ARG_TEXT, 0, "chat-template", "FILE", &ll_serve.chat_template, 0, 0,
     "how a chat becomes a prompt; else MODEL.safetensors.chat.json, where it is"},
    {LL_ARG_TEXT, 0, "weights", "KIND", &ll_serve.weights, 0, 0,
     "number format: f32, bf16, int8 or int4; default: that of the file"},
    {LL_ARG_INTEGER, 0, "batch", "N", &ll_serve.batch, 1, 512, "texts that are generated together"},
    {LL_ARG_INTEGER, 0, "block", "N", &ll_serve.block, 1, 512, "tokens of prompts that are read in each step"},
    {LL_ARG_INTEGER, 0, "queue", "N", &ll_serve.queue, 1, 100000, "requests that may wait; more are refused (429)"},
    {LL_ARG_INTEGER, 0, "max-body", "BYTES", &ll_serve.body, 1024, 1 << 30, "of a request"},
    {LL_ARG_INTEGER, 0, "max-prompt", "N", &ll_serve.prompt, 1, 1 << 30, "tokens that a prompt may have"},
    {LL_ARG_INTEGER, 0, "max-input", "N", &ll_serve.input, 1, 1 << 30,
     "tokens that an input of embeddings or classes may have; it is read at once"},
    {LL_ARG_INTEGER, 0, "max-tokens", "N", &ll_serve.most, 1, 1e12, "tokens that a request may have made"},
    {LL_ARG_INTEGER, 0, "max-sessions", "N", &ll_serve.sessions, 0, 1e9, "sessions of each key"},
    {LL_ARG_INTEGER, 0, "session-memory", "BYTES", &ll_serve.memory, 1 << 16, 9e15,
     "of all sessions in memory; those used longest ago go to --state-dir"},
    {LL_ARG_INTEGER, 0, "session-disk", "BYTES", &ll_serve.quota, 0, 9e15, "of all sessions in --state-dir"},
    {LL_ARG_INTEGER, 0, "max-connections", "N", &ll_serve.connections, 1, 100000, "open at a time"},
    {LL_ARG_INTEGER, 0, "idle", "SECONDS", &ll_serve.idle, 1, 86400, "that a client may take to send a request"},
    {LL_ARG_INTEGER, 0, "send-timeout", "SECONDS", &ll_serve.send, 1, 86400,
     "that a client may read nothing of what is sent to it"},
    {LL_ARG_INTEGER, 0, "drain", "SECONDS", &ll_serve.drain, 0, 86400, "that requests have to end after SIGTERM"},
    {.type = LL_ARG_END},
};

static int serve_models(int n, const char **paths) {
    int code = ll_keys_load(ll_serve.keys);
    if (code < 0) code = ll_served_load(n, paths);
    if (code < 0) code = ll_sessions_open();
    if (code < 0) code = ll_side_start();
    if (code < 0) code = ll_token_start();
    if (code >= 0) return code;
    const int running = (code = ll_engine_start()) < 0;
    const int watched = running && (code = ll_connections_start()) < 0;
    if (watched) code = ll_http_start();
    const int served = code < 0;
    if (served) {
        for (int i = 0; i < ll_served_models; i++) ll_print("model '%s'", ll_served_model[i].name);
        while (!ll_stop_wanted()) sleep(1);
        ll_http_drain();
    }
    const double end = ll_now() + (double)ll_serve.drain;
    ll_token_stop(end);
    const int lost = running ? ll_engine_stop(end) : 0;
    ll_side_stop(end);
    if (served) ll_http_stop();
    if (watched) ll_connections_stop();
    if (lost) return ll_fail_message("%d session%s could not be saved", lost, lost > 1 ? "s" : "");
    return served ? 0 : code;
}

/* jansson does not check whether each character of a text could be stored (src/base/json.c). If memory were refused, a
 * request might be read as another one. So jansson gets memory from ll_serve_alloc, which never fails. */
static void *json_memory(size_t size) { return ll_serve_alloc(size, 1); }

static int serve(int n, const char **words) {
    if (!n && !ll_serve.models) return ll_usage("needs a MODEL, or --models DIR");
    json_set_alloc_funcs(json_memory, free);
    signal(SIGPIPE, SIG_IGN);
    ll_stop_on_signals(0, "ending what runs, saving sessions", "sessions of this run that were not saved are lost");
    const int code = serve_models(n, words);
    ll_served_free();
    return code;
}

const ll_command ll_command_serve = {
    .name = "serve",
    .words = "[MODEL...]",
    .least = 0,
    .most = 64,
    .summary = "serve models over HTTP, for clients of OpenAI's interface",
    .text =
        "Answers /v1/completions, /v1/chat/completions, /v1/embeddings and /v1/models as OpenAI's clients expect, and\n"
        "/v1/score, /v1/classify and /v1/sessions besides; /health and /metrics for who watches it. docs/serve.md has\n"
        "all of them. Requests run together: each step reads the weights once for all. What a request gets does not\n"
        "depend on what runs beside it, to the last bit.\n"
        "A session is a text that goes on: it costs the model's state, however long it is. It can be copied, saved,\n"
        "and gone back to; with --state-dir it outlives the server.\n"
        "Each request is a line of JSON on standard error, without anybody's texts. SIGTERM ends what runs and saves\n"
        "sessions.\n\n"
        "  longline serve runs/text-bytes-1/best.safetensors\n"
        "  curl localhost:8080/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\":\"It was\"}'\n"
        "  longline serve --models models --listen 0.0.0.0:8080 --api-keys keys --state-dir sessions",
    .args = args,
    .run = serve,
};
