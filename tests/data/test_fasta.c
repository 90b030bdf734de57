/* Proteins: FASTA is parsed, into texts of their own and joined; the table of frequencies. */
#include "inputs.h"

#include "data/sequence/fasta.h"
#include "train/train_internal.h"

static const char small[] = ">a first\nMKV\nLA\n\n>b\r\nacdj\r\n>empty\n;comment\n>c\nM-K.V*\n";
static char *path;

static int make_files(void **state) {
    const int failed = make_folder(state);
    path = kept(put("small.fasta", small, sizeof small - 1));
    return failed;
}

static ll_config config(int task) {
    return (ll_config){.model.task = task,
                       .train.batch = 2,
                       .train.length = 4,
                       .data.format = LL_DATA_FASTA,
                       .data.train = path,
                       .data.test = path};
}

static void token_is(int letter, int expected) {
    assert_int_equal(ll_fasta_token(letter), expected);
}

static void the_alphabet_has_25_letters(void **state) {
    (void)state;
    static const char letters[] = "ABCDEFGHIKLMNOPQRSTUVWXYZ";
    for (int i = 0; i < 25; i++) {
        token_is(letters[i], i + 1);
        token_is(letters[i] + 32, i + 1);
        assert_int_equal(ll_fasta_letter(i + 1), letters[i]);
    }
    token_is('J', 23);
    token_is('*', 0);
    token_is('1', 0);
    assert_int_equal(ll_fasta_letter(0), '\n');
    assert_int_equal(ll_fasta_letter(26), '\n');
}

/* The letters of a row up to its length, boundaries as '|'. */
static const char *letters_of(const ll_batch *b, int row) {
    static char text[64];
    int n = 0;
    for (; n < b->lengths[row]; n++) {
        const int token = b->tokens[row * b->T + n];
        text[n] = (char)(token ? ll_fasta_letter(token) : '|');
    }
    text[n] = 0;
    return text;
}

/* |MKVLA| is cut into windows of 4 tokens, |ACDX| into one and a rest, |MKV| is one. */
static void an_evaluation_is_every_window_of_every_sequence(void **state) {
    (void)state;
    static const char *const expected[] = {"|MKV", "LA", "|ACD", "X", "|MKV"};
    const ll_config c = config(LL_TASK_LM);
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), 3);
    assert_int_equal(ll_reader_vocab(r), 26);
    assert_int_equal(ll_reader_eval_batches(r), 3);
    for (int i = 0; i < 6; i++) {
        if (i % 2 == 0) ll_reader_eval_batch(r, &b, i / 2);
        const int row = i % 2;
        if (i == 5) {
            assert_int_equal(b.lengths[row], 0);
            continue;
        }
        assert_string_equal(letters_of(&b, row), expected[i]);
        /* Targets are the tokens that follow; after the last letter comes a boundary. */
        for (int t = 0; t + 1 < b.lengths[row]; t++)
            assert_int_equal(b.targets[row * b.T + t], b.tokens[row * b.T + t + 1]);
        const int last = b.targets[row * b.T + b.lengths[row] - 1];
        const int after[] = {ll_fasta_token('L'), 0, ll_fasta_token('X'), 0, 0};
        assert_int_equal(last, after[i]);
        for (int t = b.lengths[row]; t < b.T; t++) assert_int_equal(b.targets[row * b.T + t], -1);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
}

/* An epoch has each sequence once. Of a long sequence it has any window, boundaries included. */
static void an_epoch_is_every_sequence_once(void **state) {
    (void)state;
    ll_config c = config(LL_TASK_LM);
    c.train.batch = 3;
    ll_reader *r = opened(&c, "train");
    ll_batch b;
    int first = 0, last = 0;
    CHECK_OK(ll_batch_create(&b, &c));
    for (int64_t epoch = 0; epoch < 40; epoch++) {
        int m = 0, x = 0;
        ll_reader_batch(r, &b, 5, epoch);
        for (int row = 0; row < 3; row++) {
            const char *text = letters_of(&b, row);
            m += !strcmp(text, "|MKV"); /* of a whole sequence, or of the first window */
            x += strchr(text, 'D') != NULL;
            first += !strcmp(text, "|MKV") && b.targets[row * b.T + 3] == ll_fasta_token('L');
            last += !strcmp(text, "KVLA");
        }
        assert_true(m >= 1 && m <= 2 && x == 1);
    }
    assert_true(first > 0 && last > 0);
    ll_batch_free(&b);
    ll_reader_free(r);
    c.train.batch = 2;
    assert_pure(&c);
}

