/* Pathfinder, by the published construction (drewlinsley/pathfinder). Two long dashed paths grow segment by segment
 * from ends that are near each other. A segment is turned from the one before, with a probability that falls with the
 * angle. Short paths between them distract. One dot is at the first end of a path; another is at the last end of the
 * same path (class 1) or of the other one (class 0). No segment is nearer to another than the margin, except to the one
 * it continues.
 *
 * Ours differs: segments are kept apart by exact distances instead of rasters and dilations, and angles and positions
 * are real numbers. Image i is a function of (seed, i). */
#include "sets/pathfinder.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

static const double PI = 3.14159265358979323846;

enum { FINE = 4 /* samples of a pixel along each axis */, SIDE_MOST = 1024, SEGMENTS_MOST = 4096 };
/* Most tries: for a segment, for a distracting path, for an image. */
enum { SEGMENT_TRIES = 20, DISTRACTOR_TRIES = 5, SEED_TRIES = 50, RETREATS = 100, IMAGE_TRIES = 2000 };

typedef struct {
    double x, y;
} point;
typedef struct {
    point a, b;
    int path; /* number of the path it belongs to */
} segment;

typedef struct {
    const ll_pathfinder *p;
    uint64_t seed, stream, index;
    segment *segment;
    int count;
} scene;

/* A growing path: the end of its last segment, and the direction there. */
typedef struct {
    point first, head;
    double angle;
    int path;
} snake;

static double uniform(scene *s) {
    return (double)ll_uniform(s->seed, s->stream, s->index++);
}

static point point_at(point from, double angle, double length) {
    return (point){from.x + length * cos(angle), from.y + length * sin(angle)};
}

/* ---- Distances ---- */

static double from_segment(point q, const segment *s) {
    const double dx = s->b.x - s->a.x, dy = s->b.y - s->a.y, square = dx * dx + dy * dy;
    double t = square > 0 ? ((q.x - s->a.x) * dx + (q.y - s->a.y) * dy) / square : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(q.x - s->a.x - t * dx, q.y - s->a.y - t * dy);
}

static double side_of(point a, point b, point q) {
    return (b.x - a.x) * (q.y - a.y) - (b.y - a.y) * (q.x - a.x);
}

static double between(const segment *s, const segment *t) {
    if (side_of(s->a, s->b, t->a) * side_of(s->a, s->b, t->b) < 0 &&
        side_of(t->a, t->b, s->a) * side_of(t->a, t->b, s->b) < 0)
        return 0;
    const double one = fmin(from_segment(s->a, t), from_segment(s->b, t));
    return fmin(one, fmin(from_segment(t->a, s), from_segment(t->b, s)));
}

static int inside(const ll_pathfinder *p, point q) {
    return q.x >= p->padding && q.y >= p->padding && q.x <= p->side - p->padding && q.y <= p->side - p->padding;
}

/* May this segment be here? The one that it continues is `last`, or -1. */
static int fits(const scene *s, const segment *new, int last) {
    const double least = s->p->thickness + s->p->margin;
    if (!inside(s->p, new->a) || !inside(s->p, new->b)) return 0;
    for (int i = 0; i < s->count; i++)
        if (i != last && between(new, &s->segment[i]) < least) return 0;
    return 1;
}

/* ---- Growing ---- */

static int begin(scene *s, snake *k, point at, int path) {
    const double angle = 2 * PI * uniform(s);
    const segment first = {at, point_at(at, angle, s->p->length), path};
    if (s->count == SEGMENTS_MOST || !fits(s, &first, -1)) return 0;
    s->segment[s->count++] = first;
    *k = (snake){at, first.b, angle, path};
    return 1;
}

/* The angle a between segments has the weight cos^2(continuity a), and 0 beyond a right angle. It is drawn by
 * rejection. */
static double bend(scene *s) {
    const double most = fmin(PI, PI / 2 / s->p->continuity);
    for (;;) {
        const double a = most * (2 * uniform(s) - 1), c = cos(a * s->p->continuity);
        if (uniform(s) < c * c) return a;
    }
}

/* A gap, two margins wide and bent in its middle, and a segment. */
static int extend(scene *s, snake *k, int last) {
    const point pivot = point_at(k->head, k->angle, s->p->margin);
    for (int i = 0; i < SEGMENT_TRIES && s->count < SEGMENTS_MOST; i++) {
        const double angle = k->angle + bend(s);
        const point tail = point_at(pivot, angle, s->p->margin);
        const segment next = {tail, point_at(tail, angle, s->p->length), k->path};
        if (!fits(s, &next, last)) continue;
        s->segment[s->count++] = next;
        k->head = next.b;
        k->angle = angle;
        return 1;
    }
    return 0;
}

/* The number of the last segment of a path. */
static int last_of(const scene *s, int path) {
    int i = s->count - 1;
    while (i >= 0 && s->segment[i].path != path) i--;
    return i;
}

