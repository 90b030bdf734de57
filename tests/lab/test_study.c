/* The parts of a run's page that show what its model does: they are there and right. */
#include "pages.h"

#include "base/text.h"
#include "report/report_internal.h"

static void training_leaves_a_page(void **state) {
    (void)state;
    run("train.steps=14 train.report=on", at("trained"), NULL, 0, LL_OK);
    char *page = page_at(at("trained/report.html"));
    check_page(page);
    for (int i = 0; i < 4; i++)
        has(page, (const char *const[]){"id=\"samples\"", "id=\"loss-by-position\"", "id=\"attention\"",
                                        "trained on 24 tokens"}[i]);
    has(page, "<th scope=\"row\">Parameters</th><td>");
    has(page, "<th scope=\"row\">head 2</th>");
    ll_free(page);
    char *csv = page_at(at("trained/figures/attention.csv"));
    has(csv, "panel,row,0,1,");
    has(csv, "\nhead 1,0,"); /* the first token sees only itself */
    char *rest = NULL;
    const double itself = ll_scan_number(strstr(csv, "\nhead 1,0,") + 10, &rest);
    assert_true(fabs(itself - 1) < 1e-6 && !strncmp(rest, ",,", 2));
    ll_free(csv);
    char *positions = page_at(at("trained/figures/loss-by-position.csv"));
    has(positions, "position in the text,loss\n1.5,"); /* 24 parts of 96 tokens: 0..3, 4..7, .. */
    has(positions, "\n93.5,");
    ll_free(positions);
    CHECK_OK(ll_runs_report((const char *const[]){at("trained")}, 1, at("with.html")));
    page = page_at(at("with.html"));
    check_page(page);
    has(page, "id=\"loss-by-position\"");
    ll_free(page);
    assert_int_equal(files_in(at("trained"), "tmp"), 0);
    assert_int_equal(files_in(at("trained/figures"), "tmp"), 0);
    /* The same model gives the same page again, and drawing it changes nothing in the run. */
    copy_folder(at("trained"), at("again"));
    CHECK_OK(ll_run_report(at("again"), NULL, NULL, NULL, NULL));
    same_file(at("trained/figures/attention.csv"), at("again/figures/attention.csv"));
    same_file(at("trained/figures/loss-by-position.csv"), at("again/figures/loss-by-position.csv"));
    run("train.steps=14 train.report=off", at("silent"), NULL, 0, LL_OK);
    assert_true(access(at("silent/report.html"), F_OK) != 0);
    same_metrics(at("trained/metrics.csv"), at("silent/metrics.csv"));
}

typedef struct {
    int64_t calls, last, stop;
} pace;

static int on_progress(int64_t done, int64_t total, void *arg) {
    pace *p = arg;
    assert_true(done >= p->last && done <= total);
    p->last = done;
    if (done == total) assert_int_equal(total, 1000);
    return ++p->calls == p->stop;
}

/* Drawing a page reports progress and can be stopped. */
static void a_page_reports_progress(void **state) {
    (void)state;
    run("train.steps=14 train.report=on", at("drawn"), NULL, 0, LL_OK);
    copy_folder(at("drawn/report.html"), at("drawn-before.html"));
    pace p = {0};
    CHECK_OK(ll_run_report(at("drawn"), NULL, NULL, on_progress, &p));
    assert_true(p.calls > 4);
    assert_int_equal(p.last, 1000);
    same_file(at("drawn/report.html"), at("drawn-before.html"));
    for (int64_t stop = 1; stop < p.calls; stop += 3) {
        pace halted = {.stop = stop};
        CHECK_FAILS(ll_run_report(at("drawn"), NULL, NULL, on_progress, &halted), LL_ESTOPPED, "stopped");
        assert_true(halted.calls <= stop + 2);
        same_file(at("drawn/report.html"), at("drawn-before.html"));
    }
    assert_int_equal(files_in(at("drawn"), "tmp"), 0);
}

