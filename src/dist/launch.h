/* Which launcher started this process, and the plug-in for its MPI library. */
#ifndef LL_LAUNCH_H
#define LL_LAUNCH_H

#include "base/status.h"
#include "dist/transport.h"

/* *transport is NULL if there is no launcher. LL_EDIST names the missing plug-in. */
LL_MUST_USE ll_status ll_launch(const ll_transport **transport);
/* Seconds that ranks wait for each other at the start. */
int ll_launch_wait(void);

#endif
