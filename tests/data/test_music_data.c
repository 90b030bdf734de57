/* Music as examples of a reader, and as sequences. */
#include "midi_files.h"

#include <sys/stat.h>

#include "data/text/tokenizer.h"

#include "longline/data.h"
#include "longline/files.h"
#include "longline/train.h"

static const char one[] = "Piece Bar Meter_4/4 Position_1 Tempo_120 Pitch_60 Duration_4 Velocity_66 "
                          "Bar Position_5 Pitch_127 Duration_2 Velocity_66 Drum_127 Velocity_2";
static const char two[] = "Piece Bar Meter_3/4 Position_1 Tempo_100 Pitch_50 Duration_4 Velocity_66 Bar Position_2 "
                          "Pitch_52 Duration_1 Velocity_66";
static const char three[] = "Bar Position_1 Pitch_40 Duration_1 Velocity_2";
static char *pieces;

/* A folder with a MIDI file, a compressed one, and a third piece as text. */
static int make_files(void **state) {
    const int failed = make_folder(state);
    ll_bytes file = {0};
    pieces = kept(at("pieces"));
    assert_int_equal(mkdir(pieces, 0777), 0);
    for (int i = 0; i < 2; i++) {
        ll_score s = score_of(i ? two : one, 0);
        CHECK_OK(ll_midi_write(&file, &s));
        if (i)
            put_xz("pieces/b.mid.xz", file.data, file.size);
        else
            put("pieces/a.mid", file.data, file.size);
        ll_bytes_free(&file);
        ll_score_free(&s);
    }
    put("pieces/c.txt", three, sizeof three - 1);
    return failed;
}

static ll_config config(void) {
    return (ll_config){.model.task = LL_TASK_LM,
                       .train.batch = 1,
                       .train.length = 100,
                       .data.format = LL_DATA_MIDI,
                       .data.train = pieces,
                       .data.test = pieces};
}

/* The words of a row, with the target of its last token. */
static const char *row_words(const ll_batch *b) {
    static char text[2000];
    size_t n = 0;
    char word[LL_MUSIC_WORD];
    for (int t = 0; t < b->lengths[0]; t++) {
        ll_music_word(word, b->tokens[t]);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s ", word);
        if (t) assert_int_equal(b->targets[t - 1], b->tokens[t]);
    }
    ll_music_word(word, b->targets[b->lengths[0] - 1]);
    snprintf(text + n, sizeof text - n, "> %s", word);
    return text;
}

static void a_piece_is_an_example(void **state) {
    (void)state;
    const ll_config c = config();
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    char expected[400];
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), 3);
    assert_int_equal(ll_reader_vocab(r), 628);
    for (int i = 0; i < 3; i++) {
        ll_reader_eval_batch(r, &b, i);
        snprintf(expected, sizeof expected, "%s%s > Piece", i == 2 ? "Piece " : "", i ? i == 1 ? two : three : one);
        assert_string_equal(row_words(&b), expected);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
    assert_pure(&c);
}

static void splits_are_cut_by_pieces(void **state) {
    (void)state;
    ll_config c = config();
    ll_batch b;
    c.data.valid_fraction = 0.4;
    CHECK_OK(ll_batch_create(&b, &c));
    ll_reader *train = opened(&c, "train"), *valid = opened(&c, "valid");
    assert_int_equal(ll_reader_size(train), 2);
    assert_int_equal(ll_reader_size(valid), 1);
    ll_reader_eval_batch(valid, &b, 0);
    assert_int_equal(b.lengths[0], 6);
    ll_reader_free(train);
    ll_reader_free(valid);
    c.data.joined = 1;
    c.train.length = 10;
    valid = opened(&c, "valid");
    assert_int_equal(ll_reader_size(valid), 7); /* with the end of the piece */
    ll_reader_free(valid);
    ll_batch_free(&b);
    c.data.valid_fraction = 0.9;
    c.train.length = 2;
    train = opened(&c, "train"), valid = opened(&c, "valid"); /* all three pieces would be held out: the text is cut */
    assert_true(ll_reader_size(valid) > 8 * ll_reader_size(train));
    ll_reader_free(train);
    ll_reader_free(valid);
    c.data.joined = 0;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL,
                "data.valid-fraction=0.9 holds out all of 3 pieces; name data.valid=FILE, or set "
                "data.valid-fraction=0.33, which holds out one, or data.joined=on");
}

/* Training rows with and without transposition: all pitches change by the same interval, drums and other tokens do
 * not. */
