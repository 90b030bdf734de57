/* longline score: log-probabilities of sequences. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sequence/sequences.h"

static const char *before, *after, *out;
static int per_token, json;

static const ll_arg args[] = {
    {LL_ARG_TEXT, 'o', "out", "FILE", &out, 0, 0, "writes this file, .csv as CSV; default or -: standard output"},
    {LL_ARG_FLAG, 0, "per-token", NULL, &per_token, 0, 0, "a line for every token; with --json a list of numbers"},
    {LL_ARG_FLAG, 0, "json", NULL, &json, 0, 0, "prints one JSON object a line instead of TSV"},
    {LL_ARG_TEXT, 0, "before", "TEXT", &before, 0, 0,
     "text before every sequence, so that its first token is scored, too"},
    {LL_ARG_TEXT, 0, "after", "TEXT", &after, 0, 0, "text after every sequence, which is scored"},
    {.type = LL_ARG_END},
};

static const char *unit;
static double sum, all; /* of the current sequence, in nats; of all sequences before it */
static int64_t scored, all_scored, sequences;

/* Is there a token before token i of a part? */
static int is_scored(const ll_item *item, int i) {
    return !item->begins || i > 0;
}

static void show_token(const ll_item *item, int i, double logp) {
    const int64_t position = item->first + i;
    if (json) {
        if (position) putchar(',');
        ll_put_number("%.6f", logp);
        return;
    }
    ll_put_field(item->id);
    const char s = ll_field_end();
    printf("%c%lld%c%d%c%.6f\n", s, (long long)position, s, item->tokens[i], s, logp);
}

static void show_sum(const ll_item *item) {
    const double mean = scored ? -sum / (double)scored : NAN;
    if (!json && !per_token) {
        ll_put_field(item->id);
        const char s = ll_field_end();
        printf("%c%lld%c%.6f%c%.6f%c%.6f\n", s, (long long)scored, s, sum, s, mean / log(2), s, exp(mean));
    }
    if (!json) return;
    printf("%s\"tokens\":%lld,\"logp\":%.6f,\"bits_per_%s\":", per_token ? "]," : "", (long long)scored, sum, unit);
    ll_put_number("%.6f", mean / log(2));
    fputs(",\"perplexity\":", stdout);
    ll_put_number("%.6f", exp(mean));
    puts("}");
}

static int show(const ll_item *item) {
    if (item->begins) {
        sum = 0;
        scored = 0;
        if (json) {
            fputs("{\"id\":", stdout);
            ll_put_string(item->id);
            fputs(per_token ? ",\"token_logp\":[" : ",", stdout);
        }
    }
    for (int i = 0; i < item->n; i++) {
        if (item->first + i < 0) continue;
        if (is_scored(item, i)) sum += (double)item->answer[i], scored++;
        if (per_token) show_token(item, i, is_scored(item, i) ? (double)item->answer[i] : NAN);
    }
    if (item->ends) {
        show_sum(item);
        all += sum;
        all_scored += scored;
        sequences++;
    }
    return -1;
}

static void header(void) {
    const char s = ll_field_end();
    if (!json && per_token)
        printf("id%cposition%ctoken%clogp\n", s, s, s);
    else if (!json)
        printf("id%ctokens%clogp%cbits_per_%s%cperplexity\n", s, s, s, unit, s);
}

static int score_with(ll_model *model, int files, const char **paths) {
    const ll_job job = {.model = model,
                        .width = 1,
                        .per_token = 1,
                        .run = ll_model_score,
                        .show = show,
                        .header = header,
                        .scored = 1,
                        .in_parts = json || per_token,
                        .before = before,
                        .after = after,
                        .out = out};
    unit = ll_unit(ll_model_recipe(model));
    const char *task = ll_recipe_get(ll_model_recipe(model), "model.task");
    if (!task || strcmp(task, "lm") != 0) {
        ll_print("the model (model.task = %s) gives no probabilities of sequences; use %s", task, ll_uses(model));
        return 2;
    }
    const double start = ll_now();
    const int code = ll_sequences(&job, files, paths);
    const double mean = -all / (double)all_scored;
    if (!code && all_scored)
        ll_print("%lld sequences, %lld tokens scored, %.4f bits %s %s, perplexity %.4f; %.0f tokens a second",
                 (long long)sequences, (long long)all_scored, mean / log(2), ll_article(unit), unit, exp(mean),
                 (double)all_scored / (ll_now() - start));
    return code;
}

static int score(int n, const char **words) {
    const int code = ll_answers_target(&out, json, n, words);
    return code < 0 ? ll_sequences_with(n, words, score_with) : code;
}

const ll_command ll_command_score = {
    .name = "score",
    .words = "MODEL [FILE...]",
    .least = 1,
    .most = 1 << 20,
    .summary = "print the log-probabilities of sequences",
    .text =
        "Prints for every sequence its log-probability (nats), bits a token and perplexity, as TSV in the order of\n"
        "the input. The first token is not scored, because nothing comes before it; --before gives a text that does.\n"
        "Files (or standard input) have a text a line, JSONL, FASTA or music; plain, .gz, .xz or .zst. Memory does\n"
        "not grow with the input, nor, with linear attention, with the length of a sequence.\n"
        "The file of -o is written as a whole or not at all.\n\n"
        "  longline score runs/text-bytes-1/best.safetensors lines.txt\n"
        "  longline score MODEL proteins.fasta -o scores.csv\n"
        "  longline score MODEL proteins.fasta.gz --json > scores.jsonl\n"
        "  longline score MODEL book.txt --whole --per-token",
    .args = args,
    .shared = ll_sequence_args,
    .run = score,
    .ranks = 1,
};