/* The mean of the loss by position, over the whole split, is the loss of windows of that length. */
static void positions_add_up(void **state) {
    (void)state;
    run("train.steps=14 train.report=on", at("adds"), NULL, 0, LL_OK);
    static const char *const columns[2] = {"position in the text", "loss"};
    ll_columns t;
    ll_model *m = NULL;
    ll_evaluation e = {.struct_size = sizeof e};
    CHECK_OK(ll_columns_read(&t, at("adds/figures/loss-by-position.csv"), columns, 2, 2));
    CHECK_OK(ll_model_load(&m, at("adds/best.safetensors")));
    CHECK_OK(ll_model_set(m, "train.length=96"));
    CHECK_OK(ll_model_set(m, "train.batch=1"));
    CHECK_OK(ll_evaluate(m, "valid", 0, &e));
    assert_int_equal(e.count, 1499); /* 15 windows of 96 and one of 59, whose positions count too */
    double sum = 0;
    for (int i = 0; i < t.n; i++) sum += t.column[1][i] * 4 * (i < 14 ? 16 : i == 14 ? 15.75 : 15) / 1499;
    assert_int_equal(t.n, 24);
    assert_true(fabs(sum - e.bits_per_token) < 1e-4);
    ll_columns_free(&t);
    ll_model_free(m);
}

static const float *tensor(const ll_model *m, const char *name) {
    for (int i = 0;; i++) {
        const ll_tensor t = ll_model_tensor(m, i);
        assert_non_null(t.data);
        if (!strcmp(t.name, name)) return t.data;
    }
}

/* Learned functions of the distance follow their formulas. */
static void distances_are_functions(void **state) {
    (void)state;
    static const char *const columns[2] = {"5", "0"};
    ll_columns t;
    ll_model *m = NULL;
    run("train.steps=10 train.report=on position.type=sine-spe position.realizations=4 position.sines=3", at("sines"),
        NULL, 0, LL_OK);
    CHECK_OK(ll_columns_read(&t, at("sines/figures/distance.csv"), columns, 2, 2));
    CHECK_OK(ll_model_load(&m, at("sines/best.safetensors")));
    assert_int_equal(t.n, 16); /* two heads of 8 features */
    for (int c = 0; c < 16; c++)
        for (int k = 0; k < 2; k++) {
            double p = 0;
            for (int i = 3 * c; i < 3 * c + 3; i++) {
                const double l = log(1 + exp((double)tensor(m, "blocks.0.position.gains")[i]));
                const double f = 0.5 / (1 + exp(-(double)tensor(m, "blocks.0.position.freqs")[i]));
                p += l * l / 6 * cos(2 * M_PI * f * (k ? 0 : 5) + (double)tensor(m, "blocks.0.position.offsets")[i]);
            }
            assert_true(fabs(p - t.column[k][c]) < 1e-5 * (1 + fabs(p)));
        }
    ll_columns_free(&t);
    ll_model_free(m);
    m = NULL;
    run("train.steps=10 train.report=on position.type=relative-s1 position.scales=2", at("waves"), NULL, 0, LL_OK);
    CHECK_OK(ll_columns_read(&t, at("waves/figures/distance.csv"), columns, 2, 2));
    CHECK_OK(ll_model_load(&m, at("waves/best.safetensors")));
    assert_int_equal(t.n, 2); /* heads */
    for (int h = 0; h < 2; h++) {
        const float *a = tensor(m, "blocks.0.position.alpha") + 2 * h, *b = tensor(m, "blocks.0.position.beta") + 2 * h,
                    *w = tensor(m, "position.inv_freq");
        double p = 0;
        for (int i = 0; i < 2; i++)
            p += (double)a[i] * cos(5.0 * (double)w[i]) + (double)b[i] * sin(5.0 * (double)w[i]);
        assert_true(fabs(p - t.column[0][h]) < 1e-5);
        assert_true(fabs((double)a[0] + (double)a[1] - t.column[1][h]) < 1e-5);
    }
    ll_columns_free(&t);
    ll_model_free(m);
    m = NULL;
    run("train.steps=10 train.report=on attention.kernel=softmax position.type=t5", at("biases"), NULL, 0, LL_OK);
    CHECK_OK(ll_columns_read(&t, at("biases/figures/distance.csv"), (const char *const[]){"128", "15"}, 2, 2));
    CHECK_OK(ll_model_load(&m, at("biases/best.safetensors")));
    const float *bias = tensor(m, "blocks.0.position.bias");
    for (int h = 0; h < 2; h++) /* distance 15 has a bucket of its own, 128 has the last */
        assert_true(t.column[1][h] == (double)bias[32 * h + 15] && t.column[0][h] == (double)bias[32 * h + 31]);
    ll_columns_free(&t);
    ll_model_free(m);
}

