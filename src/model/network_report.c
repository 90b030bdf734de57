/* Reports the progress of a call with a model while blocks are computed. */
#include "model/network.h"

/* A block is one unit of progress, or FINE units if it has several chunks of rows. */
enum { FINE = 1000 };

static int unit(const ll_batch_run *run) {
    return run->rows > LL_CHUNK ? FINE : 1;
}

static ll_status report(const ll_batch_run *run, int64_t units, int64_t blocks) {
    const ll_model *m = run->model;
    const ll_workspace *ws = run->ws;
    if (!m->progress || ws->mode == LL_STREAM || run->again || !ws->parts) return LL_OK;
    const int64_t all = (run->grad ? 3 : 1) * blocks * unit(run);
    return ll_progress_done(m->progress, m->progress_arg, ws->part * all + ws->span * units, ws->parts * all);
}

ll_status ll_network_report(const ll_batch_run *run, int64_t done, int64_t blocks) {
    return report(run, done * unit(run), blocks);
}

ll_status ll_network_report_back(const ll_batch_run *run, int64_t left) {
    const int64_t blocks = run->ws->blocks;
    return report(run, (3 * blocks - 2 * left) * unit(run), blocks);
}

ll_status ll_sublayer_report(const ll_batch_run *run, int j, ll_rows r, double first, double last) {
    const ll_workspace *ws = run->ws;
    if (!run->model->progress || unit(run) == 1) return LL_OK;
    const double rows = (double)(r.first + (size_t)r.n) / (double)run->rows;
    const double done = ws->below + (j + first + (last - first) * rows) / run->stack->parts;
    return report(run, (int64_t)(done * FINE), ws->blocks);
}