static void joined_sequences_are_one_text(void **state) {
    (void)state;
    ll_config c = config(LL_TASK_LM);
    c.data.joined = 1;
    c.train.batch = 1;
    c.train.length = 16;
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_eval_batches(r), 1);
    ll_reader_eval_batch(r, &b, 0);
    assert_string_equal(letters_of(&b, 0), "|MKVLA|ACDX|MKV");
    assert_int_equal(b.targets[14], 0);
    ll_batch_free(&b);
    ll_reader_free(r);
    c.train.length = 15;
    assert_int_equal(refused(&c, "train"), LL_OK);
    c.train.length = 16;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "train.length=16");
}

static void files_of_a_list_follow_each_other(void **state) {
    (void)state;
    ll_config c = config(LL_TASK_LM), d = c;
    char list[600], both[200];
    const size_t n = (size_t)snprintf(both, sizeof both, "%s%s", small, ">d\nWW\n");
    snprintf(list, sizeof list, "%s:%s", path, put_gz("d.gz", ">d\nWW\n", 6));
    c.data.train = c.data.test = list;
    d.data.train = d.data.test = put_xz("both.xz", both, n);
    ll_reader *a = opened(&c, "train"), *b = opened(&d, "train");
    assert_same_readers(a, b, &c);
    ll_reader_free(a);
    ll_reader_free(b);
    snprintf(list, sizeof list, "%s:%s", path, at("missing.fasta"));
    CHECK_FAILS(refused(&c, "train"), LL_EIO, "missing.fasta");
    snprintf(list, sizeof list, ":");
    c.data.train = list;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "names no file");
}

static void splits_are_cut_by_sequences(void **state) {
    (void)state;
    ll_config c = config(LL_TASK_LM);
    c.data.valid_fraction = 0.3;
    ll_reader *train = opened(&c, "train"), *valid = opened(&c, "valid");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(train), 2);
    assert_int_equal(ll_reader_size(valid), 1);
    ll_reader_eval_batch(valid, &b, 0);
    assert_string_equal(letters_of(&b, 0), "|MKV");
    assert_int_equal(b.targets[3], 0);
    ll_batch_free(&b);
    ll_reader_free(train);
    ll_reader_free(valid);
    c.data.valid_fraction = 0.9;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "valid-fraction");
    CHECK_OK(refused(&c, "valid"));
}

/* One sequence, as a chromosome, is not split by sequences. Joined, its end is held out: the tokens of both splits are
 * those of the whole. */
static void one_sequence_is_cut_where_it_is_joined(void **state) {
    (void)state;
    ll_config c = config(LL_TASK_LM);
    c.data.train = put("one.fasta", ">a\nMKVLAACDXM\nKVLLWWWWW\n", 24);
    c.data.valid_fraction = 0.3;
    CHECK_FAILS(refused(&c, "valid"), LL_EINVAL,
                "data.valid-fraction=0.3 holds out none of 1 sequence; name data.valid=FILE, or set "
                "data.valid-fraction=0 to train without, or data.joined=on, which holds out a part");
    c.data.joined = 1, c.train.batch = 1, c.train.length = 6;
    const char *const begin[] = {"|MKVLA", "WWWWW"};
    for (int i = 0; i < 2; i++) {
        ll_reader *r = opened(&c, i ? "valid" : "train");
        ll_batch b;
        CHECK_OK(ll_batch_create(&b, &c));
        assert_int_equal(ll_reader_size(r), i ? 6 : 15); /* of 19 letters and the boundaries around them */
        ll_reader_eval_batch(r, &b, 0);
        assert_string_equal(letters_of(&b, 0), begin[i]);
        ll_batch_free(&b);
        ll_reader_free(r);
    }
}

/* What stands between letters is left out, as where sequences are scored. */
static void blanks_and_gaps_are_left_out(void **state) {
    (void)state;
    static const char text[] = ">a\n\tM K\t*\tV-.\rA* \t\r\n \t\nC*"; /* the file ends there */
    ll_config c = config(LL_TASK_LM);
    c.data.test = put("gaps", text, strlen(text));
    c.train.batch = 1, c.train.length = 10;
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    ll_reader_eval_batch(r, &b, 0);
    assert_string_equal(letters_of(&b, 0), "|MKVAC");
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void wrong_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"MKV\n", "line 1 comes before any header"},
        {">a\nMKV\n>b\nM1V\n", "line 4 has a byte 0x31"},
        {">a\nM*V\n", "line 2 has a byte 0x2a"},
        {">a\nMK\xff\n", "0xff"},
        {">a\n>b\n", "no sequence"},
        {"", "no sequence"},
        {";only a comment", "no sequence"},
    };
    ll_config c = config(LL_TASK_LM);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        c.data.train = put("wrong", cases[i].text, strlen(cases[i].text));
        CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, cases[i].word);
    }
    char twice[600];
    snprintf(twice, sizeof twice, "%s:%s", c.data.train, c.data.train);
    c.data.train = twice;
    CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, "no sequence in 1 lines; 1 more file cannot be read: wrong");
    static char line[LL_MARKS_SPACING + 10] = ">a\n"; /* longer than what is read at once, whose last letter is '*' */
    memset(line + 3, 'M', LL_MARKS_SPACING + 1);
    line[3 + LL_MARKS_SPACING - 1] = '*';
    c.data.train = put("wrong", line, strlen(line));
    CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, "line 2 has a byte 0x2a");
    c = config(LL_TASK_CLASSIFY);
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "model.task=lm");
    c = config(LL_TASK_LM);
    c.train.length = 0;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "train.length");
}

