/* In place of http.c where the program was built without libmicrohttpd. */
#include "cli.h"
#include "serve/serve_threads.h"

int ll_http_start(void) {
    ll_print("this program was built without libmicrohttpd, so that it cannot serve; install libmicrohttpd-dev and "
             "build it again");
    return 1;
}

void ll_http_drain(void) {}
void ll_http_stop(void) {}
