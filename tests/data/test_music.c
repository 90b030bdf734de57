/* Music on the grid and as events: by hand, forth and back, and from files of real pieces. */
#include "midi_files.h"

#include "base/random.h"

/* ---- The grid ---- */

static ll_score two_notes(int64_t begin, int64_t end, int division) {
    ll_score s = {.division = division};
    CHECK_OK(ll_score_reserve(&s, 4, 4, 4));
    s.note[s.notes++] = (ll_note){begin, end, 0, 60, 101};
    return s;
}

/* In sixteenths, or on the fine grid in thirds of sixteenths. */
static void on(int fine, int64_t begin, int64_t end, int division, int64_t to_begin, int64_t to_end) {
    const int step = fine ? 1 : LL_THIRDS;
    ll_score s = two_notes(begin, end, division), grid = {0};
    CHECK_OK(ll_music_grid(&grid, &s, fine, "notes"));
    assert_int_equal(grid.division, 12);
    assert_note(&grid, 0, to_begin * step, to_end * step, 0, 60, 102);
    ll_score_free(&s);
    ll_score_free(&grid);
}

/* 480 ticks a quarter are 120 a step. */
static void times_are_rounded(void **state) {
    (void)state;
    on(0, 0, 120, 480, 0, 1);
    on(0, 59, 179, 480, 0, 1);
    on(0, 60, 180, 480, 1, 2);
    on(0, 0, 5, 480, 0, 1);         /* at least a step */
    on(0, 0, 120 * 99, 480, 0, 64); /* at most 64 */
    on(0, 7, 9, 1, 28, 36);
    on(0, 100, 220, 96, 4, 9);
    on(0, 160, 320, 480, 1, 3); /* triplets of eighths begin at 1/3 and 2/3 of a quarter */
    /* 40 ticks are a step of the fine grid, which has all halves, thirds, quarters and sixths of a beat */
    on(1, 160, 320, 480, 4, 8);
    on(1, 120, 240, 480, 3, 6);
    on(1, 19, 59, 480, 0, 1);
    on(1, 20, 60, 480, 1, 2);
    on(1, 0, 5, 480, 0, 1);
    on(1, 40, 40 + 120 * 99, 480, 1, 1 + 192);
    on(1, 341, 683, 1024, 4, 8); /* a division that 3 does not divide */
    on(1, 7, 9, 1, 84, 108);
}

/* Drums have no length, however fine the grid. */
static void drums_have_no_length(void **state) {
    (void)state;
    for (int fine = 0; fine < 2; fine++) {
        ll_score s = two_notes(960, 1960, 480), grid = {0};
        s.note[0].instrument = LL_DRUMS;
        CHECK_OK(ll_music_grid(&grid, &s, fine, "strokes"));
        assert_note(&grid, 0, 24, 27, LL_DRUMS, 60, 102);
        ll_score_free(&s);
        ll_score_free(&grid);
    }
}

static void words_have_their_numbers(void **state) {
    (void)state;
    for (int i = 0; i < LL_TEMPOS; i++) {
        assert_int_equal(ll_tempo_class(ll_tempo_micros(i)), i);
        assert_int_equal(ll_tempo_class((int)lround(60e6 / (28 + 4 * i + 1.4))), i);
        assert_int_equal(ll_tempo_class((int)lround(60e6 / (28 + 4 * i - 1.4))), i);
    }
    assert_int_equal(ll_tempo_class(1), LL_TEMPOS - 1);
    assert_int_equal(ll_tempo_class(0xffffff), 0);
    int n = 0;
    for (int d = 1; d <= 128; d *= 2)
        for (int k = 1; k <= 255; k++) {
            const int class = ll_meter_class(k, d), fits = d >= 2 && d <= 16 && k <= 2 * d;
            assert_int_equal(class >= 0, fits);
            if (!fits) continue;
            assert_int_equal(class, n++);
            const ll_meter m = ll_meter_of(class);
            assert_true(m.numerator == k && m.denominator == d);
            assert_int_equal(ll_bar_steps(&m), 3 * (k * 16 / d));
            assert_true(ll_bar_steps(&m) <= LL_THIRDS * LL_POSITIONS);
        }
    assert_int_equal(n, LL_METERS);
}

