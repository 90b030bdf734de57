/* Messages carry the name of the command; main sets it. */
#ifndef LL_PRINT_H
#define LL_PRINT_H

void ll_print_as(const char *command);

#endif