/* ---- Baseline ---- */

/* The train split has A five times, C once, and two boundaries to predict. The test split has A, A, D and a
 * boundary. */
static void frequencies_by_hand(void **state) {
    (void)state;
    ll_recipe *recipe = NULL;
    char text[300];
    ll_baseline b = {0};
    const char *const keys[] = {"data.format=fasta", "train.length=3", "train.batch=1", "model.task=lm"};
    CHECK_OK(ll_recipe_create(&recipe));
    for (int i = 0; i < 4; i++) CHECK_OK(ll_recipe_set(recipe, keys[i]));
    snprintf(text, sizeof text, "data.train=%s", put("t.fasta", ">a\nAAACA\n>b\nA\n", 14));
    CHECK_OK(ll_recipe_set(recipe, text));
    snprintf(text, sizeof text, "data.test=%s", put("u.fasta", ">a\nAAD\n", 7));
    CHECK_OK(ll_recipe_set(recipe, text));
    CHECK_OK(ll_unigram(recipe, "test", 0, &b));
    const double all = 8 + 26;
    assert_true(fabs(b.loss - (-2 * log(6 / all) - log(1 / all) - log(3 / all)) / 4) < 1e-12);
    assert_true(b.accuracy == 0.5 && b.count == 4);
    CHECK_OK(ll_unigram(recipe, "test", 1, &b)); /* the first batch alone */
    assert_true(fabs(b.loss - (-2 * log(6 / all) - log(1 / all)) / 3) < 1e-12 && b.count == 3);
    CHECK_OK(ll_recipe_set(recipe, "train.batch=2")); /* each window is counted once, in batches of any size */
    CHECK_OK(ll_unigram(recipe, "test", 0, &b));
    assert_true(fabs(b.loss - (-2 * log(6 / all) - log(1 / all) - log(3 / all)) / 4) < 1e-12 && b.count == 4);
    CHECK_OK(ll_recipe_set(recipe, "model.task=mlm")); /* only letters: 27 tokens */
    CHECK_OK(ll_unigram(recipe, "test", 0, &b));
    assert_true(fabs(b.loss - (-2 * log(6 / 33.0) - log(1 / 33.0)) / 3) < 1e-12);
    assert_true(b.count == 3);
    ll_recipe_free(recipe);
}

/* ---- Real proteins ---- */

typedef struct {
    const char *name;
    int64_t sequences, residues;
} known_set;

static const known_set known[] = {
    {"protein/UP000000625_83333.fasta.xz", 4401, 1354252},
    {"protein/ncbi_taxid4932_yeast.faa.xz", 5881, 2914937},
    {"protein/uniprotkb_proteome_UP000565286_2024_08_30.fasta.xz", 4653, 1415065},
    {"protein/swissprot_kunitz.fasta", 397, -1},
    {"protein/pfam_globins45.fa", 45, 6519},
    {"protein/P00974_BPT1_BOVIN.fasta", 1, 100},
};

static void real_proteins_are_read(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ll_config c = config(LL_TASK_LM);
        c.train.length = 1024;
        c.data.test = shared(known[i].name);
        ll_reader *r = opened(&c, "test");
        ll_batch b;
        int64_t count[26] = {0}, all = 0;
        CHECK_OK(ll_batch_create(&b, &c));
        for (int64_t n = 0; n < ll_reader_eval_batches(r); n++) ll_reader_count(r, &b, n, count);
        for (int v = 1; v < 26; v++) all += count[v];
        assert_int_equal(ll_reader_size(r), known[i].sequences);
        assert_int_equal(count[0], known[i].sequences);
        if (known[i].residues > 0) assert_int_equal(all, known[i].residues);
        ll_batch_free(&b);
        ll_reader_free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_alphabet_has_25_letters),
        cmocka_unit_test(an_evaluation_is_every_window_of_every_sequence),
        cmocka_unit_test(an_epoch_is_every_sequence_once),
        cmocka_unit_test(joined_sequences_are_one_text),
        cmocka_unit_test(one_sequence_is_cut_where_it_is_joined),
        cmocka_unit_test(files_of_a_list_follow_each_other),
        cmocka_unit_test(splits_are_cut_by_sequences),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(blanks_and_gaps_are_left_out),
        cmocka_unit_test(frequencies_by_hand),
        cmocka_unit_test(real_proteins_are_read),
    };
    return cmocka_run_group_tests_name("fasta", tests, make_files, remove_folder);
}
