/* longline generate: generates text, one token after another, with memory that does not grow. Its state can be saved to
 * a file, from which it continues as if it had never stopped. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "generate/generate_output.h"

static const char *prompt, *prompt_file, *prompts, *load_state, *save_state, *midi_path, *weights, *draft;
static int64_t tokens = 512, draft_tokens = 4, prompt_tokens, top_k, seed = 1;
static double temperature = 1, top_p = 1;
static int echo, only_read;

static const ll_arg args[] = {
    {LL_ARG_TEXT, 0, "prompt", "TEXT", &prompt, 0, 0, "text to continue; default: a new line"},
    {LL_ARG_TEXT, 0, "prompt-file", "FILE", &prompt_file, 0, 0,
     "text from a file of any length, plain, .gz, .xz or .zst; - is standard input"},
    {LL_ARG_TEXT, 0, "prompts", "FILE", &prompts, 0, 0,
     "a prompt in each line of a file: writes a line for each, line i (from 0) with seed S + i"},
    {LL_ARG_INTEGER, 0, "prompt-tokens", "N", &prompt_tokens, 0, 9e15,
     "uses only the first N tokens of the prompt; 0 = all"},
    {LL_ARG_FLAG, 0, "echo", NULL, &echo, 0, 0, "print the prompt, too"},
    {LL_ARG_TEXT, 'o', "out", "FILE.mid", &midi_path, 0, 0,
     "music: writes a MIDI file, .mid or .midi, instead of events; --echo includes the prompt"},
    {LL_ARG_INTEGER, 0, "tokens", "N", &tokens, 0, 9e15,
     "number of tokens (for text, bytes) to generate; 0 = until stopped"},
    {LL_ARG_NUMBER, 0, "temperature", "T", &temperature, 0, 100,
     "divides the logits: lower is more predictable; 0 = always the most likely token"},
    {LL_ARG_INTEGER, 0, "top-k", "K", &top_k, 0, 1e6, "samples from the K most likely tokens; 0 = from all"},
    {LL_ARG_NUMBER, 0, "top-p", "P", &top_p, 0, 1,
     "samples from the likeliest tokens that make up P; 1 = from all, 0 = the likeliest"},
    {LL_ARG_INTEGER, 0, "seed", "S", &seed, 0, 9e15, "seed of the random choices"},
    {LL_ARG_TEXT, 0, "weights", "KIND", &weights, 0, 0,
     "f32, bf16, int8 or int4: fewer bits are fewer bytes to read a token; default: as in the file"},
    {LL_ARG_TEXT, 0, "draft", "MODEL", &draft, 0, 0,
     "a smaller model of the same vocabulary drafts tokens; this one checks blocks of them"},
    {LL_ARG_INTEGER, 0, "draft-tokens", "N", &draft_tokens, 1, LL_DRAFT_MOST, "tokens that are drafted at a time"},
    {LL_ARG_TEXT, 0, "load-state", "FILE", &load_state, 0, 0,
     "starts from a state of --save-state; a prompt is read after it"},
    {LL_ARG_TEXT, 0, "save-state", "FILE", &save_state, 0, 0,
     "at the end, also after Ctrl-C, saves the state of the model to FILE"},
    {LL_ARG_FLAG, 0, "only-read", NULL, &only_read, 0, 0, "reads the prompt, saves the state, generates nothing"},
    {.type = LL_ARG_END},
};

static ll_status feed_and_echo(ll_text_output *s, const uint8_t *bytes, size_t n) {
    if (s->bytes && s->most && (int64_t)n > s->most - s->fed) n = (size_t)(s->most - s->fed);
    if (echo && !s->keeps) fwrite(bytes, 1, n, stdout);
    if (n) s->in_word = !strchr(" \t\r\n", bytes[n - 1]);
    return ll_text_output_feed(s, bytes, n);
}

/* A prompt may be longer than memory, so it is read in blocks. */
typedef struct {
    ll_text_output *output;
    int code; /* -1, or the exit code */
} feeding;