static void keys_are_moved(void **state) {
    (void)state;
    ll_config c = config(), moved = c;
    int seen[49] = {0};
    moved.data.transpose = 24;
    ll_reader *r = opened(&c, "train"), *m = opened(&moved, "train"), *test = opened(&moved, "test");
    ll_batch a, b;
    CHECK_OK(ll_batch_create(&a, &c));
    CHECK_OK(ll_batch_create(&b, &c));
    for (int64_t i = 0; i < 900; i++) {
        int by = -99, high = 0;
        ll_reader_batch(r, &a, 5, i);
        ll_reader_batch(m, &b, 5, i);
        assert_int_equal(a.lengths[0], b.lengths[0]);
        for (int t = 0; t < a.lengths[0]; t++) {
            if (t) assert_int_equal(b.targets[t - 1], b.tokens[t]);
            if (a.tokens[t] >= LL_MUSIC_PITCH && a.tokens[t] < LL_MUSIC_DRUM) {
                high |= a.tokens[t] == LL_MUSIC_DRUM - 1;
                if (by == -99) by = b.tokens[t] - a.tokens[t];
                assert_int_equal(b.tokens[t] - a.tokens[t], by);
                assert_true(b.tokens[t] >= LL_MUSIC_PITCH && b.tokens[t] < LL_MUSIC_DRUM);
            } else {
                assert_int_equal(a.tokens[t], b.tokens[t]);
            }
        }
        assert_true(by >= -24 && by <= (high ? 0 : 24));
        if (!high) seen[by + 24]++;
    }
    for (int i = 0; i < 49; i++) assert_true(seen[i] > 0 && seen[i] < 40); /* 600 draws */
    ll_reader_eval_batch(test, &b, 1);
    ll_reader_free(m);
    m = opened(&c, "test");
    ll_reader_eval_batch(m, &a, 1);
    assert_memory_equal(a.tokens, b.tokens, sizeof(int) * 100);
    ll_batch_free(&a);
    ll_batch_free(&b);
    ll_reader_free(r);
    ll_reader_free(m);
    ll_reader_free(test);
}

/* What a row was moved by; 99: it has no note. */
static int moved_by(const ll_batch *from, const ll_batch *to, int *low) {
    int by = 99;
    for (int t = 0; t < 2 * from->T; t++) {
        const int was = t < from->T ? from->tokens[t] : from->targets[t - from->T];
        const int now = t < from->T ? to->tokens[t] : to->targets[t - from->T];
        if (was < LL_MUSIC_PITCH || was >= LL_MUSIC_DRUM) continue;
        if (by != 99) assert_int_equal(now - was, by);
        by = now - was, *low = was == LL_MUSIC_PITCH + 48;
    }
    return by;
}

/* A text whose state is passed on stays in one key: the highest note of a piece limits all of its windows, and that of
 * all pieces, where they are joined. */
static void a_stream_stays_in_its_key(void **state) {
    (void)state;
    static char text[4000];
    ll_config c = config(), moved;
    size_t n = 0;
    for (int i = 0; i < 60; i++) /* two pieces: 60 and then 120; 48 */
        n +=
            (size_t)snprintf(text + n, sizeof text - n, "%sBar Position_1 Pitch_%d Duration_4 ", i % 30 ? "" : "Piece ",
                             i < 20   ? 60
                             : i < 30 ? 120
                                      : 48);
    c.data.train = kept(put("stream.txt", text, n));
    c.train.carry_state = 1, c.train.length = 16;
    moved = c;
    moved.data.transpose = 12;
    for (int joined = 0; joined < 2; joined++) {
        ll_batch a, b;
        int most[2] = {0};
        c.data.joined = moved.data.joined = joined;
        ll_reader *plain = opened(&c, "train"), *r = opened(&moved, "train");
        const int64_t windows = ll_reader_eval_batches(plain);
        CHECK_OK(ll_batch_create(&a, &c));
        CHECK_OK(ll_batch_create(&b, &c));
        for (int64_t pass = 0; pass < 40; pass++) {
            int key[2] = {99, 99};
            for (int64_t i = 0; i < windows; i++) {
                int low = 0;
                ll_reader_batch(plain, &a, 5, pass * windows + i);
                ll_reader_batch(r, &b, 5, pass * windows + i);
                const int by = moved_by(&a, &b, &low), piece = low && !joined;
                if (by == 99) continue;
                if (key[piece] != 99) assert_int_equal(by, key[piece]);
                key[piece] = by;
                if (by > most[piece]) most[piece] = by;
            }
        }
        assert_int_equal(most[0], 7); /* 127 is the highest */
        assert_true(joined || most[1] > 9);
        ll_batch_free(&a);
        ll_batch_free(&b);
        ll_reader_free(plain);
        ll_reader_free(r);
    }
}

