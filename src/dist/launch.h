/* Which launcher started this process, and the plug-in for its MPI library. */
#ifndef LL_LAUNCH_H
#define LL_LAUNCH_H

#include "base/status.h"
#include "dist/transport.h"

/* *transport is NULL where no launcher is seen. LL_EDIST names the plug-in that is missing. */
LL_MUST_USE ll_status ll_launch(const ll_transport **transport);
#endif
