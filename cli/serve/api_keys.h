/* Who may send requests. */
#ifndef LL_API_KEYS_H
#define LL_API_KEYS_H

int ll_keys_load(const char *path); /* -1, or the exit code */
/* The number of the key in "Bearer KEY", from 1; 0: no keys are in use; -1: an unknown key. The time does not depend on
 * the key. */
int ll_keys_find(const char *authorization);
const char *ll_keys_name(int key);
enum { LL_OWNER = 16 };
const char *ll_keys_owner(int key); /* LL_OWNER digits of its digest, for names of files; zeros without keys */

#endif
