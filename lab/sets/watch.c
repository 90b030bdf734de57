/* Progress of long reads, for programs. */
#include "base/read_progress.h"
#include "longline-lab.h"

void ll_data_watch(ll_reading_fn *watch, void *arg) { ll_read_progress_watch(watch, arg); }
