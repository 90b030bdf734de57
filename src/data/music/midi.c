/* Reads standard MIDI files (MIDI 1.0, 1996). They are chunks of a type and a length. MThd comes first. MTrk are
 * tracks: events, each with the ticks since the one before.
 *
 * This is our own reader because libsmf, which Debian has for C, calls abort() on damaged files. This reader refuses
 * damaged files and names the byte. It accepts common mistakes of programs: a track without an end, running status
 * after a meta event, bytes after the last track. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "data/music/score.h"

enum { HEADER = 14, DRUM_CHANNEL = 9, NO_PROGRAM = 255, PITCHES = 128, CHANNELS = 16 };
enum { PEDAL = 64, RESET = 121 /* "reset all controllers", which also lifts the pedal */, PRESSED = 64 };
enum { META_END = 0x2f, META_TEMPO = 0x51, META_METER = 0x58 };

/* A change of a channel, in any track: its program, or whether its pedal is down. */
typedef struct {
    int64_t at, number; /* number: of several changes at one time the last one counts */
    int channel, value;
} change;

typedef struct {
    change *item;
    int64_t n;
} changes;

typedef struct {
    const uint8_t *data;
    size_t at, end, size; /* end of the track */
    const char *name;
    ll_score *score;
    changes programs, pedals;
    int64_t last; /* tick of the current event */

    /* The current track. */
    int64_t now;
    uint8_t status, program[CHANNELS]; /* NO_PROGRAM: the track has not set one */
    int64_t open[CHANNELS][PITCHES];   /* number + 1 of the note that sounds */
    int over;
} reader;

static ll_status wrong(const reader *r, const char *what) {
    return ll_fail(LL_EFORMAT, "%s: byte %zu: %s", r->name, r->at, what);
}

/* A number of up to four bytes with seven bits each. All but the last have the highest bit set. */
static ll_status take_length(reader *r, unsigned *x) {
    *x = 0;
    for (int i = 0; i < 4; i++) {
        if (r->at == r->end) return wrong(r, "the track ends inside an event; the file is truncated");
        const uint8_t byte = r->data[r->at++];
        *x = *x << 7 | (byte & 0x7f);
        if (byte < 0x80) return LL_OK;
    }
    return wrong(r, "a number is longer than four bytes");
}

/* ---- Events ---- */

static void release(reader *r, int channel, int pitch) {
    int64_t *open = &r->open[channel][pitch];
    if (*open) r->score->note[*open - 1].end = r->now;
    *open = 0;
}

static void strike(reader *r, int channel, int pitch, int velocity) {
    ll_score *s = r->score;
    const uint8_t program = r->program[channel];
    release(r, channel, pitch);
    s->note[s->notes] = (ll_note){.begin = r->now,
                                  .end = r->now,
                                  .instrument = channel == DRUM_CHANNEL ? LL_DRUMS : program,
                                  .pitch = (uint8_t)pitch,
                                  .velocity = (uint8_t)velocity,
                                  .channel = (uint8_t)channel};
    r->open[channel][pitch] = ++s->notes;
}

static void add_change(changes *c, int64_t at, int channel, int value) {
    c->item[c->n] = (change){at, c->n, channel, value};
    c->n++;
}

static ll_status take_voice(reader *r, int status) {
    const int kind = status >> 4, channel = status & 15;
    const size_t n = kind == 0xc || kind == 0xd ? 1 : 2;
    if (r->end - r->at < n) return wrong(r, "the track ends inside an event; the file is truncated");
    const uint8_t *p = r->data + r->at;
    if (p[0] > 0x7f || p[n - 1] > 0x7f) return wrong(r, "a value of an event is above 127");
    if (kind == 0x9 && p[1]) {
        strike(r, channel, p[0], p[1]);
    } else if (kind == 0x8 || kind == 0x9) {
        release(r, channel, p[0]);
    } else if (kind == 0xc) {
        r->program[channel] = p[0];
        add_change(&r->programs, r->now, channel, p[0]);
    } else if (kind == 0xb && (p[0] == PEDAL || p[0] == RESET)) {
        add_change(&r->pedals, r->now, channel, p[0] == PEDAL && p[1] >= PRESSED);
    }
    r->at += n;
    return LL_OK;
}

static ll_status take_meta(reader *r, int type, unsigned n) {
    ll_score *s = r->score;
    const uint8_t *p = r->data + r->at;
    if (type == META_END) r->over = 1;
    if (type == META_TEMPO) {
        if (n != 3 || !ll_big_endian(p, 3)) return wrong(r, "a tempo needs three bytes and cannot be 0");
        s->tempo[s->tempos++] = (ll_tempo){.at = r->now, .micros = (int)ll_big_endian(p, 3)};
    } else if (type == META_METER) {
        if (n < 2 || !p[0] || p[1] > 7) return wrong(r, "a time signature cannot have 0 beats, or notes below 1/128");
        s->meter[s->meters++] = (ll_meter){.at = r->now, .numerator = p[0], .denominator = 1 << p[1]};
    }
    return LL_OK;
}

