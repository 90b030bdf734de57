/* longline report: the page of a run, or of several runs side by side. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const char *out;

static const ll_arg args[] = {
    {LL_ARG_TEXT, 'o', "out", "FILE", &out, 0, 0,
     "file of the page; default RUN/report.html, or comparison.html for several runs"},
    {.type = LL_ARG_END},
};

/* The metrics that cannot be read, or else those of the first run: the file that an error names. */
static void name_input(char *path, size_t size, int n, const char **runs) {
    for (int i = 0; i < n; i++) {
        snprintf(path, size, "%s/metrics.csv", runs[i]);
        if (access(path, R_OK)) return;
    }
    snprintf(path, size, "%s/metrics.csv", runs[0]);
}

static int report(int n, const char **words) {
    char input[4200], own[4200];
    const int code = out ? ll_target_check("--out", out) : n == 1 ? ll_line_check("RUN", words[0]) : -1;
    if (code >= 0) return code;
    if (n == 1 && !out) {
        snprintf(own, sizeof own, "%s/report.html", words[0]);
        out = own;
    }
    const char *page = out ? out : "comparison.html";
    const size_t length = strlen(page);
    if (length < 6 || strcmp(page + length - 5, ".html"))
        return ll_usage("-o %s: the name of the page must end in .html", page);
    ll_progress_line progress = ll_progress_of(LL_PROGRESS_SHARE, "report");
    if (n == 1) ll_stop_on_signals(1, "stopping", "no page was written");
    const ll_status status = n == 1 ? ll_run_report(words[0], page, ll_progress_report, &progress)
                                    : ll_runs_report(words, n, page);
    ll_progress_end(&progress);
    if (status) {
        name_input(input, sizeof input, n, words);
        return ll_failed(status, input);
    }
    printf("report.page=%s\n", page);
    return 0;
}

const ll_command ll_command_report = {
    .name = "report",
    .words = "RUN [RUN...]",
    .least = 1,
    .most = 32,
    .summary = "write the page of a run, or compare runs",
    .text = "Writes one HTML file that needs nothing else: curves, results, text or mistakes of the model, attention\n"
            "maps, time and memory, the recipe. A run writes its own page when it ends; this writes it again, also\n"
            "while the run goes on. Several runs are shown side by side. Every figure is also written beside the page\n"
            "as .svg and .csv, in the folder figures (or NAME-figures).\n\n"
            "  longline report runs/text-bytes-1\n"
            "  longline report runs/text-bytes-1 runs/text-bytes-2 -o comparison.html",
    .args = args,
    .run = report,
};