/* Every token has a word of its own, from which the token can be read. */
static void the_vocabulary_is_fixed(void **state) {
    (void)state;
    static const struct {
        int token;
        const char *word;
    } some[] = {{0, "Piece"},        {1, "Bar"},           {2, "Meter_1/2"},    {61, "Meter_32/16"},
                {62, "Position_1"},  {94, "Tempo_28"},     {147, "Tempo_240"},  {148, "Program_0"},
                {276, "Pitch_0"},    {336, "Pitch_60"},    {404, "Drum_0"},     {531, "Drum_127"},
                {532, "Duration_1"}, {595, "Duration_64"}, {596, "Velocity_2"}, {627, "Velocity_126"},
                {628, "Position_1+1/3"}, {629, "Position_1+2/3"}, {691, "Position_32+2/3"},
                {692, "Duration_0+1/3"}, {695, "Duration_1+2/3"}, {819, "Duration_63+2/3"}};
    ll_bytes list = {0};
    int32_t *tokens = NULL;
    int64_t n = 0;
    char word[LL_MUSIC_WORD];
    assert_int_equal(ll_music_vocab(0), 628);
    assert_int_equal(ll_music_vocab(1), 820);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        ll_music_word(word, some[i].token);
        assert_string_equal(word, some[i].word);
    }
    for (int fine = 0; fine < 2; fine++) {
        CHECK_OK(ll_music_vocabulary(&list, fine));
        CHECK_OK(ll_music_tokens(&tokens, &n, list.data, list.size, fine, "list"));
        assert_int_equal(n, ll_music_vocab(fine));
        for (int i = 0; i < n; i++) assert_int_equal(tokens[i], i);
        ll_free(tokens);
        if (!fine) ll_bytes_free(&list);
    }
    CHECK_FAILS(ll_music_tokens(&tokens, &n, list.data, list.size, 0, "list"), LL_EINVAL,
                "list: word number 629, \"Position_1+1/3\", lies between sixteenths; only music with data.grid=12");
    ll_bytes_free(&list);
    static const char *const wrong[] = {"Bars",       "bar",       "Pitch_128", "Pitch_-1",
                                        "Velocity_3", "Meter_3/5", "Tempo_",    "Position_0",
                                        "Piece_1",    "Pitch_60x", "\xff",      "Velocity_100000000000000000",
                                        "Position_0+1/3", "Position_33+1/3", "Position_1+3/3", "Duration_64+1/3",
                                        "Duration_+1/3", "Pitch_60+1/3", "Duration_1+1/3+1/3", "Duration_0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[64];
        const size_t size = (size_t)snprintf(text, sizeof text, "Bar %s", wrong[i]);
        CHECK_FAILS(ll_music_tokens(&tokens, &n, (const uint8_t *)text, size, 1, "text"), LL_EINVAL, "number 2");
    }
    CHECK_OK(ll_music_tokens(&tokens, &n,
                             (const uint8_t *)"\xef\xbb\xbf"
                                              "Bar",
                             6, 0, "a byte order mark"));
    assert_true(n == 1 && tokens[0] == LL_MUSIC_BAR);
    ll_free(tokens);
    CHECK_OK(ll_music_tokens(&tokens, &n, (const uint8_t *)" \n", 2, 0, "blank"));
    assert_true(n == 1 && tokens[0] == LL_MUSIC_PIECE);
    ll_free(tokens);
}