/* Events with a length: system exclusive messages, which are for one device, and meta events. */
static ll_status take_block(reader *r, int status) {
    unsigned n = 0;
    if (status != 0xf0 && status != 0xf7 && status != 0xff) {
        r->at--;
        return wrong(r, "no event of a MIDI file begins with this byte");
    }
    if (status == 0xff && r->at == r->end) return wrong(r, "the track ends inside an event; the file is truncated");
    const int type = status == 0xff ? r->data[r->at++] : -1;
    ll_status result = take_length(r, &n);
    if (result) return result;
    if (n > r->end - r->at) return wrong(r, "an event is longer than what is left of its track");
    result = take_meta(r, type, n);
    r->at += n;
    return result;
}

static ll_status take_event(reader *r) {
    unsigned ticks = 0;
    const ll_status status = take_length(r, &ticks);
    if (status) return status;
    r->now += ticks;
    if (r->now > r->last) r->last = r->now;
    if (r->at == r->end) return wrong(r, "the track ends inside an event; the file is truncated");
    if (r->data[r->at] >= 0xf0) return take_block(r, r->data[r->at++]);
    if (r->data[r->at] >= 0x80) r->status = r->data[r->at++];
    if (!r->status) return wrong(r, "an event leaves its kind to the one before, and there is none");
    return take_voice(r, r->status);
}

/* ---- Tracks ---- */

static ll_status take_track(reader *r) {
    ll_status status = LL_OK;
    memset(r->program, NO_PROGRAM, sizeof r->program);
    memset(r->open, 0, sizeof r->open);
    r->now = 0;
    r->status = 0;
    r->over = 0;
    while (!status && !r->over && r->at < r->end) status = take_event(r);
    for (int c = 0; c < CHANNELS; c++)
        for (int p = 0; p < PITCHES; p++) release(r, c, p);
    r->at = r->end;
    return status;
}

/* Reads chunks up to the last track. Chunks of other types are for other programs. */
static ll_status take_chunks(reader *r, unsigned tracks) {
    for (unsigned done = 0; done < tracks;) {
        if (r->size - r->at < 8)
            return ll_fail(LL_EFORMAT, "%s: the file ends after %u of %u tracks; it is truncated", r->name, done,
                           tracks);
        const uint8_t *p = r->data + r->at;
        const unsigned n = ll_big_endian(p + 4, 4);
        if (n > r->size - r->at - 8) return wrong(r, "a chunk is longer than what is left; the file is truncated");
        r->at += 8;
        r->end = r->at + n;
        if (!memcmp(p, "MTrk", 4)) {
            const ll_status status = take_track(r);
            if (status) return status;
            done++;
        }
        r->at = r->end;
    }
    return LL_OK;
}

/* ---- Notes changed by programs and pedals of their channel, over all tracks ---- */

static int by_time(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->channel != y->channel) return x->channel - y->channel;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

/* Sorts by channel and time, and removes those that change nothing. */
static void sort_changes(changes *c) {
    int64_t n = 0;
    if (c->n) qsort(c->item, (size_t)c->n, sizeof *c->item, by_time);
    for (int64_t i = 0; i < c->n; i++) {
        const change now = c->item[i], *before = n ? &c->item[n - 1] : NULL;
        if (!before || before->channel != now.channel || before->value != now.value) c->item[n++] = now;
    }
    c->n = n;
}

/* The index of the change that is in force for a channel at a time, or -1. */
static int64_t change_at(const changes *c, int channel, int64_t at) {
    int64_t low = 0, high = c->n; /* changes before `low` have a lower channel, or this channel and no later time */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const change *m = &c->item[middle];
        if (m->channel < channel || (m->channel == channel && m->at <= at))
            low = middle + 1;
        else
            high = middle;
    }
    return low && c->item[low - 1].channel == channel ? low - 1 : -1;
}

/* Notes of tracks without a program get the program of their channel at that time; if there is none, the piano's, 0. */
static void take_programs(reader *r) {
    sort_changes(&r->programs);
    for (int64_t i = 0; i < r->score->notes; i++) {
        ll_note *note = &r->score->note[i];
        if (note->instrument != NO_PROGRAM) continue;
        const int64_t known = change_at(&r->programs, note->channel, note->begin);
        note->instrument = (uint8_t)(known < 0 ? 0 : r->programs.item[known].value);
    }
}

