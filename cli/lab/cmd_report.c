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

/* Writes the page of a run, into its folder without --out; says what it lacks. */
static ll_status one_run(const char *run, ll_progress_line *progress) {
    char *lacks = NULL;
    ll_stop_on_signals(1, "stopping", "no page was written");
    const ll_status status = ll_run_report(run, out, &lacks, ll_progress_report, progress);
    ll_progress_end(progress);
    if (!status && lacks) ll_print("%s; the page lacks what needs the data", lacks);
    ll_text_free(lacks);
    return status;
}

static int failed(ll_status status, int n, const char **runs) {
    char input[4200];
    name_input(input, sizeof input, n, runs);
    if (status == LL_EIO && n == 1 && !out && !access(input, R_OK) && access(runs[0], W_OK))
        return ll_fail_message("%s; -o FILE.html writes the page elsewhere", ll_error());
    return ll_failed(status, input);
}

static int report(int n, const char **words) {
    char own[4200];
    const int code = out ? ll_target_check("--out", out) : n == 1 ? ll_line_check("RUN", words[0]) : -1;
    if (code >= 0) return code;
    snprintf(own, sizeof own, "%s/report.html", words[0]);
    const char *page = out ? out : n == 1 ? own : "comparison.html";
    const size_t length = strlen(page);
    if (length < 6 || strcmp(page + length - 5, ".html"))
        return ll_usage("-o %s: the name of the page must end in .html", page);
    ll_progress_line progress = ll_progress_of(LL_PROGRESS_SHARE, "report");
    const ll_status status = n == 1 ? one_run(words[0], &progress) : ll_runs_report(words, n, page);
    if (status) return failed(status, n, words);
    printf("report.page=%s\n", page);
    return 0;
}

const ll_command ll_command_report = {
    .name = "report",
    .words = "RUN [RUN...]",
    .least = 1,
    .most = 32,
    .summary = "write the page of a run, or compare runs",
    .text =
        "Writes one HTML file that needs nothing else: curves, results, text or mistakes of the model, attention\n"
        "maps, time and memory, the recipe. A run writes its own page when it ends; this writes it again, also\n"
        "while the run goes on. Several runs are shown side by side. Every figure is also written beside the page\n"
        "as .svg and .csv, in the folder figures (or NAME-figures). A page of a run stays where its data cannot be\n"
        "read: -o writes one without what needs them.\n\n"
        "  longline report runs/text-bytes-1\n"
        "  longline report runs/text-bytes-1 runs/text-bytes-2 -o comparison.html",
    .args = args,
    .run = report,
};