/* Encoder-decoders show the functions of their decoder. */
static void decoders_are_shown(void **state) {
    (void)state;
    ll_columns t;
    ll_model *m = NULL;
    run("model.task=seq2seq model.vocab=259 data.format=copy data.train= data.longest=10 train.length=16 train.steps=4 "
        "train.report=on position.type=relative-s1 position.scales=2",
        at("copies"), NULL, 0, LL_OK);
    CHECK_OK(ll_columns_read(&t, at("copies/figures/distance.csv"), (const char *const[]){"64"}, 1, 1));
    CHECK_OK(ll_model_load(&m, at("copies/best.safetensors")));
    const float *a = tensor(m, "decoder.blocks.0.position.alpha");
    for (int h = 0; h < 2; h++)
        assert_true(fabs((double)a[2 * h] + (double)a[2 * h + 1] - t.column[0][h]) < 1e-5); /* column 64: distance 0 */
    ll_columns_free(&t);
    ll_model_free(m);
}

/* Learned vectors of distances: their numbers by distance, and their lengths. Those of shaw are by key minus query,
 * from -clip on. */
static void vectors_are_shown(void **state) {
    (void)state;
    static const char *const first[4] = {"0", "1", "2", "3"};
    ll_columns t;
    ll_model *m = NULL;
    run("train.steps=10 train.report=on attention.kernel=softmax position.type=shaw position.clip=3 position.values=on",
        at("shaw"), NULL, 0, LL_OK);
    CHECK_OK(ll_columns_read(&t, at("shaw/figures/distance.csv"), first, 4, 4));
    CHECK_OK(ll_model_load(&m, at("shaw/best.safetensors")));
    const float *k = tensor(m, "blocks.0.position.distance_k"), *v = tensor(m, "blocks.0.position.distance_v");
    assert_int_equal(t.n, 16); /* 8 numbers for keys, 8 for values */
    for (int c = 0; c < 8; c++)
        for (int d = 0; d < 4; d++) {
            assert_true(t.column[d][c] == (double)k[(3 - d) * 8 + c]);
            assert_true(t.column[d][8 + c] == (double)v[(3 - d) * 8 + c]);
        }
    ll_columns_free(&t);
    static const char *const lengths[3] = {"tokens back", "layer 1 keys", "layer 1 values"};
    CHECK_OK(ll_columns_read(&t, at("shaw/figures/distance-length.csv"), lengths, 3, 3));
    assert_int_equal(t.n, 4);
    for (int d = 0; d < 4; d++) {
        double square[2] = {0};
        for (int c = 0; c < 8; c++) {
            square[0] += pow((double)k[(3 - d) * 8 + c], 2);
            square[1] += pow((double)v[(3 - d) * 8 + c], 2);
        }
        assert_true(t.column[0][d] == d);
        for (int i = 0; i < 2; i++) assert_true(fabs(t.column[1 + i][d] - sqrt(square[i])) < 1e-5);
    }
    ll_columns_free(&t);
    ll_model_free(m);
    m = NULL;
    run("train.steps=10 train.report=on position.type=relative-s2 position.clip=3", at("clipped"), NULL, 0, LL_OK);
    CHECK_OK(ll_columns_read(&t, at("clipped/figures/distance.csv"), first, 4, 4));
    CHECK_OK(ll_model_load(&m, at("clipped/best.safetensors")));
    const float *w = tensor(m, "blocks.0.position.rpe");
    assert_int_equal(t.n, 8);
    for (int c = 0; c < 8; c++)
        for (int d = 0; d < 4; d++) assert_true(t.column[d][c] == (double)w[d * 8 + c]);
    ll_columns_free(&t);
    ll_model_free(m);
}

static double pearson(const double *x, const double *y, int n) {
    double x1 = 0, y1 = 0, xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < n; i++) x1 += x[i], y1 += y[i], xx += x[i] * x[i], yy += y[i] * y[i], xy += x[i] * y[i];
    return (n * xy - x1 * y1) / sqrt((n * xx - x1 * x1) * (n * yy - y1 * y1));
}