static int feed_block(const uint8_t *bytes, size_t n, void *arg) {
    feeding *f = arg;
    const ll_status status = feed_and_echo(f->output, bytes, n);
    if (status) f->code = ll_failed(status, NULL);
    return f->code >= 0;
}

/* Prints the prompt again as its tokens read it, if that differs from the given text, or if only a part was used. */
static void echo_tokens(ll_text_output *s) {
    for (size_t i = 0; i < s->token_count; i++) {
        size_t size;
        const char *text = ll_tokenizer_text(s->tokenizer, s->tokens[i], &size);
        fwrite(text, 1, size, stdout);
    }
    s->keeps = 0;
}

/* The text of a word ends in a blank, and the prompt may not. */
static void echo_blank(const ll_text_output *s) {
    size_t size = 0;
    const char *text = s->fed ? ll_tokenizer_text(s->tokenizer, s->last, &size) : NULL;
    if (size > 1 && text[size - 1] == ' ' && s->in_word) putchar(' ');
}

/* -1, or LL_CUT, or the exit code. */
static int feed_prompt(ll_text_output *s) {
    ll_status status = LL_OK;
    if (prompt) status = feed_and_echo(s, (const uint8_t *)prompt, strlen(prompt));
    if (status) return ll_failed(status, NULL);
    feeding file = {s, -1};
    int code = -1;
    const char *what = s->reports ? "prompt read" : NULL;
    if (prompt_file) code = ll_read_blocks(prompt_file, what, s->bytes ? s->most : 0, feed_block, &file);
    if (code >= 0 || file.code >= 0) return code >= 0 ? code : file.code;
    status = ll_text_output_flush(s);
    if (echo && s->keeps && !midi_path) echo_tokens(s);
    else if (echo && !status) echo_blank(s);
    if (!status && !ll_text_output_position(s) && !ll_stop_wanted()) {
        /* A model needs at least one token; most texts begin after a new line. */
        status = ll_text_output_feed(s, (const uint8_t *)"\n", 1);
        if (!status) status = ll_text_output_flush(s);
    }
    if (status) return ll_failed(status, NULL);
    if (code == LL_CUT || !s->cut) return code;
    ll_print("stopped while reading the prompt");
    return LL_CUT;
}

/* Writes text to stdout until there is enough or a signal arrives; *n counts its tokens. A terminal shows by itself how
 * far it is. -1, or the exit code. */
static int write_text(ll_text_output *s, const ll_sampling *how, int64_t *n, ll_progress_line *progress) {
    const int shown = isatty(STDOUT_FILENO);
    char last = '\n';
    for (; (!tokens || *n < tokens) && !ll_text_output_ended(s) && !ll_stop_wanted(); ++*n) {
        const char *text;
        size_t size;
        if (!shown) (void)ll_progress_report(*n, tokens, progress);
        const ll_status status = ll_text_output_next(s, how, &text, &size);
        if (status) return ll_failed(status, NULL);
        fwrite(text, 1, size, stdout);
        if (size) last = text[size - 1];
        if (!ll_stdout_flush()) continue;
        if (!save_state) return 1; /* main prints why */
        ll_output_lost();
        ++*n;
        return -1;
    }
    if (last != '\n' && shown) putchar('\n');
    if ((!tokens || *n < tokens) && ll_text_output_ended(s)) ll_print_end("text", ll_text_output_position(s), NULL);
    return -1;
}

static int save(const ll_text_output *s) {
    char path[LL_QUOTED];
    const ll_status status = ll_stream_save(s->stream, save_state);
    if (status) return ll_failed(status, NULL);
    ll_print("state after %s %lld saved; go on with: --load-state %s", s->bytes ? "byte" : "token",
             (long long)ll_stream_position(s->stream), ll_quoted(path, save_state));
    return 0;
}

static void report_drafts(const ll_draft *d) {
    const ll_draft_counts n = ll_draft_count(d);
    ll_print("%lld blocks; %lld of %lld drafted tokens were accepted (%.0f %%)", (long long)n.blocks,
             (long long)n.taken, (long long)n.drafted, n.drafted ? 100 * (double)n.taken / (double)n.drafted : 0);
}

