/* Standard MIDI files: read event by event, wrong in every possible way, and written. */
#include "midi_files.h"

/* Format 0, 96 ticks a quarter: running status, note-on with velocity 0 as note-off, numbers of two bytes, a
 * program. */
static void one_track_is_read(void **state) {
    (void)state;
    midi_file s = {0};
    add_head(&s, 0, 1, 96);
    open_track(&s);
    ADD(&s, "\0\xc2\x28");                   /* program 40 on channel 3 */
    ADD(&s, "\0\x92\x3c\x50");               /* key 60 at 0 */
    ADD(&s, "\x30\x40\x51");                 /* running status: key 64 at 48 */
    ADD(&s, "\x30\x3c\0");                   /* note-off at 96 */
    ADD(&s, "\x81\x40\x82\x40\x10");         /* 192 later, at 288, a real note-off */
    ADD(&s, "\0\x99\x24\x7f\x0a\x89\x24\0"); /* a drum of 10 ticks */
    ADD(&s, "\0\xff\x2f\0");
    close_track(&s);
    ll_score score = read_midi(&s);
    assert_int_equal(score.division, 96);
    assert_int_equal(score.notes, 3);
    assert_note(&score, 0, 0, 96, 40, 60, 0x50);
    assert_note(&score, 1, 48, 288, 40, 64, 0x51);
    assert_note(&score, 2, 288, 298, LL_DRUMS, 36, 127);
    ll_score_free(&score);
}

/* Events other than notes are skipped: system exclusive in two parts, text, soft pedal, pitch bends, aftertouch. */
static void other_events_are_passed_over(void **state) {
    (void)state;
    midi_file s = {0};
    add_head(&s, 0, 1, 96);
    open_track(&s);
    ADD(&s, "\0\xf0\3\x7e\x09\xf7\5\xf7\2\x01\xf7");
    ADD(&s, "\0\xff\1\4text\0\xff\x7f\0\0\xff\x59\2\0\0");
    ADD(&s, "\0\xb0\x43\x7f\0\x0b\x7f\0\xe0\0\x40\0\xd0\x10\0\xa0\x3c\x10");
    ADD(&s, "\5\x90\x3c\x50\5\x3c\0");
    ADD(&s, "\0\xff\1\1x\2\x3e\x50"); /* running status after a meta event, as some programs write it */
    ADD(&s, "\3\xff\x2f\0");
    close_track(&s);
    ADD(&s, "behind the last track anything may come");
    ll_score score = read_midi(&s);
    assert_int_equal(score.notes, 2);
    assert_note(&score, 0, 10, 15, 0, 60, 0x50);
    assert_note(&score, 1, 17, 20, 0, 62, 0x50); /* no note-off: the note ends with the track */
    ll_score_free(&score);
}

/* Tempos and meters of the first track; programs of a track or its channel; a track without an end event; an unknown
 * chunk. */
static void tracks_are_one_piece(void **state) {
    (void)state;
    midi_file s = {0};
    add_head(&s, 1, 3, 480);
    open_track(&s);
    ADD(&s, "\0\xff\x51\3\x07\xa1\x20\0\xff\x58\4\6\3\x18\x08");
    ADD(&s, "\0\xc1\x21\x64\xc1\x22");
    ADD(&s, "\0\xff\x51\3\x0f\x42\x40\0\xff\x2f\0");
    close_track(&s);
    ADD(&s, "XFIH\0\0\0\2ab");
    open_track(&s);
    ADD(&s, "\0\xc0\x07\0\x90\x3c\x40\x0a\x91\x3c\x41\x0a\x3c\0\0\x90\x3c\0");
    close_track(&s);
    open_track(&s);
    ADD(&s, "\0\x90\x3c\x42\x78\x91\x3c\x43\x0a\x3c\0\0\x80\x3c\0");
    close_track(&s);
    ll_score score = read_midi(&s);
    assert_int_equal(score.notes, 4);
    assert_note(&score, 0, 0, 130, 7, 60, 0x42); /* the channel's program, set in another track */
    assert_note(&score, 1, 0, 20, 7, 60, 0x40);  /* no note-off of another track ends it */
    assert_note(&score, 2, 10, 20, 0x21, 60, 0x41);
    assert_note(&score, 3, 120, 130, 0x22, 60, 0x43);
    assert_int_equal(score.tempos, 2);
    assert_int_equal(score.tempo[0].micros, 500000);
    assert_int_equal(score.tempo[1].micros, 1000000);
    assert_int_equal(score.tempo[1].at, 100);
    assert_int_equal(score.meters, 1);
    assert_int_equal(score.meter[0].numerator, 6);
    assert_int_equal(score.meter[0].denominator, 8);
    ll_score_free(&score);
}

