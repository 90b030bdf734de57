/* Messages begin with the name of the command, which main sets. */
#ifndef LL_PRINT_H
#define LL_PRINT_H

#include <stddef.h>

void ll_print_as(const char *command);
/* The last message of this thread, also where another rank prints; NULL: there was none. */
const char *ll_printed(void);
/* The line that ll_print would write for two texts, without writing it. */
void ll_print_text(char *line, size_t size, const char *text, const char *more);

#endif