/* A pick-up of a quarter, two bars of 3/4 at another tempo, a bass, drums, and a note that the next one cuts off. */
static void a_piece_by_hand(void **state) {
    (void)state;
    ll_score s = {.division = 4}, grid = {0};
    CHECK_OK(ll_score_reserve(&s, 9, 5, 5));
    s.meter[0] = (ll_meter){.at = 0, .numerator = 1, .denominator = 4};
    s.meter[1] = (ll_meter){.at = 4, .numerator = 3, .denominator = 4};
    s.meter[2] = (ll_meter){.at = 17, .numerator = 9, .denominator = 4}; /* no token: 4/4, from the next bar on */
    s.meters = 3;
    s.tempo[0] = (ll_tempo){.at = 6, .micros = 600000};
    s.tempo[1] = (ll_tempo){.at = 6, .micros = 606000}; /* the last one at a time is used */
    s.tempo[2] = (ll_tempo){.at = 9, .micros = 600000}; /* of the same class of tempos */
    s.tempos = 3;
    const ll_note notes[] = {{0, 4, 0, 60, 64},   {4, 16, 32, 36, 64},           {4, 9, 0, 64, 64},
                             {8, 12, 0, 64, 70},  {4, 4 + 3, LL_DRUMS, 36, 127}, {8, 10, 0, 64, 1},
                             {16, 18, 0, 64, 64}, {28, 29, 0, 64, 64},           {8, 12, 32, 36, 1}};
    memcpy(s.note, notes, sizeof notes);
    s.notes = 9;
    ll_score_sort(&s);
    CHECK_OK(ll_music_grid(&grid, &s, 0, "by hand"));
    assert_string_equal(
        words_of(&grid),
        "Piece\n"
        "Bar Meter_1/4 Position_1 Tempo_120 Pitch_60 Duration_4 Velocity_66\n"
        "Bar Meter_3/4 Position_1 Pitch_64 Duration_4 Velocity_66 Program_32 Pitch_36 Duration_4 Velocity_66 "
        "Drum_36 Velocity_126 Position_3 Tempo_100 Position_5 Program_0 Pitch_64 Duration_4 Velocity_70 "
        "Program_32 Pitch_36 Duration_4 Velocity_2\n"
        "Bar Position_1 Pitch_64 Duration_2 Velocity_66\n"
        "Bar Meter_4/4 Position_1 Pitch_64 Duration_1 Velocity_66\n");
    ll_score_free(&s);
    ll_score_free(&grid);
}

/* A tune in triplets and sixteenths, on both grids. */
static void triplets_by_hand(void **state) {
    (void)state;
    ll_score s = {.division = 480}, grid = {0};
    CHECK_OK(ll_score_reserve(&s, 9, 1, 1));
    const ll_note notes[] = {{0, 160, 0, 60, 64},   {160, 320, 0, 62, 64}, {320, 480, 0, 64, 64},
                             {480, 600, 0, 60, 64}, {600, 960, 0, 62, 64}, {1880, 1900, 0, 64, 64},
                             {1920, 2560, 0, 60, 64}};
    memcpy(s.note, notes, sizeof notes);
    s.notes = 7;
    CHECK_OK(ll_music_grid(&grid, &s, 1, "by hand"));
    assert_string_equal(words_of(&grid),
                        "Piece\n"
                        "Bar Meter_4/4 Position_1 Tempo_120 Pitch_60 Duration_1+1/3 Velocity_66 "
                        "Position_2+1/3 Pitch_62 Duration_1+1/3 Velocity_66 "
                        "Position_3+2/3 Pitch_64 Duration_1+1/3 Velocity_66 "
                        "Position_5 Pitch_60 Duration_1 Velocity_66 Position_6 Pitch_62 Duration_3 Velocity_66 "
                        "Position_16+2/3 Pitch_64 Duration_0+1/3 Velocity_66\n"
                        "Bar Position_1 Pitch_60 Duration_5+1/3 Velocity_66\n");
    ll_score_free(&grid);
    CHECK_OK(ll_music_grid(&grid, &s, 0, "by hand"));
    assert_string_equal(words_of(&grid),
                        "Piece\n"
                        "Bar Meter_4/4 Position_1 Tempo_120 Pitch_60 Duration_1 Velocity_66 "
                        "Position_2 Pitch_62 Duration_2 Velocity_66 Position_4 Pitch_64 Duration_1 Velocity_66 "
                        "Position_5 Pitch_60 Duration_1 Velocity_66 Position_6 Pitch_62 Duration_3 Velocity_66\n"
                        "Bar Position_1 Pitch_60 Duration_5 Velocity_66 Pitch_64 Duration_1 Velocity_66\n");
    ll_score_free(&s);
    ll_score_free(&grid);
}

