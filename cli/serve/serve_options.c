/* The server's options, with their defaults. */
#include "serve/serve.h"

ll_serve_options ll_serve = {
    .listen = "127.0.0.1:8080",
    .batch = 64,
    .block = 64,
    .queue = 256,
    .body = 8 << 20,
    .prompt = 1 << 20,
    .input = 1 << 16,
    .most = 65536,
    .sessions = 10000,
    .memory = 1 << 30,
    .quota = INT64_C(10) << 30,
    .connections = 1024,
    .idle = 30,
    .send = 600,
    .drain = 30,
};