/* Removes the last segments of a path, but not its first; 0: there is none to remove. */
static int retreat(scene *s, snake *k, int *length) {
    int back = 1 + (int)(4 * uniform(s));
    if (*length < 2) return 0;
    for (; back > 0 && *length > 1; back--, --*length) {
        const int last = last_of(s, k->path);
        memmove(s->segment + last, s->segment + last + 1, (size_t)(s->count - last - 1) * sizeof *s->segment);
        s->count--;
    }
    const segment *end = &s->segment[last_of(s, k->path)];
    k->head = end->b;
    k->angle = atan2(end->b.y - end->a.y, end->b.x - end->a.x);
    return 1;
}

/* Ends are far from the border, and the two paths grow in turns. A path that cannot grow is shortened a little. */
static int two_paths(scene *s, snake k[2]) {
    const ll_pathfinder *p = s->p;
    const double edge = fmin(2 * p->distance, p->side / 2.0 - 1), space = p->side - 2 * edge;
    const double x = edge + space * uniform(s), y = edge + space * uniform(s); /* in this order with every compiler */
    const point at = {x, y};
    if (!begin(s, &k[0], at, 0)) return 0;
    int i = 0;
    while (i < SEED_TRIES && !begin(s, &k[1], point_at(at, 2 * PI * uniform(s), p->distance), 1)) i++;
    if (i == SEED_TRIES) return 0;
    int length[2] = {1, 1};
    for (i = 0; length[0] < p->segments || length[1] < p->segments;) {
        const int path = length[1] < length[0];
        if (extend(s, &k[path], last_of(s, path)))
            length[path]++;
        else if (i++ == RETREATS || !retreat(s, &k[path], &length[path]))
            return 0;
    }
    return 1;
}

/* A path that does not fit after some tries is left out. */
static void distract(scene *s, int path) {
    for (int i = 0; i < DISTRACTOR_TRIES; i++) {
        const int before = s->count;
        const double x = s->p->side * uniform(s), y = s->p->side * uniform(s);
        snake k;
        int n = begin(s, &k, (point){x, y}, path);
        while (n && n < s->p->distractor_segments && extend(s, &k, s->count - 1)) n++;
        if (n == s->p->distractor_segments) return;
        s->count = before;
    }
}

/* ---- Drawing ---- */

static void range(int *first, int *end, double a, double b, double spread, int side) {
    *first = (int)floor(fmin(a, b) - spread);
    *end = (int)ceil(fmax(a, b) + spread) + 1;
    if (*first < 0) *first = 0;
    if (*end > side) *end = side;
}

/* The maximum of the image and a capsule of this radius; partly covered pixels are sampled on a grid. */
static void stroke(uint8_t *pixels, int side, const segment *s, double radius, double brightness) {
    int x0, x1, y0, y1;
    range(&x0, &x1, s->a.x, s->b.x, radius, side);
    range(&y0, &y1, s->a.y, s->b.y, radius, side);
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++) {
            int covered = 0;
            for (int i = 0; i < FINE * FINE; i++) {
                const point q = {x + (i % FINE + 0.5) / FINE, y + ((i / FINE) + 0.5) / FINE};
                covered += from_segment(q, s) <= radius;
            }
            const double value = fmin(255, 255 * brightness * covered / (FINE * FINE) + 0.5);
            uint8_t *p = pixels + (size_t)y * (size_t)side + (size_t)x;
            if (value > *p) *p = (uint8_t)value;
        }
}

static void render(uint8_t *pixels, const scene *s, point one, point other) {
    const int side = s->p->side;
    const segment dot[2] = {{one, one, 0}, {other, other, 0}};
    memset(pixels, 0, (size_t)side * (size_t)side);
    /* A line thinner than a pixel would appear and vanish with its position. */
    const double radius = fmax(s->p->thickness, 1) / 2;
    for (int i = 0; i < s->count; i++) stroke(pixels, side, &s->segment[i], radius, s->p->contrast);
    for (int i = 0; i < 2; i++) stroke(pixels, side, &dot[i], s->p->radius, 1);
}

static ll_status check(const ll_pathfinder *p) {
    if (p->side < 16 || p->side > SIDE_MOST)
        return ll_fail(LL_EINVAL, "images of side %d; pathfinder has 16 to %d", p->side, SIDE_MOST);
    if (p->segments < 1 || p->segments > 200 || p->length < 1 || p->margin < 0 || p->distractors < 0 ||
        p->distractors > 1000 || p->distractor_segments < 1 || p->distractor_segments > 200)
        return ll_fail(LL_EINVAL, "paths of %d segments of length %d with a margin of %d, or %d of %d, cannot be drawn",
                       p->segments, p->length, p->margin, p->distractors, p->distractor_segments);
    return LL_OK;
}