static void wrong_files_are_named(void **state) {
    (void)state;
    ll_config c = config();
    c.data.train = put("wrong.txt", "Bar Bass", 8);
    CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, "wrong.txt is no MIDI file, and as text its word number 2, \"Bass\"");
    c.data.train = put("cut.mid", "MThd\0\0\0\6\0\1\0\1\0\x60", 14);
    CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, "cut.mid: the file ends after 0 of 1");
    c.data.train = put("empty.mid", "", 0);
    CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, "empty.mid is empty, and no piece of music");
    c.data.train = put("blank", "\n", 1); /* a piece without events */
    assert_int_equal(refused(&c, "train"), LL_OK);
    c = config();
    c.model.task = LL_TASK_CLASSIFY;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "model.task=lm");
    c = config();
    assert_memory_can_end(&c, "train");
}

/* Triplets are kept with data.grid = 12, otherwise they become sixteenths. A text of triplets needs data.grid = 12. */
static void grids_are_chosen(void **state) {
    (void)state;
    static const char tune[] = "Piece Bar Meter_4/4 Position_1 Tempo_120 Pitch_60 Duration_1+1/3 Velocity_66 "
                               "Position_2+1/3 Pitch_60 Duration_1+1/3 Velocity_66";
    static const char coarse[] = "Piece Bar Meter_4/4 Position_1 Tempo_120 Pitch_60 Duration_1 Velocity_66 "
                                 "Position_2 Pitch_60 Duration_2 Velocity_66";
    ll_config c = config();
    ll_score s = score_of(tune, 0);
    ll_bytes file = {0};
    CHECK_OK(ll_midi_write(&file, &s));
    c.data.train = c.data.test = kept(put("triplets.mid", file.data, file.size));
    ll_bytes_free(&file);
    ll_score_free(&s);
    for (int fine = 0; fine < 2; fine++) {
        char expected[400];
        ll_batch b;
        c.data.fine = fine;
        CHECK_OK(ll_batch_create(&b, &c));
        ll_reader *r = opened(&c, "test");
        assert_int_equal(ll_reader_vocab(r), fine ? 820 : 628);
        ll_reader_eval_batch(r, &b, 0);
        snprintf(expected, sizeof expected, "%s > Piece", fine ? tune : coarse);
        assert_string_equal(row_words(&b), expected);
        /* a model knows the words of its grid; those of the other grid are refused */
        ll_tokenizer *tokenizer = NULL;
        c.data.fine = !fine;
        CHECK_FAILS(ll_tokenizer_create_from(&tokenizer, &c.data, ll_reader_vocabulary(r), "it"), LL_EFORMAT,
                    "on its data.grid");
        c.data.fine = fine;
        ll_reader_free(r);
        ll_batch_free(&b);
        /* the same as a sequence */
        ll_input *in = NULL;
        ll_sequence q;
        int found = 0;
        const char *const path = c.data.train;
        const ll_input_options how = {.format = LL_INPUT_MIDI, .grid = fine ? 12 : 0};
        CHECK_OK(ll_input_open(&in, &path, 1, &how));
        CHECK_OK(ll_input_next(in, &q, &found));
        assert_true(found && q.ends && q.size == strlen(fine ? tune : coarse) + 1);
        assert_int_equal(strstr((const char *)q.text, "Position_2+1/3") != NULL, fine);
        ll_input_close(in);
    }
    c.data.train = put("triplets.txt", tune, sizeof tune - 1);
    assert_int_equal(refused(&c, "train"), LL_OK);
    c.data.fine = 0;
    CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, "number 7, \"Duration_1+1/3\", lies between sixteenths");
    ll_input *in = NULL;
    const char *const path = c.data.train;
    const ll_input_options how = {.grid = 24};
    CHECK_FAILS(ll_input_open(&in, &path, 1, &how), LL_EINVAL, "has 4 or 12 positions, not 24");
}

static void models_keep_the_vocabulary(void **state) {
    (void)state;
    const ll_config c = config();
    ll_reader *r = opened(&c, "train");
    ll_tokenizer *tokenizer = NULL;
    ll_bytes list = *ll_reader_vocabulary(r);
    CHECK_OK(ll_tokenizer_create_from(&tokenizer, &c.data, &list, "it"));
    assert_int_equal(ll_tokenizer_vocab(tokenizer), 628);
    ll_tokenizer_free(tokenizer);
    list.size--;
    CHECK_FAILS(ll_tokenizer_create_from(&tokenizer, &c.data, &list, "it"), LL_EFORMAT, "events of music");
    list.size++;
    list.data[3]++;
    CHECK_FAILS(ll_tokenizer_create_from(&tokenizer, &c.data, &list, "it"), LL_EFORMAT, "events of music");
    ll_reader_free(r);
}