static int write_generated(ll_text_output *s, const ll_sampling *how) {
    int64_t n = 0;
    const int music = ll_text_output_is_music(s);
    if (midi_path && !music) return ll_usage("--out writes music, and this model does not");
    s->most = prompt_tokens;
    s->saves = save_state != NULL;
    s->reports = !echo || !isatty(STDOUT_FILENO);
    s->keeps = midi_path || (echo && !s->bytes && (music || prompt_tokens));
    if (save_state) signal(SIGPIPE, SIG_IGN); /* a reader that goes away ends the text, not the state */
    if (save_state || midi_path) ll_stop_on_signals(0, "saving", "nothing was saved");
    int code = feed_prompt(s);
    const int cut = code == LL_CUT;
    if (code >= 0) return code;
    const double start = ll_now();
    ll_progress_line progress = ll_progress_of(LL_PROGRESS_COUNT, "generated");
    if (!only_read && !cut)
        code = midi_path ? ll_midi_output(s, midi_path, how, tokens, echo, &n, &progress)
                         : write_text(s, how, &n, &progress);
    ll_progress_end(&progress);
    if (code >= 0) return code;
    char state[24], memory[24];
    if (s->draft) report_drafts(s->draft);
    if (!only_read)
        ll_print("%lld %s, %.0f a second; the state has %s, the program %s", (long long)n,
                 s->bytes ? "bytes"
                 : music  ? "events"
                          : "tokens",
                 (double)n / (ll_now() - start), ll_size(state, (double)ll_text_output_bytes(s)),
                 ll_size(memory, (double)ll_memory_now()));
    code = save_state ? ll_output_code(save(s)) : 0;
    return code ? code : cut; /* the rest of the prompt has yet to be read */
}

/* -1, or the exit code. */
static int check_usage(const char *model) {
    if (prompt && prompt_file) return ll_usage("give --prompt or --prompt-file, not both");
    if (prompts && (prompt || prompt_file || prompt_tokens || echo || midi_path || save_state || only_read))
        return ll_usage("--prompts writes a line for each prompt; it goes with --tokens, --load-state, --weights and "
                        "the options of sampling");
    if (only_read && !save_state) return ll_usage("--only-read needs --save-state; it would leave no result");
    if (only_read && !prompt && !prompt_file) return ll_usage("--only-read needs a prompt: --prompt-file");
    if (only_read && midi_path) return ll_usage("--only-read generates nothing; leave out --out");
    const char *const read[] = {model, prompt_file};
    const int target = midi_path ? ll_midi_output_check(midi_path, prompt_file ? 2 : 1, read) : -1;
    if (target >= 0) return target;
    /* A piece of --out may not end before its first new event, which drafts do not know. */
    if (draft && (prompts || load_state || save_state || midi_path))
        return ll_usage("--draft goes with one prompt, and not with --prompts, --load-state, --save-state or --out");
    if (!draft && ll_args_given("draft-tokens")) return ll_usage("--draft-tokens needs --draft MODEL");
    int code = save_state ? ll_target_apart("--save-state", save_state, prompt_file ? 2 : 1, read) : -1;
    if (code < 0 && midi_path && save_state) code = ll_targets_differ("--out", midi_path, "--save-state", save_state);
    return code;
}

/* The same for an encoder-decoder, which answers a source. */
static int check_answers(void) {
    if (midi_path) return ll_usage("--out writes music, and this model does not");
    if (prompt_tokens) return ll_usage("a seq2seq model reads all of its source; no --prompt-tokens");
    if (echo) return ll_usage("a seq2seq model does not continue its source; no --echo");
    if (draft) return ll_usage("--draft is for language models, not for seq2seq");
    if (prompts && load_state) return ll_usage("the state has a source already; leave out --load-state");
    return -1;
}