ll_status ll_pathfinder_draw(uint8_t *pixels, uint8_t *label, const ll_pathfinder *p, uint64_t seed, int64_t i) {
    scene s = {.p = p, .seed = seed};
    snake k[2];
    ll_status status = check(p);
    if (status) return status;
    if (!(s.segment = ll_alloc(SEGMENTS_MOST, sizeof *s.segment))) return LL_ENOMEM;
    int attempt = 0, done = 0;
    for (; attempt < IMAGE_TRIES && !done; attempt++) {
        s.count = 0;
        s.index = 0;
        s.stream = ll_stream_id(LL_RANDOM_DATA, (uint32_t)attempt + 1, (uint32_t)i);
        done = two_paths(&s, k);
    }
    if (done) {
        for (int d = 0; d < p->distractors; d++) distract(&s, 2 + d);
        const int origin = uniform(&s) < 0.5, joined = uniform(&s) < 0.5;
        render(pixels, &s, k[origin].first, k[joined ? origin : 1 - origin].head);
        *label = (uint8_t)joined;
    } else {
        status = ll_fail(LL_EINVAL,
                         "in %d tries two paths of %d segments did not fit into an image of side %d; take shorter "
                         "paths, as of pathfinder-6, or a larger --size",
                         IMAGE_TRIES, p->segments, p->side);
    }
    ll_free(s.segment);
    return status;
}

/* ---- The published settings, and files ---- */

ll_status ll_pathfinder_standard(ll_pathfinder *p, int side, int segments) {
    static const ll_pathfinder known[] = {
        {16, 1, 14, 3, 1, 0.5, 3, 1.0, 1.5, 1, 5, 4},
        {32, 1, 14, 2, 1, 0.5, 7, 1.0, 1.5, 1, 5, 4},
        {64, 1, 14, 5, 1, 1, 12, 1.8, 2.5, 0.8, 5, 4},
        {128, 1, 14, 5, 2, 1.5, 20, 1.8, 3, 0.9, 8, 4},
        {256, 22, 14, 5, 3, 2, 27, 1.8, 5, 1, 7, 4},
    };
    if (segments < 1 || segments > 14)
        return ll_fail(LL_EINVAL, "pathfinder of %d segments a path; there are 1 to 14", segments);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].side != side) continue;
        *p = known[i];
        /* Distractors are a third as long as paths. If they are shorter there are more, so that about as much
         * distracts. */
        const int distracting = p->distractors * p->distractor_segments;
        p->segments = segments;
        p->distractor_segments = segments < 6 ? 1 : segments / 3;
        p->distractors = segments < 6 ? 0 : distracting / p->distractor_segments;
        return LL_OK;
    }
    return ll_fail(LL_EINVAL, "pathfinder of side %d; there are 16, 32, 64, 128 and 256", side);
}

static void big_endian(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static ll_status write_all(ll_writer *images, ll_writer *labels, const ll_pathfinder *p, int64_t count, uint64_t seed,
                           ll_done_fn *progress, void *arg) {
    uint8_t head[16], label = 0;
    const size_t size = (size_t)p->side * (size_t)p->side;
    uint8_t *pixels = ll_alloc(size, 1);
    if (!pixels) return LL_ENOMEM;
    big_endian(head, 0x803);
    big_endian(head + 4, (uint32_t)count);
    big_endian(head + 8, (uint32_t)p->side);
    big_endian(head + 12, (uint32_t)p->side);
    ll_status status = ll_writer_put(images, head, 16);
    big_endian(head, 0x801);
    if (!status) status = ll_writer_put(labels, head, 8);
    for (int64_t i = 0; i < count && !status; i++) {
        status = ll_pathfinder_draw(pixels, &label, p, seed, i);
        if (!status) status = ll_writer_put(images, pixels, size);
        if (!status) status = ll_writer_put(labels, &label, 1);
        if (!status) status = ll_progress_done(progress, arg, i + 1, count);
    }
    ll_free(pixels);
    return status;
}

ll_status ll_pathfinder_write(const char *images, const char *labels, const ll_pathfinder *p, int64_t count,
                              uint64_t seed, ll_done_fn *progress, void *arg) {
    ll_writer *x = NULL, *y = NULL;
    if (count < 1 || count > UINT32_MAX)
        return ll_fail(LL_EINVAL, "%lld images; there must be 1 to %u", (long long)count, UINT32_MAX);
    ll_status status = check(p);
    if (!status) status = ll_writer_open(&x, images);
    if (!status) status = ll_writer_open(&y, labels);
    if (!status) status = write_all(x, y, p, count, seed, progress, arg);
    if (!status) {
        status = ll_writer_commit(x);
        x = NULL;
    }
    if (!status) {
        status = ll_writer_commit(y);
        y = NULL;
    }
    ll_writer_abandon(x);
    ll_writer_abandon(y);
    return status;
}
