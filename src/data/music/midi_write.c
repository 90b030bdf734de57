/* Writes standard MIDI files of format 1: one track of tempos and meters, and one for every instrument, on a channel of
 * its own. If there are more instruments than channels, instruments share channels, and each note is preceded by its
 * program. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/music/score.h"

enum { TICKS = 480 /* of a quarter note */, CHANNELS = 15 /* besides that of drums */, DRUM_CHANNEL = 9 };
enum { HEADER = 14, TRACK = 32, EVENT = 16 }; /* most bytes of an event */

typedef struct {
    uint8_t *p;
    int64_t now;   /* time of the last event */
    uint8_t *size; /* position of the track's length, which is written at its end */
} writer;

static void put(writer *w, const void *data, size_t n) {
    memcpy(w->p, data, n);
    w->p += n;
}

static void put_big(writer *w, unsigned x, int n) {
    for (int i = n - 1; i >= 0; i--) *w->p++ = (uint8_t)(x >> 8 * i);
}

/* The ticks since the last event: seven bits a byte; all bytes but the last have the highest bit set. */
static void put_time(writer *w, int64_t at) {
    const uint32_t ticks = (uint32_t)(at - w->now);
    for (int shift = 21; shift; shift -= 7)
        if (ticks >> shift) *w->p++ = (uint8_t)(ticks >> shift & 0x7f) | 0x80;
    *w->p++ = ticks & 0x7f;
    w->now = at;
}

static void begin_track(writer *w) {
    put(w, "MTrk", 4);
    w->size = w->p;
    put_big(w, 0, 4);
    w->now = 0;
}

static void end_track(writer *w) {
    put(w, "\0\xff\x2f\0", 4);
    writer size = {.p = w->size};
    put_big(&size, (unsigned)(w->p - w->size - 4), 4);
}

static void put_changes(writer *w, const ll_score *s, int scale) {
    int64_t tempo = 0, meter = 0;
    begin_track(w);
    while (tempo < s->tempos || meter < s->meters) {
        if (tempo == s->tempos || (meter < s->meters && s->meter[meter].at <= s->tempo[tempo].at)) {
            const ll_meter *m = &s->meter[meter++];
            int power = 0;
            while (1 << power < m->denominator) power++;
            put_time(w, m->at * scale);
            put(w, "\xff\x58\4", 3);
            const uint8_t beats[] = {(uint8_t)m->numerator, (uint8_t)power, 24, 8}; /* a click a quarter, as usual */
            put(w, beats, 4);
        } else {
            put_time(w, s->tempo[tempo].at * scale);
            put(w, "\xff\x51\3", 3);
            put_big(w, (unsigned)s->tempo[tempo++].micros, 3);
        }
    }
    end_track(w);
}

/* A key is struck or released. At equal times releases come first. */
typedef struct {
    int64_t at;
    uint8_t strikes, pitch, velocity;
} key;

static int by_time(const void *a, const void *b) {
    const key *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    if (x->strikes != y->strikes) return x->strikes - y->strikes;
    return x->pitch - y->pitch;
}

static void put_keys(writer *w, key *keys, const ll_score *s, int scale, int instrument, int channel, int shared) {
    size_t n = 0;
    for (int64_t i = 0; i < s->notes; i++) {
        const ll_note *note = &s->note[i];
        if (note->instrument != instrument) continue;
        keys[n++] = (key){note->begin * scale, 1, note->pitch, note->velocity};
        keys[n++] = (key){note->end * scale, 0, note->pitch, 64};
    }
    qsort(keys, n, sizeof *keys, by_time);
    const uint8_t program[] = {(uint8_t)(0xc0 | channel), (uint8_t)instrument};
    begin_track(w);
    for (size_t i = 0; i < n; i++) {
        const uint8_t event[] = {(uint8_t)((keys[i].strikes ? 0x90 : 0x80) | channel), keys[i].pitch, keys[i].velocity};
        if (instrument != LL_DRUMS && (!i || (shared && keys[i].strikes))) {
            put_time(w, i ? keys[i].at : 0);
            put(w, program, 2);
        }
        put_time(w, keys[i].at);
        put(w, event, 3);
    }
    end_track(w);
}

/* Numbers the instruments that play; each gets a track. */
static void put_tracks(writer *w, key *keys, const ll_score *s, int scale, const int *plays, int melodic) {
    for (int i = 0, number = 0; i < LL_INSTRUMENTS; i++) {
        if (!plays[i]) continue;
        int channel = number % CHANNELS;
        channel += channel >= DRUM_CHANNEL;
        if (i == LL_DRUMS)
            channel = DRUM_CHANNEL;
        else
            number++;
        put_keys(w, keys, s, scale, i, channel, melodic > CHANNELS);
    }
}

ll_status ll_midi_write(ll_bytes *file, const ll_score *s) {
    int plays[LL_INSTRUMENTS] = {0}, melodic = 0, tracks = 1;
    for (int64_t i = 0; i < s->notes; i++) plays[s->note[i].instrument] = 1;
    for (int i = 0; i < LL_INSTRUMENTS; i++) tracks += plays[i], melodic += plays[i] && i != LL_DRUMS;
    const size_t events = 2 * (size_t)s->notes + (size_t)s->tempos + (size_t)s->meters;
    uint8_t *data = ll_alloc(HEADER + TRACK * (size_t)tracks + EVENT * events, 1);
    key *keys = ll_alloc(2 * (size_t)s->notes, sizeof *keys);
    if (!data || !keys) {
        ll_free(data);
        ll_free(keys);
        return LL_ENOMEM;
    }
    writer w = {.p = data};
    put(&w, "MThd\0\0\0\6\0\1", 10);
    put_big(&w, (unsigned)tracks, 2);
    put_big(&w, TICKS, 2);
    put_changes(&w, s, TICKS / LL_GRID);
    put_tracks(&w, keys, s, TICKS / LL_GRID, plays, melodic);
    ll_free(keys);
    *file = (ll_bytes){data, (size_t)(w.p - data)};
    return LL_OK;
}
