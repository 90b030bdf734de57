/* Messages carry the name of the command; main sets it. */
#ifndef LL_SAY_H
#define LL_SAY_H

void ll_say_as(const char *command);

#endif
