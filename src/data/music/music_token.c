/* Events of music as tokens, after REMI (Huang and Yang 2020) as the SPE paper uses it. A bar is followed by its meter
 * if that changes. A position in the bar is followed by the tempo if that changes, and by its notes. A note is pitch,
 * duration and velocity. If the instrument is not the piano, its program comes before the notes and holds to the end of
 * the bar. Drum notes have no duration. Empty bars have a token, too, so that bars and positions alone determine the
 * time. */
#include "base/integer.h"
#include "base/memory.h"
#include "data/music/score.h"

enum { VELOCITIES = 4 };

/* ---- Time ---- */

int ll_music_vocab(int fine) { return fine ? LL_MUSIC_VOCAB_FINE : LL_MUSIC_VOCAB; }

/* Durations or positions: tokens of whole sixteenths, the first of which means `least`, and tokens of the thirds
 * between them, from 1/3 on. */
typedef struct {
    int whole, least, between, count;
} ruler;
static const ruler positions = {LL_MUSIC_POSITION, 0, LL_MUSIC_POSITION_THIRD, LL_POSITIONS},
                   durations = {LL_MUSIC_DURATION, 1, LL_MUSIC_DURATION_THIRD, LL_LONGEST};

static int token_of(int64_t steps, const ruler *r) {
    const int sixteenths = (int)(steps / LL_THIRDS), thirds = (int)(steps % LL_THIRDS);
    return thirds ? r->between + (LL_THIRDS - 1) * sixteenths + thirds - 1 : r->whole + sixteenths - r->least;
}

/* -1 if the token is neither. */
static int steps_of(int token, const ruler *r) {
    const int whole = token - r->whole, i = token - r->between;
    if (whole >= 0 && whole < r->count) return LL_THIRDS * (whole + r->least);
    if (i < 0 || i >= (LL_THIRDS - 1) * r->count) return -1;
    return i / (LL_THIRDS - 1) * LL_THIRDS + i % (LL_THIRDS - 1) + 1;
}

/* ---- Notes to tokens ---- */

/* Tokens are first counted (out NULL), then written. */
typedef struct {
    int32_t *out;
    int64_t n;
} sink;

static void put(sink *s, int token) {
    if (s->out) s->out[s->n] = token;
    s->n++;
}

static void put_note(sink *s, const ll_note *note, int *program) {
    if (note->instrument == LL_DRUMS) {
        put(s, LL_MUSIC_DRUM + note->pitch);
    } else {
        if (note->instrument != *program) put(s, LL_MUSIC_PROGRAM + note->instrument);
        *program = note->instrument;
        put(s, LL_MUSIC_PITCH + note->pitch);
        put(s, token_of(note->end - note->begin, &durations));
    }
    put(s, LL_MUSIC_VELOCITY + note->velocity / VELOCITIES);
}

/* Writes the tempos and notes from *tempo and *note on that lie in the bar. */
static void put_bar(sink *s, const ll_score *grid, int64_t begin, int64_t end, int64_t *tempo, int64_t *note) {
    int program = 0;
    for (;;) {
        int64_t at = end;
        if (*note < grid->notes && grid->note[*note].begin < at) at = grid->note[*note].begin;
        if (*tempo < grid->tempos && grid->tempo[*tempo].at < at) at = grid->tempo[*tempo].at;
        if (at == end) return;
        put(s, token_of(at - begin, &positions));
        if (*tempo < grid->tempos && grid->tempo[*tempo].at == at)
            put(s, LL_MUSIC_TEMPO + ll_tempo_class(grid->tempo[(*tempo)++].micros));
        for (; *note < grid->notes && grid->note[*note].begin == at; ++*note) put_note(s, &grid->note[*note], &program);
    }
}

static void put_piece(sink *s, const ll_score *grid) {
    int64_t bar = 0, meter = 0, tempo = 0, note = 0;
    put(s, LL_MUSIC_PIECE);
    while (note < grid->notes) {
        const int fresh = meter < grid->meters && grid->meter[meter].at == bar;
        meter += fresh;
        const ll_meter *now = &grid->meter[meter - 1];
        const int64_t end = bar + ll_bar_steps(now);
        put(s, LL_MUSIC_BAR);
        if (fresh) put(s, LL_MUSIC_METER + ll_meter_class(now->numerator, now->denominator));
        put_bar(s, grid, bar, end, &tempo, &note);
        bar = end;
    }
}

ll_status ll_music_encode(int32_t **tokens, int64_t *count, const ll_score *grid) {
    sink s = {0};
    put_piece(&s, grid);
    int32_t *out = ll_alloc((size_t)s.n, sizeof *out);
    if (!out) return LL_ENOMEM;
    s = (sink){.out = out};
    put_piece(&s, grid);
    *tokens = out;
    *count = s.n;
    return LL_OK;
}

/* ---- Tokens to notes ---- */