static int open_output(ll_text_output *s, ll_model *model, ll_model **draft_model) {
    if (!draft) return ll_text_output_create(s, model, load_state);
    int code = ll_load_model(draft_model, draft);
    if (code < 0) code = ll_round_weights(*draft_model, draft, weights);
    return code < 0 ? ll_text_output_draft(s, model, *draft_model, (int)draft_tokens) : code;
}

static int generate(int n, const char **words) {
    (void)n;
    ll_model *model = NULL, *draft_model = NULL;
    ll_text_output output = {0};
    int code = check_usage(words[0]);
    if (code >= 0) return code;
    if (!prompts && ll_dist_ranks().rank) return 0; /* one text is written by one rank */
    code = ll_load_model(&model, words[0]);
    if (code >= 0) return code;
    if (load_state) ll_note_unchecked(load_state);
    const char *task = ll_recipe_get(ll_model_recipe(model), "model.task");
    const int answers = task && !strcmp(task, "seq2seq");
    const ll_question question = {
        prompt, prompt_file, load_state, save_state,
        {sizeof(ll_sampling), (float)temperature, (int)top_k, (float)top_p, (uint64_t)seed},
        tokens, only_read, answers};
    code = answers ? check_answers() : prompts && !tokens ? ll_usage("--prompts needs an end of each: --tokens N") : -1;
    if (code < 0) code = ll_round_weights(model, words[0], weights);
    if (code < 0 && prompts) code = ll_answer_prompts(model, &question, prompts);
    if (code < 0 && answers) code = ll_answer(model, &question);
    if (code < 0) code = open_output(&output, model, &draft_model);
    if (code < 0) code = write_generated(&output, &question.how);
    ll_text_output_free(&output);
    ll_model_free(draft_model);
    ll_model_free(model);
    return code;
}

const ll_command ll_command_generate = {
    .name = "generate",
    .words = "MODEL",
    .least = 1,
    .most = 1,
    .summary = "generate text with a model",
    .text =
        "Writes bytes, words, tokens, letters or events of music to standard output as they are generated. The\n"
        "vocabulary is in the model. With --out, music becomes a MIDI file; the prompt may be a MIDI file, too.\n"
        "With linear attention, time and memory of a token do not depend on how many came before. The same seed,\n"
        "model and prompt give the same text. It ends where learned positions do, whatever --tokens says.\n"
        "A seq2seq model reads the prompt as its source and writes the target, one line; its state includes the\n"
        "source and the part of the target so far.\n"
        "A state is all that the model keeps of what it has read and written, in a file whose size does not grow\n"
        "with the text. Generation continues from it without reading the text again, and with the same options it\n"
        "gives the same text as without a stop. A state belongs to one model; other models refuse it. After Ctrl-C\n"
        "while the prompt is read, the state is that of what was read, and the exit code is 1. A seq2seq model that\n"
        "has not read all of its source saves none.\n"
        "With --draft a smaller model proposes tokens and this one reads them as a block. That takes less time where\n"
        "the smaller one is often right. The text has the same distribution, and with --temperature 0 is the same.\n"
        "With --prompts each answer is one line: line ends, tabs and backslashes are written as \\n, \\t, \\\\, and\n"
        "other control characters by their number, as \\x1b.\n"
        "mpirun -n N divides the prompts among N ranks and writes the same lines.\n\n"
        "  longline generate runs/text-bytes-1/best.safetensors --prompt 'It was' --temperature 0.8\n"
        "  cat book.txt | longline generate MODEL --prompt-file - --tokens 100000 > more.txt\n"
        "  longline generate MODEL --prompt-file book.txt --only-read --save-state book.state\n"
        "  longline generate MODEL --load-state book.state --seed 7    # as often as you like\n"
        "  longline generate MODEL --draft SMALLER-MODEL --draft-tokens 6 --temperature 0\n"
        "  longline generate MODEL --prompts questions.txt --tokens 100 --temperature 0\n"
        "  longline generate runs/sine-spe-1/best.safetensors --prompt-file song.mid --out continued.mid --echo\n"
        "  longline generate runs/reverse-1/best.safetensors --prompt 'desserts' --temperature 0",
    .args = args,
    .run = generate,
    .ranks = 1,
};