static void pieces_need_notes_and_an_end(void **state) {
    (void)state;
    ll_score s = two_notes(0, 1, 480), grid = {0};
    s.note[0].begin = 480LL * LL_GRID_MOST / LL_GRID;
    CHECK_FAILS(ll_music_grid(&grid, &s, 0, "long.mid"), LL_EFORMAT,
                "long.mid: its last note begins after 262144 quarter");
    s.note[0].begin -= 20;
    CHECK_FAILS(ll_music_grid(&grid, &s, 1, "long.mid"), LL_EFORMAT, "after 262144 quarter");
    s.note[0].begin -= 100;
    s.note[0].end = s.note[0].begin + 100;
    CHECK_OK(ll_music_grid(&grid, &s, 0, "long.mid"));
    ll_score_free(&grid);
    s.notes = 0;
    CHECK_FAILS(ll_music_grid(&grid, &s, 0, "empty.mid"), LL_EFORMAT, "empty.mid: there is no note");
    ll_score_free(&s);
}

/* ---- Events ---- */

static void comes_back(const char *words, const char *expected) {
    ll_score s = score_of(words, 0);
    assert_string_equal(words_of(&s), expected);
    ll_score_free(&s);
}

/* Tokens that a model may generate, and the notes made of them. */
static void what_makes_no_sense_is_passed_over(void **state) {
    (void)state;
    static const char plain[] = "Piece\nBar Meter_4/4 Position_1 Tempo_120 Pitch_60 Duration_4 Velocity_66\n";
    comes_back("Pitch_60 Duration_4 Velocity_66", plain);
    comes_back("Bar Pitch_60 Duration_4 Velocity_66 Bar Bar", plain);
    comes_back("Piece Piece Bar Pitch_61 Pitch_60 Duration_4 Velocity_66 Velocity_2 Duration_3", plain);
    comes_back("Bar Pitch_60 Bar Pitch_60 Duration_4 Duration_4 Velocity_66", "Piece\n");
    comes_back("Bar Drum_5 Duration_4 Velocity_66 Drum_5 Pitch_60 Velocity_2 Pitch_61 Velocity_2", "Piece\n");
    comes_back("Bar Meter_2/4 Position_9 Pitch_60 Duration_4 Velocity_66 Meter_3/4 Bar Pitch_60 Duration_4 Velocity_66",
               "Piece\nBar Meter_2/4 Position_1 Tempo_120 Pitch_60 Duration_4 Velocity_66\n"
               "Bar Position_1 Pitch_60 Duration_4 Velocity_66\n");
    /* A position may go back within a bar, and a note ends where the same note begins again. */
    comes_back(
        "Bar Position_5 Pitch_60 Duration_8 Velocity_66 Position_1 Pitch_60 Duration_8 Velocity_66",
        "Piece\nBar Meter_4/4 Position_1 Tempo_120 Pitch_60 Duration_4 Velocity_66 Position_5 Pitch_60 Duration_8 "
        "Velocity_66\n");
    /* A second piece begins with the next bar, in its own meter. */
    comes_back("Piece Bar Meter_3/4 Pitch_60 Duration_1 Velocity_2 Piece Bar Program_5 Pitch_60 Duration_1 Velocity_2",
               "Piece\nBar Meter_3/4 Position_1 Tempo_120 Pitch_60 Duration_1 Velocity_2\n"
               "Bar Meter_4/4 Position_1 Program_5 Pitch_60 Duration_1 Velocity_2\n");
}