typedef struct {
    ll_score *score;
    int64_t bar, now; /* the beginning of the bar, and the current position */
    int begun, fresh; /* has a bar begun; has nothing but its meter followed? */
    ll_meter meter;
    int program, instrument, pitch, duration; /* the current note; pitch < 0: none; duration 0: not read yet */
} decoder;

static void forget(decoder *l) {
    l->pitch = -1;
    l->duration = 0;
}

static void begin_bar(decoder *l) {
    if (l->begun) l->bar += ll_bar_steps(&l->meter);
    l->now = l->bar;
    l->program = 0;
    l->begun = l->fresh = 1;
}

static void set_meter(decoder *l, ll_meter meter) {
    l->meter = meter;
    meter.at = l->bar;
    l->score->meter[l->score->meters++] = meter;
}

static void set_tempo(decoder *l, int class) {
    l->score->tempo[l->score->tempos++] = (ll_tempo){.at = l->now, .micros = ll_tempo_micros(class)};
}

static void add_note(decoder *l, int velocity) {
    const ll_note note = {l->now, l->now + l->duration, (uint8_t)l->instrument, (uint8_t)l->pitch, (uint8_t)velocity};
    if (l->pitch >= 0 && l->duration) l->score->note[l->score->notes++] = note;
}

/* Tokens outside of notes: a position in the bar, or a token below LL_MUSIC_PITCH. */
static void read_frame(decoder *l, int token, int position) {
    forget(l);
    if (position >= 0) {
        if (position < ll_bar_steps(&l->meter)) l->now = l->bar + position;
    } else if (token == LL_MUSIC_PIECE) {
        if (l->begun) begin_bar(l);
        l->begun = 0; /* the first bar of the next piece is this one */
        set_meter(l, (ll_meter){.numerator = 4, .denominator = 4});
    } else if (token == LL_MUSIC_BAR) {
        begin_bar(l);
        return;
    } else if (token < LL_MUSIC_POSITION) {
        if (l->fresh) set_meter(l, ll_meter_of(token - LL_MUSIC_METER));
        return;
    } else if (token < LL_MUSIC_PROGRAM) {
        set_tempo(l, token - LL_MUSIC_TEMPO);
    } else {
        l->program = token - LL_MUSIC_PROGRAM;
    }
    l->fresh = 0;
}

static void read_token(decoder *l, int token) {
    if (token < 0 || token >= LL_MUSIC_VOCAB_FINE) return;
    const int position = steps_of(token, &positions), duration = steps_of(token, &durations);
    if (position >= 0 || token < LL_MUSIC_PITCH) {
        read_frame(l, token, position);
        return;
    }
    l->fresh = 0;
    if (duration > 0) {
        /* A second duration, or the duration of a drum note, makes the note invalid. */
        l->duration = l->duration ? 0 : duration;
        if (!l->duration) forget(l);
    } else if (token < LL_MUSIC_DRUM) {
        l->instrument = l->program;
        l->pitch = token - LL_MUSIC_PITCH;
        l->duration = 0;
    } else if (token < LL_MUSIC_DURATION) {
        l->instrument = LL_DRUMS;
        l->pitch = token - LL_MUSIC_DRUM;
        l->duration = LL_THIRDS;
    } else {
        add_note(l, (token - LL_MUSIC_VELOCITY) * VELOCITIES + VELOCITIES / 2);
        forget(l);
    }
}

/* The score from step `from` on. Settings from before that step are in force at its beginning. */
static void cut(ll_score *s, int64_t from) {
    for (int64_t i = 0; i < s->notes; i++) s->note[i].begin -= from, s->note[i].end -= from;
    for (int64_t i = 0; i < s->tempos; i++) s->tempo[i].at -= ll_min_int64(s->tempo[i].at, from);
    for (int64_t i = 0; i < s->meters; i++) s->meter[i].at -= ll_min_int64(s->meter[i].at, from);
}

ll_status ll_music_decode(ll_score *grid, const int32_t *tokens, int64_t count, int64_t first) {
    ll_score s = {.division = LL_GRID};
    const size_t capacity = (size_t)count + 2;
    ll_status status = ll_score_reserve(&s, capacity, capacity, capacity);
    if (status) return status;
    decoder l = {.score = &s, .meter = {.numerator = 4, .denominator = 4}, .pitch = -1};
    int64_t from = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i == first) s.notes = 0;
        read_token(&l, tokens[i]);
        if (i == first) from = l.bar;
    }
    if (first >= count) {
        s.notes = 0;
        from = l.bar;
    }
    if (l.bar - from >= LL_GRID_MOST)
        status = ll_fail(LL_EINVAL, "these events last longer than %d quarter notes", LL_GRID_MOST / LL_GRID);
    cut(&s, from);
    if (!status) return ll_music_finish(grid, &s);
    ll_score_free(&s);
    return status;
}