/* The share of each head's attention that a letter gets, by the definition, in the only held-out sequence. */
static void shares_of(ll_model *m, int token, double *share) {
    ll_config c = m->recipe->c;
    ll_reader *reader;
    ll_batch b;
    c.train.batch = 1, c.train.length = 96;
    CHECK_OK(ll_reader_open_as(&reader, &c, "valid", &m->vocabulary));
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_eval_batches(reader), 1);
    ll_reader_eval_batch(reader, &b, 0);
    const int n = b.lengths[0];
    int query[96];
    float *A = calloc((size_t)(2 * n * n), sizeof *A);
    for (int i = 0; i < n; i++) query[i] = i;
    for (int l = 0; l < 2; l++) {
        CHECK_OK(ll_model_attention_rows(m, b.tokens, n, l, query, n, A));
        for (int h = 0; h < 2; h++) {
            double all = 0, own = 0;
            for (int i = 0; i < n * n; i++) {
                const int to = b.tokens[i % n], letter = to > 0 && !strchr("BOUXZ", "?ABCDEFGHIKLMNOPQRSTUVWXYZ"[to]);
                if (letter) all += (double)A[h * n * n + i];
                if (to == token) own += (double)A[h * n * n + i];
            }
            share[2 * l + h] = own / all;
        }
    }
    free(A);
    ll_batch_free(&b);
    ll_reader_free(reader);
}

/* number[panel][row][column] of the figure of amino acids. */
static void read_acids(double number[3][20][20], const char *path) {
    for (int c = 0; c < 20; c++) {
        const char name[2] = {"CSTPAGNDEQHRKMILVFYW"[c]};
        const char *const columns[1] = {name};
        ll_columns t;
        CHECK_OK(ll_columns_read(&t, path, columns, 1, 1));
        assert_int_equal(t.n, 60);
        for (int i = 0; i < 60; i++) number[i / 20][i % 20][c] = t.column[0][i];
        ll_columns_free(&t);
    }
}

/* What the caption says of a panel: the correlation with BLOSUM62 over the 190 pairs, and an interval around it. */
static void correlation_is_of_pairs(const char *caption, double number[3][20][20], int panel) {
    double x[190], y[190], seen[3];
    char numbers[3][32];
    int n = 0;
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < i; j++) x[n] = number[0][i][j], y[n++] = number[panel][i][j];
    assert_int_equal(sscanf(caption, "(r = %31[^,], %31s to %31[^;)]", numbers[0], numbers[1], numbers[2]), 3);
    for (int i = 0; i < 3; i++) seen[i] = ll_scan_number(numbers[i], &(char *){NULL});
    assert_true(fabs(seen[0] - pearson(x, y, 190)) < 0.0051);
    assert_true(seen[1] < seen[0] && seen[0] < seen[2] && seen[1] >= -1 && seen[2] <= 1);
}

/* Rows of the table: one panel after the other, each with a row for C S T P A G N D E Q H R K M I L V F Y W. */
static void amino_acids_are_compared(void **state) {
    (void)state;
    static const char fasta[] = ">a\nMKVLAWGHCDEFIKLMNPQRSTVWYMKVLA\n>b\nGAVLIMFWPSTCYNQDEKRHGAVLIMFWPSTCYNQDEKRH\n";
    static const char *const columns[2] = {"D", "W"};
    ll_columns t;
    ll_model *m = NULL;
    CHECK_OK(ll_file_write(at("some.fasta"), fasta, sizeof fasta - 1));
    CHECK_OK(ll_file_write(at("held.fasta"), strchr(fasta + 1, '>'), strlen(strchr(fasta + 1, '>'))));
    char keys[700];
    snprintf(keys, sizeof keys,
             "train.steps=10 train.report=on model.layers=2 model.init-std=0.3 data.format=fasta data.train=%s "
             "data.valid=%s",
             at("some.fasta"), at("held.fasta"));
    run(keys, at("acids"), NULL, 0, LL_OK);
    CHECK_OK(ll_columns_read(&t, at("acids/figures/amino-acids.csv"), columns, 2, 2));
    CHECK_OK(ll_model_load(&m, at("acids/best.safetensors")));
    assert_int_equal(t.n, 60);
    assert_true(t.column[0][7] == 6 && t.column[0][19] == -4 && t.column[1][17] == 1); /* BLOSUM62 */
    const float *d = tensor(m, "embedding.weight") + 4 * 16, *e = d + 16; /* tokens of D and E */
    double dd = 0, ee = 0, de = 0, D[4], E[4];
    for (int i = 0; i < 16; i++)
        dd += (double)d[i] * (double)d[i], ee += (double)e[i] * (double)e[i], de += (double)d[i] * (double)e[i];
    assert_true(fabs(t.column[0][20 + 8] - de / sqrt(dd * ee)) < 1e-5 && fabs(t.column[0][20 + 7] - 1) < 1e-6);
    shares_of(m, 4, D);
    shares_of(m, 5, E);
    assert_true(fabs(t.column[0][40 + 8] - pearson(D, E, 4)) < 1e-3);
    ll_columns_free(&t);
    static double number[3][20][20];
    read_acids(number, at("acids/figures/amino-acids.csv"));
    char *page = page_at(at("acids/report.html"));
    const char *of_cosine = strstr(page, "(r = ");
    assert_non_null(of_cosine);
    correlation_is_of_pairs(of_cosine, number, 1);
    correlation_is_of_pairs(strstr(of_cosine + 1, "(r = "), number, 2);
    ll_free(page);
    ll_model_free(m);
}