/* What a model writes as text: a bar begins a line, and a line is empty before each piece. */
static void tokens_are_text(void **state) {
    (void)state;
    const ll_config c = config();
    ll_bytes list = {0};
    ll_tokenizer *tokenizer = NULL;
    int *tokens = NULL;
    size_t count = 0;
    char text[1000] = "", expected[1000] = "";
    CHECK_OK(ll_tokenizer_vocabulary(&list, &c.data, NULL));
    CHECK_OK(ll_tokenizer_create_from(&tokenizer, &c.data, &list, "it"));
    assert_true(ll_tokenizer_special(tokenizer, LL_SPECIAL_PIECE, &count));
    CHECK_OK(ll_tokenizer_encode(tokenizer, two, strlen(two), &tokens, &count));
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        const char *word = ll_tokenizer_text(tokenizer, tokens[i], &size);
        assert_int_equal(size, strlen(word));
        strcat(text, word);
    }
    strcpy(expected, "\n\nPiece");
    size_t n = strlen(expected);
    for (const char *in = two + strlen("Piece"); *in; in++) expected[n++] = strncmp(in, " Bar", 4) ? *in : '\n';
    assert_string_equal(text, expected);
    ll_free(tokens);
    CHECK_FAILS(ll_tokenizer_encode(tokenizer, "Pitch_128", 9, &tokens, &count), LL_EINVAL, "number 1");
    ll_tokenizer_free(tokenizer);
    ll_bytes_free(&list);
}

/* Files as sequences of text, in pieces of any size. */
static void files_are_sequences(void **state) {
    (void)state;
    const char *paths[] = {at("pieces/a.mid"), at("pieces/b.mid.xz"), at("pieces/c.txt")};
    const char *const expected[] = {one, two, three};
    for (size_t piece = 1; piece < 1000; piece = piece * 3 + 1) {
        ll_input *in = NULL;
        ll_sequence s;
        int found = 0, file = 0;
        char text[1000];
        size_t n = 0;
        const ll_input_options how = {.format = LL_INPUT_MIDI, .piece = piece};
        CHECK_OK(ll_input_open(&in, paths, 3, &how));
        for (;;) {
            CHECK_OK(ll_input_next(in, &s, &found));
            if (!found) break;
            if (s.begins) n = 0;
            assert_true(s.size <= piece);
            memcpy(text + n, s.text, s.size);
            n += s.size;
            if (!s.ends) continue;
            for (size_t i = 0; i < n; i++)
                if (text[i] == '\n') text[i] = ' ';
            text[n - 1] = 0;
            assert_string_equal(text, expected[file]);
            assert_string_equal(s.id, paths[file++]);
        }
        assert_int_equal(file, 3);
        ll_input_close(in);
    }
}

/* Only generated data have a valid split that is not named. */
static void music_trains_without_a_valid_split(void **state) {
    (void)state;
    static const char *const keys[] = {"data.format=midi", "data.valid-fraction=0", "train.length=100", "train.steps=1",
                                       "train.batch=1",    "model.vocab=0",         "model.layers=1",   "model.width=8",
                                       "model.heads=1",    "model.ff=8",            "train.report=off"};
    ll_recipe *recipe = NULL;
    ll_trainer *trainer = NULL;
    char train[200];
    CHECK_OK(ll_recipe_create(&recipe));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) CHECK_OK(ll_recipe_set(recipe, keys[i]));
    snprintf(train, sizeof train, "data.train=%s", pieces);
    CHECK_OK(ll_recipe_set(recipe, train));
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("run"), NULL));
    CHECK_OK(ll_trainer_run(trainer, NULL, NULL));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_is_an_example),
        cmocka_unit_test(splits_are_cut_by_pieces),
        cmocka_unit_test(keys_are_moved),
        cmocka_unit_test(a_stream_stays_in_its_key),
        cmocka_unit_test(wrong_files_are_named),
        cmocka_unit_test(grids_are_chosen),
        cmocka_unit_test(models_keep_the_vocabulary),
        cmocka_unit_test(tokens_are_text),
        cmocka_unit_test(files_are_sequences),
        cmocka_unit_test(music_trains_without_a_valid_split),
    };
    return cmocka_run_group_tests_name("music data", tests, make_files, remove_folder);
}