/* A key struck while it sounds ends the first note and begins another. A note of length 0 is dropped. */
static void keys_sound_once_at_a_time(void **state) {
    (void)state;
    midi_file s = {0};
    add_head(&s, 0, 1, 96);
    open_track(&s);
    ADD(&s, "\0\x90\x3c\x50\x10\x3c\x51\x10\x3c\0\x10\x3c\0\0\x40\x50\0\x40\0");
    close_track(&s);
    ll_score score = read_midi(&s);
    assert_int_equal(score.notes, 2);
    assert_note(&score, 0, 0, 16, 0, 60, 0x50);
    assert_note(&score, 1, 16, 32, 0, 60, 0x51);
    ll_score_free(&score);
}

/* Notes released while the pedal is down sound until it is lifted. This does not hold for keys still pressed then, for
 * drums, or for other channels. */
static void the_pedal_holds_notes(void **state) {
    (void)state;
    midi_file s = {0};
    add_head(&s, 0, 1, 96);
    open_track(&s);
    ADD(&s, "\0\x90\x3c\x50\0\x91\x3c\x51\0\x99\x3c\x52\0\x90\x30\x53"); /* key 60 three times, key 48 */
    ADD(&s, "\5\xb0\x40\x40\0\xb9\x40\x7f");                             /* pedal down at 5 */
    ADD(&s, "\5\x90\x3c\0\0\x91\x3c\0\0\x99\x3c\0");                     /* note-off at 10 */
    ADD(&s, "\5\xb0\x40\x50\0\x42\0\5\x40\x3f");                         /* pedal up at 20, by the value 63 */
    ADD(&s, "\5\x90\x30\0");                                             /* note-off of 48 at 25 */
    ADD(&s, "\0\x90\x32\x54\5\x32\0\0\xb0\x40\x7f");                     /* down in the tick of the note-off, 30 */
    ADD(&s, "\5\xb0\x79\x7f");                                           /* reset at 35, whatever its value */
    ADD(&s, "\0\x90\x33\x55\0\xb0\x40\x7f\5\x90\x33\0\0\xb0\x40\0");     /* up in the tick of the note-off, 40 */
    close_track(&s);
    ll_score score = read_midi(&s);
    assert_int_equal(score.notes, 6);
    assert_note(&score, 0, 0, 25, 0, 48, 0x53);
    assert_note(&score, 1, 0, 20, 0, 60, 0x50);
    assert_note(&score, 2, 0, 10, 0, 60, 0x51);
    assert_note(&score, 3, 0, 10, LL_DRUMS, 60, 0x52);
    assert_note(&score, 4, 25, 35, 0, 50, 0x54);
    assert_note(&score, 5, 35, 40, 0, 51, 0x55);
    assert_int_equal(score.held, 2);
    ll_score_free(&score);
}

/* A pedal belongs to its channel, in any track. It holds a note until its key is struck again. If it is never lifted,
 * it holds notes to the end of all tracks. */
static void pedals_belong_to_channels(void **state) {
    (void)state;
    midi_file s = {0};
    add_head(&s, 1, 3, 96);
    open_track(&s);
    ADD(&s, "\0\x90\x3c\x50\5\x3c\0\x0b\x3c\x51\1\x3c\0"); /* key 60 from 0 to 5 and from 16 to 17 */
    ADD(&s, "\0\x3e\x52\0\x3e\0");                         /* key 62 at 17, with its note-off at once */
    close_track(&s);
    open_track(&s);
    ADD(&s, "\4\xb0\x40\x7f\0\xb1\x40\x7f\1\x40\0");
    close_track(&s);
    open_track(&s);
    ADD(&s, "\x0a\x91\x3c\x53\x0a\x3c\0\x0a\xff\x2f\0"); /* key 60 on another channel, 10 to 20; the end at 30 */
    close_track(&s);
    ll_score score = read_midi(&s);
    assert_int_equal(score.notes, 4);
    assert_note(&score, 0, 0, 16, 0, 60, 0x50);
    assert_note(&score, 1, 10, 20, 0, 60, 0x53);
    assert_note(&score, 2, 16, 30, 0, 60, 0x51);
    assert_note(&score, 3, 17, 30, 0, 62, 0x52);
    ll_score_free(&score);
}

