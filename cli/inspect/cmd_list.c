/* longline list: the attention kernels, the positions, and which go together, from the table that also checks
 * recipes. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static int pairs, json;

static const ll_arg args[] = {
    {LL_ARG_FLAG, 0, "pairs", NULL, &pairs, 0, 0, "every pair as a line of CSV, with the reason if it is refused"},
    {LL_ARG_FLAG, 0, "json", NULL, &json, 0, 0, "everything as JSON"},
    {.type = LL_ARG_END},
};

typedef const ll_mechanism *row_at(int i);
static const char *const streams[] = {"constant", "grows", "no"}, *const lengths[] = {"any", "table", "image"};

/* A pair: is it legal causal, is it legal on whole sequences, and why not (the causal reason first). */
typedef struct {
    int causal, whole;
    ll_stream_kind stream;
    ll_length_kind length;
    char reason[300];
} pair;

static pair pair_of(const ll_mechanism *k, const ll_mechanism *p) {
    pair x = {.stream = k->stream > p->stream ? k->stream : p->stream,
              .length = k->length > p->length ? k->length : p->length};
    x.whole = !ll_pair_legal(k->name, p->name, 0);
    if (!x.whole) snprintf(x.reason, sizeof x.reason, "%s", ll_error());
    x.causal = !ll_pair_legal(k->name, p->name, 1);
    if (!x.causal) snprintf(x.reason, sizeof x.reason, "%s", ll_error());
    if (!x.causal) x.stream = LL_STREAM_NONE;
    return x;
}

/* ---- Tables ---- */

static int widest(row_at *at, int what) {
    int most = 0;
    for (int i = 0; at(i); i++) {
        const int n = (int)strlen(what == 0 ? at(i)->name : what == 1 ? at(i)->what : at(i)->cost);
        if (n > most) most = n;
    }
    return most;
}

static void print_rows(const char *key, row_at *at, const char *cost) {
    const int name = widest(at, 0), what = widest(at, 1), time = widest(at, 2);
    printf("%s\n\n  %-*s  %-*s  %-*s  causal  stream    length  paper\n", key, name, "", what, "", time, cost);
    for (int i = 0; at(i); i++) {
        const ll_mechanism *m = at(i);
        printf("  %-*s  %-*s  %-*s  %-6s  %-8s  %-6s  %s\n", name, m->name, what, m->what, time, m->cost,
               m->causal ? "yes" : "no", streams[m->causal ? m->stream : LL_STREAM_NONE], lengths[m->length],
               *m->paper ? m->paper : "-");
    }
    printf("\n");
}

/* The meaning of a pair's letter, in the legend and in the table. */
static char mark(const pair *x) {
    return x->causal && x->whole ? '*' : x->causal ? 'c' : x->whole ? 'w' : '.';
}

/* The letters that occur in the table. */
static void print_legend(void) {
    static const struct {
        char mark;
        const char *text;
    } all[] = {{'*', "legal"}, {'c', "in language models alone"}, {'w', "on whole sequences alone"}, {'.', "refused"}};
    int there[sizeof all / sizeof *all] = {0}, shown = 0;
    for (int k = 0; ll_kernel_at(k); k++)
        for (int p = 0; ll_position_at(p); p++) {
            const pair x = pair_of(ll_kernel_at(k), ll_position_at(p));
            for (size_t i = 0; i < sizeof all / sizeof *all; i++) there[i] |= all[i].mark == mark(&x);
        }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (there[i]) printf("%s %c %s", shown++ ? "," : "pairs:", all[i].mark, all[i].text);
    printf("\n\n");
}

/* The names of the columns form a staircase, each above its column. */
static void print_matrix(void) {
    const int name = widest(ll_kernel_at, 0);
    print_legend();
    for (int p = 0; ll_position_at(p); p++) {
        printf("  %-*s  ", name, "");
        for (int i = 0; i < p; i++) printf("| ");
        printf("%s\n", ll_position_at(p)->name);
    }
    for (int k = 0; ll_kernel_at(k); k++) {
        printf("  %-*s ", name, ll_kernel_at(k)->name);
        for (int p = 0; ll_position_at(p); p++) {
            const pair x = pair_of(ll_kernel_at(k), ll_position_at(p));
            printf(" %c", mark(&x));
        }
        printf("\n");
    }
}

