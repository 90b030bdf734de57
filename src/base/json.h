/* JSON by jansson, where memory may run out. */
#ifndef LL_JSON_H
#define LL_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* As json_loadb. NULL with *refused = 1 where memory was refused meanwhile, else *refused = 0. */
json_t *ll_json_load(const uint8_t *text, size_t size, size_t flags, json_error_t *error, int *refused);

/* As json_stringn. NULL with *refused = 1 where memory was refused meanwhile, NULL with *refused = 0 for no UTF-8. */
json_t *ll_json_string(const char *text, size_t size, int *refused);

#endif