static ll_status refuse(const midi_file *s) {
    ll_score score = {.notes = -7};
    const ll_status status = ll_midi_read(&score, s->data, s->n, "song");
    if (status) assert_int_equal(score.notes, -7);
    if (!status) ll_score_free(&score);
    return status;
}

typedef struct {
    const char *bytes;
    size_t n;
    const char *word;
} wrong_case;
#define WRONG(literal, word)                                                                                           \
    { literal, sizeof literal - 1, word }

static void wrong_events_are_refused(void **state) {
    (void)state;
    static const wrong_case cases[] = {
        WRONG("\0\x90\x3c", "byte 24: the track ends inside an event"),
        WRONG("\0\x90\x3c\x50\x81", "the track ends inside an event"),
        WRONG("\0", "the track ends inside an event"),
        WRONG("\0\xff", "the track ends inside an event"),
        WRONG("\x81\x82\x83\x84\0\x90\x3c\x50", "longer than four bytes"),
        WRONG("\0\x3c\x50", "there is none"),
        WRONG("\0\x90\x3c\x80", "above 127"),
        WRONG("\0\xc0\x80", "above 127"),
        WRONG("\0\xf4\0", "byte 23: no event of a MIDI file"),
        WRONG("\0\xf0\x7f\0", "longer than what is left"),
        WRONG("\0\xff\1\x83\xff\xff\x7f", "longer than what is left"),
        WRONG("\0\xff\x51\3\0\0\0", "cannot be 0"),
        WRONG("\0\xff\x51\2\1\1", "three bytes"),
        WRONG("\0\xff\x58\4\0\2\x18\x08", "0 beats"),
        WRONG("\0\xff\x58\4\4\x08\x18\x08", "below 1/128"),
        WRONG("\0\xff\x58\1\4", "time signature"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        midi_file s = {0};
        add_head(&s, 0, 1, 96);
        open_track(&s);
        add(&s, cases[i].bytes, cases[i].n);
        close_track(&s);
        CHECK_FAILS(refuse(&s), LL_EFORMAT, cases[i].word);
    }
}

static void wrong_files_are_refused(void **state) {
    (void)state;
    static const wrong_case cases[] = {
        WRONG("", "is not a standard MIDI file"),
        WRONG("MThd\0\0\0\6\0\0\0\1\0", "is not a standard MIDI file"),
        WRONG("RIFF\0\0\0\6\0\0\0\1\0\x60", "is not a standard MIDI file"),
        WRONG("MThd\0\0\0\5\0\0\0\1\0\x60", "is not a standard MIDI file"),
        WRONG("MThd\0\0\0\6\0\2\0\1\0\x60", "format 2"),
        WRONG("MThd\0\0\0\6\0\0\0\2\0\x60", "cannot have 2 tracks"),
        WRONG("MThd\0\0\0\6\0\1\0\0\0\x60", "cannot have 0 tracks"),
        WRONG("MThd\0\0\0\6\0\1\0\1\0\0", "units of nothing"),
        WRONG("MThd\0\0\0\6\0\1\0\1\xe7\x28", "frames of film"),
        WRONG("MThd\xff\xff\xff\xff\0\1\0\1\0\x60", "longer than the file"),
        WRONG("MThd\0\0\0\6\0\1\0\1\0\x60", "after 0 of 1 tracks"),
        WRONG("MThd\0\0\0\6\0\1\xff\xff\0\x60MTrk\0\0\0\4\0\xff\x2f\0", "after 1 of 65535 tracks"),
        WRONG("MThd\0\0\0\6\0\1\0\1\0\x60MTrk\xff\xff\xff\xff\0", "a chunk is longer"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        midi_file s = {0};
        add(&s, cases[i].bytes, cases[i].n);
        CHECK_FAILS(refuse(&s), LL_EFORMAT, cases[i].word);
    }
    ll_score score;
    uint8_t *large = ll_alloc(LL_MIDI_MOST + 1, 1);
    CHECK_FAILS(ll_midi_read(&score, large, LL_MIDI_MOST + 1, "large"), LL_EFORMAT, "16777217 bytes");
    ll_free(large);
}

/* A header longer than today's is read; the rest is skipped. */
static void longer_headers_are_read(void **state) {
    (void)state;
    midi_file s = {0};
    ADD(&s, "MThd\0\0\0\x08\0\0\0\1\0\x60zz");
    open_track(&s);
    ADD(&s, "\0\x90\x3c\x50\1\x3c\0");
    close_track(&s);
    ll_score score = read_midi(&s);
    assert_note(&score, 0, 0, 1, 0, 60, 0x50);
    ll_score_free(&score);
}

/* ---- Writing ---- */

static void what_is_written_is_read_again(const ll_score *score) {
    ll_bytes file = {0};
    ll_score read = {0}, grid = {0};
    CHECK_OK(ll_midi_write(&file, score));
    CHECK_OK(ll_midi_read(&read, file.data, file.size, "written"));
    assert_int_equal(read.division, 480);
    CHECK_OK(ll_music_grid(&grid, &read, 1, "written"));
    assert_same_scores(&grid, score);
    ll_bytes_free(&file);
    ll_score_free(&read);
    ll_score_free(&grid);
}

/* More instruments than channels, drums, changes of tempo and meter, notes without a gap between them. */
static void any_score_is_written(void **state) {
    (void)state;
    ll_score s = {.division = LL_GRID};
    CHECK_OK(ll_score_reserve(&s, 4000, 20, 20));
    for (int i = 0; i < 4000; i++)
        s.note[s.notes++] =
            (ll_note){i / 9, i / 9 + 1 + i * 7 % 192, (uint8_t)(i * 13 % 27 < 26 ? i * 13 % 27 : LL_DRUMS),
                      (uint8_t)(i * 11 % 128), (uint8_t)(i % 32 * 4 + 2)};
    for (int i = 0; i < 4000; i++)
        if (s.note[i].instrument == LL_DRUMS) s.note[i].end = s.note[i].begin + LL_THIRDS;
    for (int i = 0; i < 10; i++) {
        s.tempo[s.tempos++] = (ll_tempo){.at = 17 * i, .micros = ll_tempo_micros(5 * i)};
        s.meter[s.meters] = ll_meter_of(6 * i);
        s.meter[s.meters++].at = 31 * i;
    }
    CHECK_OK(ll_music_normalise(&s));
    assert_true(s.notes > 1000);
    what_is_written_is_read_again(&s);
    ll_score_free(&s);
}

static void drawn_pieces_are_written(void **state) {
    (void)state;
    for (int64_t i = 0; i < 20; i++) {
        ll_score s = {0};
        CHECK_OK(ll_music_draw(&s, 9, 3, i));
        what_is_written_is_read_again(&s);
        ll_score_free(&s);
    }
}

static void memory_can_end(void **state) {
    (void)state;
    midi_file s = {0};
    add_head(&s, 0, 1, 96);
    open_track(&s);
    ADD(&s, "\0\x90\x3c\x50\1\x3c\0");
    close_track(&s);
    for (long n = 1;; n++) {
        ll_score score = {0};
        ll_bytes file = {0};
        ll_memory_fail_at(n);
        ll_status status = ll_midi_read(&score, s.data, s.n, "song");
        if (!status) status = ll_midi_write(&file, &score);
        ll_memory_fail_at(0);
        ll_bytes_free(&file);
        ll_score_free(&score);
        if (!status) break;
        assert_int_equal(status, LL_ENOMEM);
        assert_true(n < 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_track_is_read),        cmocka_unit_test(other_events_are_passed_over),
        cmocka_unit_test(tracks_are_one_piece),     cmocka_unit_test(keys_sound_once_at_a_time),
        cmocka_unit_test(the_pedal_holds_notes),    cmocka_unit_test(pedals_belong_to_channels),
        cmocka_unit_test(wrong_events_are_refused), cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(longer_headers_are_read),  cmocka_unit_test(any_score_is_written),
        cmocka_unit_test(drawn_pieces_are_written), cmocka_unit_test(memory_can_end),
    };
    return cmocka_run_group_tests_name("midi", tests, make_folder, remove_folder);
}