static void print_all(void) {
    print_rows("attention.kernel", ll_kernel_at, "time");
    print_rows("position.type", ll_position_at, "adds");
    print_matrix();
    printf(
        "\nT tokens, queries of size D, values of size E, m features, R realizations. stream: what generation keeps.\n"
        "position.decay = fixed goes with every causal kernel of m features, but not with relative-s2. 'longline list\n"
        "--pairs' says why a pair is refused; 'longline recipe attention' and 'longline recipe position' list the "
        "keys.\n");
}

/* ---- CSV and JSON ---- */

static void print_pairs(void) {
    printf("kernel,position,causal,whole,stream,length,reason\n");
    for (int k = 0; ll_kernel_at(k); k++)
        for (int p = 0; ll_position_at(p); p++) {
            const pair x = pair_of(ll_kernel_at(k), ll_position_at(p));
            printf("%s,%s,%d,%d,%s,%s,\"%s\"\n", ll_kernel_at(k)->name, ll_position_at(p)->name, x.causal, x.whole,
                   streams[x.stream], lengths[x.length], x.reason);
        }
}

/* Texts of the table need no escapes in JSON, because they have no quotes. */
static void json_rows(const char *key, row_at *at) {
    printf("  \"%s\": [\n", key);
    for (int i = 0; at(i); i++) {
        const ll_mechanism *m = at(i);
        printf("    {\"name\": \"%s\", \"what\": \"%s\", \"paper\": \"%s\", \"cost\": \"%s\", \"causal\": %s, "
               "\"whole\": %s, \"stream\": \"%s\", \"length\": \"%s\"}%s\n",
               m->name, m->what, m->paper, m->cost, m->causal ? "true" : "false", m->whole ? "true" : "false",
               streams[m->causal ? m->stream : LL_STREAM_NONE], lengths[m->length], at(i + 1) ? "," : "");
    }
    printf("  ],\n");
}

static void print_json(void) {
    printf("{\n");
    json_rows("kernels", ll_kernel_at);
    json_rows("positions", ll_position_at);
    printf("  \"pairs\": [\n");
    for (int k = 0; ll_kernel_at(k); k++)
        for (int p = 0; ll_position_at(p); p++) {
            const pair x = pair_of(ll_kernel_at(k), ll_position_at(p));
            printf("    {\"kernel\": \"%s\", \"position\": \"%s\", \"causal\": %s, \"whole\": %s, \"stream\": \"%s\", "
                   "\"length\": \"%s\", \"reason\": \"%s\"}%s\n",
                   ll_kernel_at(k)->name, ll_position_at(p)->name, x.causal ? "true" : "false",
                   x.whole ? "true" : "false", streams[x.stream], lengths[x.length], x.reason,
                   ll_kernel_at(k + 1) || ll_position_at(p + 1) ? "," : "");
        }
    printf("  ]\n}\n");
}

static int list(int n, const char **words) {
    (void)n, (void)words;
    if (pairs && json) return ll_usage("give --pairs or --json, not both; --json has the pairs");
    if (pairs)
        print_pairs();
    else if (json)
        print_json();
    else
        print_all();
    return 0;
}

const ll_command ll_command_list = {
    .name = "list",
    .words = "",
    .summary = "list the attention kernels and positions, and which go together",
    .text =
        "Prints the values of attention.kernel and position.type: what each is, what it costs for T tokens, whether\n"
        "it can be causal, what state generation keeps, how long a sequence may be; then which of the two go\n"
        "together. Recipes are checked by the same table.\n\n"
        "  longline list\n"
        "  longline list --pairs | grep ^softmax",
    .args = args,
    .run = list,
};