/* If the pedal is down when a key is released: when it is lifted. */
static int64_t lifted(const reader *r, const ll_note *note) {
    const changes *c = &r->pedals;
    const int64_t i = change_at(c, note->channel, note->end);
    if (i < 0 || !c->item[i].value || note->channel == DRUM_CHANNEL) return note->end;
    return i + 1 < c->n && c->item[i + 1].channel == note->channel ? c->item[i + 1].at : r->last;
}

/* A note that is released while the pedal of its channel is down sounds until the pedal is lifted or the key is struck
 * again. This is Magenta's rule (note_seq, apply_sustain_control_changes). Notes are sorted by their beginnings. */
static void take_pedals(reader *r) {
    int64_t struck[CHANNELS][PITCHES]; /* for each key: the next time it is struck */
    ll_score *s = r->score;
    sort_changes(&r->pedals);
    for (int i = 0; i < CHANNELS * PITCHES; i++) struck[i / PITCHES][i % PITCHES] = INT64_MAX;
    for (int64_t i = s->notes - 1; i >= 0; i--) {
        ll_note *note = &s->note[i];
        int64_t *next = &struck[note->channel][note->pitch], end = lifted(r, note);
        if (end > *next) end = *next;
        if (end > note->end) {
            note->end = end;
            s->held++;
        }
        *next = note->begin;
    }
}

/* A note without duration is not heard, so it is left out. */
static void drop_silent(ll_score *s) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->notes; i++)
        if (s->note[i].end > s->note[i].begin) s->note[n++] = s->note[i];
    s->notes = n;
}

static ll_status check_header(const reader *r, unsigned *tracks, int *division) {
    const uint8_t *p = r->data;
    if (!ll_is_midi(p, r->size) || ll_big_endian(p + 4, 4) < 6)
        return ll_fail(LL_EFORMAT, "%s is not a standard MIDI file: it does not begin with a chunk MThd", r->name);
    const unsigned format = ll_big_endian(p + 8, 2), ticks = ll_big_endian(p + 12, 2);
    *tracks = ll_big_endian(p + 10, 2);
    *division = (int)ticks;
    if (format > 1)
        return ll_fail(LL_EFORMAT, "%s has format %u; only formats 0 and 1 hold one piece of music", r->name,
                       format);
    if (!*tracks || (format == 0 && *tracks > 1))
        return ll_fail(LL_EFORMAT, "%s: a file of format %u cannot have %u tracks", r->name, format, *tracks);
    if (!ticks || ticks > 0x7fff)
        return ll_fail(LL_EFORMAT, "%s gives times in %s; only ticks of a quarter note tell where a beat is", r->name,
                       ticks ? "frames of film" : "units of nothing");
    return LL_OK;
}

int ll_is_midi(const uint8_t *data, size_t size) { return size >= HEADER && !memcmp(data, "MThd", 4); }

/* An event has at least three bytes, a program two, a tempo or a meter six. This bounds the numbers of each. */
static ll_status changes_room(reader *r, size_t size) {
    r->programs.item = ll_alloc(size / 2 + 1, sizeof *r->programs.item);
    r->pedals.item = ll_alloc(size / 3 + 1, sizeof *r->pedals.item);
    return r->programs.item && r->pedals.item ? LL_OK : LL_ENOMEM;
}

ll_status ll_midi_read(ll_score *score, const uint8_t *data, size_t size, const char *name) {
    ll_score s = {0};
    unsigned tracks = 0;
    if (size > LL_MIDI_MOST)
        return ll_fail(LL_EFORMAT, "%s has %zu bytes; MIDI files up to %d are read", name, size, LL_MIDI_MOST);
    reader *r = ll_alloc(1, sizeof *r);
    if (!r) return LL_ENOMEM;
    r->data = data;
    r->size = size;
    r->name = name;
    r->score = &s;
    ll_status status = check_header(r, &tracks, &s.division);
    if (!status && ll_big_endian(data + 4, 4) > size - 8) status = wrong(r, "the header is longer than the file");
    if (!status) status = ll_score_reserve(&s, size / 3 + 1, size / 6 + 1, size / 6 + 1);
    if (!status) status = changes_room(r, size);
    if (!status) r->at = 8 + ll_big_endian(data + 4, 4);
    if (!status) status = take_chunks(r, tracks);
    if (!status) take_programs(r);
    if (!status) ll_score_sort(&s);
    if (!status) take_pedals(r);
    ll_free(r->programs.item);
    ll_free(r->pedals.item);
    ll_free(r);
    if (status) {
        ll_score_free(&s);
        return status;
    }
    drop_silent(&s);
    ll_score_sort(&s);
    *score = s;
    return LL_OK;
}
