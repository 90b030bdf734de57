/* The address of --listen: "ADDR:PORT" or "[ADDR]:PORT". */
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "serve/http.h"
#include "serve/serve.h"

/* Is it a decimal number from 0 to 65535? getaddrinfo takes others and keeps their last 16 bits. */
static int is_port(const char *text) {
    const size_t digits = strspn(text, "0123456789");
    return digits && !text[digits] && strtoull(text, NULL, 10) <= 65535;
}

int ll_http_address(struct addrinfo **found) {
    char host[256];
    const char *colon = strrchr(ll_serve.listen, ':');
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    if (!colon || (size_t)(colon - ll_serve.listen) >= sizeof host)
        return ll_usage("--listen %s must be ADDRESS:PORT, as 127.0.0.1:8080", ll_serve.listen);
    if (!is_port(colon + 1))
        return ll_usage("--listen %s: the port must be a number from 0 to 65535; 0 = any that is free",
                        ll_serve.listen);
    size_t n = (size_t)(colon - ll_serve.listen), skip = 0;
    if (n >= 2 && *ll_serve.listen == '[' && ll_serve.listen[n - 1] == ']') skip = 1, n -= 2;
    memcpy(host, ll_serve.listen + skip, n);
    host[n] = 0;
    if (!strcmp(host, "localhost")) snprintf(host, sizeof host, "127.0.0.1");
    const int bad = getaddrinfo(host, colon + 1, &hints, found);
    if (bad == EAI_MEMORY) return ll_fail_message("--listen %s: no memory", ll_serve.listen);
    if (bad)
        return ll_usage("--listen %s: not an address and a port, as 127.0.0.1:8080 or [::1]:8080", ll_serve.listen);
    return -1;
}

int ll_http_is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}