/* Tokens before `first` set the state, but give no notes. */
static void a_continuation_begins_with_its_bar(void **state) {
    (void)state;
    static const char words[] =
        "Piece Bar Meter_3/4 Position_1 Tempo_80 Program_9 Pitch_60 Duration_12 Velocity_66 "
        "Bar Position_5 Pitch_62 Duration_4 Velocity_66 Position_9 Pitch_64 Duration_4 Velocity_66 "
        "Bar Position_1 Pitch_65 Duration_4 Velocity_66";
    static const char front[] = "Piece\nBar Meter_3/4 Position_1 Tempo_80 ";
    static const struct {
        int64_t first;
        const char *rest;
    } cases[] = {
        {14, "Position_9 Pitch_64 Duration_4 Velocity_66\nBar Position_1 Pitch_65 Duration_4 Velocity_66\n"},
        {16, "Position_9 Pitch_64 Duration_4 Velocity_66\nBar Position_1 Pitch_65 Duration_4 Velocity_66\n"},
        {18, "Pitch_65 Duration_4 Velocity_66\n"}, /* nothing before it in its bar */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[300];
        ll_score s = score_of(words, cases[i].first);
        snprintf(expected, sizeof expected, "%s%s", front, cases[i].rest);
        assert_string_equal(words_of(&s), expected);
        ll_score_free(&s);
    }
    ll_score s = score_of(words, 999);
    assert_int_equal(s.notes, 0);
    ll_score_free(&s);
}

/* Any tokens give a score on the grid, and the tokens of that score give the score. */
static void scores_and_tokens_are_inverse(void **state) {
    (void)state;
    enum { N = 3000 };
    int32_t tokens[N];
    for (uint64_t seed = 0; seed < 30; seed++) {
        const int fine = seed % 2 > 0;
        for (int i = 0; i < N; i++) {
            /* Tokens in the order of notes; one in eight is any token instead. */
            static const int usual[][6][2] = {
                {{LL_MUSIC_POSITION, 32}, {LL_MUSIC_PITCH, 128}, {LL_MUSIC_DURATION, 64},
                 {LL_MUSIC_VELOCITY, 32}, {LL_MUSIC_BAR, 1},     {LL_MUSIC_METER, 60}},
                {{LL_MUSIC_POSITION_THIRD, 64}, {LL_MUSIC_PITCH, 128}, {LL_MUSIC_DURATION_THIRD, 128},
                 {LL_MUSIC_VELOCITY, 32},       {LL_MUSIC_BAR, 1},     {LL_MUSIC_METER, 60}}};
            const int *kind = usual[fine && i / 4 % 2][i % 24 < 20 ? i % 4 : 4 + i % 2];
            const uint32_t any = ll_below((uint32_t)ll_music_vocab(fine), seed, 1, (uint64_t)i);
            tokens[i] = ll_below(8, seed, 2, (uint64_t)i) ? kind[0] + (int)any % kind[1] : (int)any;
        }
        ll_score a = {0}, b = {0}, c = {0};
        int32_t *again = NULL;
        int64_t n = 0;
        CHECK_OK(ll_music_decode(&a, tokens, N, 0));
        CHECK_OK(ll_music_encode(&again, &n, &a));
        CHECK_OK(ll_music_decode(&b, again, n, 0));
        CHECK_OK(ll_music_grid(&c, &a, fine, "score"));
        assert_true(a.notes > 300 && a.meters > 1 && a.tempos > 1);
        int thirds = 0;
        for (int64_t i = 0; i < a.notes; i++) thirds += a.note[i].begin % LL_THIRDS || a.note[i].end % LL_THIRDS;
        assert_true(fine ? thirds > 100 : !thirds);
        assert_same_scores(&a, &b);
        assert_same_scores(&a, &c);
        ll_free(again);
        ll_score_free(&a);
        ll_score_free(&b);
        ll_score_free(&c);
    }
}

