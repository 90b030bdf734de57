/* The Content-Security-Policy of the page at `/`. It names the digests of the page's <script> and <style>. A browser
 * runs and applies nothing else: nothing from other sites, no attributes, and no text that a model wrote. */
#include <sha2.h>
#include <stdlib.h>
#include <string.h>

#include "serve/http.h"
#include "serve/serve.h"

/* Adds " 'sha256-...'" of what stands between two tags, or " 'none'" if they are not there. */
static void add_digest(ll_buffer *policy, const char *open, const char *close) {
    const char *begin = strstr(ll_page, open), *end = begin ? strstr(begin, close) : NULL;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX c;
    if (!end) {
        ll_buffer_text(policy, " 'none'");
        return;
    }
    begin += strlen(open);
    SHA256Init(&c);
    SHA256Update(&c, (const uint8_t *)begin, (size_t)(end - begin));
    SHA256Final(digest, &c);
    char *text = ll_base64(digest, sizeof digest);
    ll_buffer_text(policy, " 'sha256-");
    ll_buffer_text(policy, text);
    ll_buffer_text(policy, "'");
    free(text);
}

char *ll_page_policy(void) {
    ll_buffer policy = {0};
    ll_buffer_text(&policy, "default-src 'none'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
                            "form-action 'none'; frame-ancestors 'none'; script-src");
    add_digest(&policy, "<script>", "</script>");
    ll_buffer_text(&policy, "; style-src");
    add_digest(&policy, "<style>", "</style>");
    ll_buffer_add(&policy, "", 1);
    return policy.data;
}