/* All of BLOSUM62: by sums of the original, and number by number if its file is there. */
static void blosum62_is_blosum62(void **state) {
    (void)state;
    static double number[3][20][20];
    double sum = 0, weighted = 0;
    read_acids(number, at("acids/figures/amino-acids.csv"));
    for (int i = 0; i < 400; i++) {
        sum += number[0][i / 20][i % 20];
        weighted += (i + 1.0) * (i + 1.0) * number[0][i / 20][i % 20];
    }
    assert_true(sum == -426 && weighted == -23264591);
    char path[512], letters[64] = "", line[256];
    const char *shared = getenv("LL_SHARED");
    snprintf(path, sizeof path, "%s/data/protein/BLOSUM62.txt", shared ? shared : "../shared");
    FILE *file = fopen(path, "r");
    if (!file) {
        print_message("no %s here\n", path);
        skip();
    }
    int checked = 0;
    while (fgets(line, sizeof line, file)) {
        if (*line == '#') continue;
        if (!*letters) {
            size_t n = 0;
            for (const char *c = line; *c && n + 1 < sizeof letters; c++)
                if (*c != ' ' && *c != '\n') letters[n++] = *c;
            continue;
        }
        const char *order = "CSTPAGNDEQHRKMILVFYW", *own = strchr(order, *line);
        ll_columns t;
        char name[2] = {*line, 0};
        const char *const columns[1] = {name};
        if (!own) continue;
        CHECK_OK(ll_columns_read(&t, at("acids/figures/amino-acids.csv"), columns, 1, 1));
        char *rest = line + 1;
        for (const char *c = letters; *c; c++) {
            const double score = ll_scan_number(rest, &rest);
            const char *place = strchr(order, *c);
            if (place) assert_true(t.column[0][place - order] == score), checked++;
        }
        ll_columns_free(&t);
    }
    fclose(file);
    assert_int_equal(checked, 400);
}

static void stopped_runs_have_a_page_too(void **state) {
    (void)state;
    run("train.steps=40 train.report=on", at("stopped"), NULL, 12, LL_ESTOPPED);
    char *page = page_at(at("stopped/report.html"));
    check_page(page);
    has(page, "<td>10 of 40</td>"); /* the last row */
    lacks(page, "id=\"attention\"");
    ll_free(page);
    run("train.steps=40 train.report=on", at("early"), NULL, 3, LL_ESTOPPED);
    assert_true(access(at("early/report.html"), F_OK) != 0); /* no page yet */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_leaves_a_page),
        cmocka_unit_test(a_page_reports_progress),
        cmocka_unit_test(positions_add_up),
        cmocka_unit_test(distances_are_functions),
        cmocka_unit_test(amino_acids_are_compared),
        cmocka_unit_test(vectors_are_shown),
        cmocka_unit_test(decoders_are_shown),
        cmocka_unit_test(blosum62_is_blosum62),
        cmocka_unit_test(stopped_runs_have_a_page_too),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