/* The same seed gives the same piece, the chords of each fourth bar come again, and notes are in the key. */
static void drawn_pieces_have_form(void **state) {
    (void)state;
    for (int64_t i = 0; i < 12; i++) {
        ll_score a = {0}, b = {0};
        CHECK_OK(ll_music_draw(&a, 32, 7, i));
        CHECK_OK(ll_music_draw(&b, 32, 7, i));
        assert_same_scores(&a, &b);
        const int bar = ll_bar_steps(a.meter);
        int first = 0, second = 0, third = 0;
        for (int64_t k = 0; k < a.notes; k++) {
            first += a.note[k].begin < 4 * bar;
            second += a.note[k].begin >= 4 * bar && a.note[k].begin < 8 * bar;
            third += a.note[k].begin >= 8 * bar && a.note[k].begin < 12 * bar;
        }
        assert_true(first > 20 && third > 20);
        assert_int_equal(first, second);
        for (int k = 0; k < first; k++) /* A A */
            assert_note(&a, first + k, a.note[k].begin + 4 * bar, a.note[k].end + 4 * bar, a.note[k].instrument,
                        a.note[k].pitch, a.note[k].velocity);
        ll_score_free(&a);
        ll_score_free(&b);
    }
    ll_score s;
    CHECK_FAILS(ll_music_draw(&s, 0, 1, 1), LL_EINVAL, "not 0");
    CHECK_FAILS(ll_music_draw(&s, 5000, 1, 1), LL_EINVAL, "not 5000");
}

/* ---- Real music ---- */

/* All pieces of POP909, read from their archive, put on the grid, written and read again. */
static void real_files_come_back(void **state) {
    (void)state;
    const char *path = shared("music/pop909-main-midi.tar.xz");
    ll_bytes tar = {0};
    int files = 0;
    CHECK_OK(ll_file_read(&tar, path, 1 << 26));
    for (size_t at = 0, size; at + 512 <= tar.size && tar.data[at]; at += 512 + (size + 511) / 512 * 512) {
        size = strtoul((const char *)tar.data + at + 124, NULL, 8);
        if (!strstr((const char *)tar.data + at, ".mid")) continue;
        if (files++ % 9) continue; /* every ninth file, about a hundred */
        const int fine = files % 2;
        ll_score s = {0}, grid = {0}, read = {0}, again = {0};
        ll_bytes file = {0};
        CHECK_OK(ll_midi_read(&s, tar.data + at + 512, size, "song"));
        assert_true(s.notes > 300 && s.notes < 10000);
        CHECK_OK(ll_music_grid(&grid, &s, fine, "song"));
        CHECK_OK(ll_midi_write(&file, &grid));
        CHECK_OK(ll_midi_read(&read, file.data, file.size, "written"));
        CHECK_OK(ll_music_grid(&again, &read, fine, "written"));
        assert_same_scores(&grid, &again);
        ll_bytes_free(&file);
        ll_score_free(&s);
        ll_score_free(&grid);
        ll_score_free(&read);
        ll_score_free(&again);
    }
    assert_int_equal(files, 909);
    ll_bytes_free(&tar);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_rounded),
        cmocka_unit_test(drums_have_no_length),
        cmocka_unit_test(words_have_their_numbers),
        cmocka_unit_test(the_vocabulary_is_fixed),
        cmocka_unit_test(a_piece_by_hand),
        cmocka_unit_test(triplets_by_hand),
        cmocka_unit_test(pieces_need_notes_and_an_end),
        cmocka_unit_test(what_makes_no_sense_is_passed_over),
        cmocka_unit_test(a_continuation_begins_with_its_bar),
        cmocka_unit_test(scores_and_tokens_are_inverse),
        cmocka_unit_test(drawn_pieces_have_form),
        cmocka_unit_test(real_files_come_back),
    };
    return cmocka_run_group_tests_name("music", tests, make_folder, remove_folder);
}
