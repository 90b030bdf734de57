/* A switch in user space: joins network namespaces by links of one rate and delay, as machines of a cluster are joined.
 *
 *     cc -O2 bench/switch.c -o switch; switch BITS_PER_SECOND SECONDS NAMESPACE...      (root)
 *
 * Each namespace gets a device ll0, whose address must be 10.78.0.(number from 1). Each has a link out and a link in.
 * A packet takes its bits / rate on the link out, the delay, and on the link in as long again, where it is forwarded
 * while it still comes (cut-through), so that a packet alone takes bits / rate + delay. Queues do not drop. As under
 * Linux's fair queues, destinations take turns, and an acknowledgement does not wait behind data. Prints "ready" and
 * works until a signal ends it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, PACKET = 65536, TURN = 32 /* packets that one port may send before the next one may */ };

typedef struct packet {
    struct packet *next;
    double due;
    size_t bytes;
    unsigned char data[];
} packet;

typedef struct {
    packet *first, **end;
} queue;

static struct port {
    queue out[MOST];          /* what waits for the link out, by destination */
    int turn;                 /* the destination that comes next */
    double out_free, in_free; /* when the links are free again */
    queue in, acknowledged;   /* on their way to this port, in the order in which they arrive */
} port[MOST];
static struct pollfd device[MOST];
static int ports;
static double rate, delay;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "switch: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* A device lives in the namespace in which it was made, and is read and written from any. */
static void open_port(const char *name) {
    char path[256];
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    strcpy(request.ifr_name, "ll0");
    snprintf(path, sizeof path, "/run/netns/%s", name);
    const int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET)) die(path);
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request)) die("/dev/net/tun");
    close(space);
    device[ports] = (struct pollfd){.fd = fd, .events = POLLIN};
    ports++;
}

static double later(double a, double b) { return a > b ? a : b; }

static void put(queue *q, packet *p) {
    if (!q->first) q->end = &q->first;
    p->next = NULL;
    *q->end = p;
    q->end = &p->next;
}

static packet *take(queue *q) {
    packet *p = q->first;
    q->first = p->next;
    return p;
}

/* TCP without data, and no flag but ACK. */
static int acknowledges(const unsigned char *p, size_t bytes) {
    const size_t head = 4 * (size_t)(p[0] & 15);
    return p[9] == 6 && bytes >= head + 20 && p[head + 13] == 16 && bytes == head + 4 * (size_t)(p[head + 12] >> 4);
}

static void accept_packet(int from, const unsigned char *data, size_t bytes) {
    if (bytes < 20 || data[0] >> 4 != 4) return;
    const int to = data[19] - 1;
    if (data[16] != 10 || data[17] != 78 || to < 0 || to >= ports || to == from) return;
    packet *p = malloc(sizeof *p + bytes);
    if (!p) return;
    p->due = now(), p->bytes = bytes;
    memcpy(p->data, data, bytes);
    if (!acknowledges(data, bytes)) {
        put(&port[from].out[to], p);
        return;
    }
    p->due += delay + 8 * (double)bytes / rate;
    put(&port[to].acknowledged, p);
}

/* Sends what a port's link out has had time for, one packet of each destination in turn. When it is free for the next
 * one, or a second from now. */
static double send_out(int from, double when) {
    struct port *f = &port[from];
    while (f->out_free <= when) {
        int to = f->turn, seen = 0;
        while (seen < ports && !f->out[to].first) to = (to + 1) % ports, seen++;
        if (seen == ports) return when + 1;
        packet *p = take(&f->out[to]);
        const double takes = 8 * (double)p->bytes / rate, leaves = later(p->due, f->out_free);
        const double comes = later(leaves + delay, port[to].in_free);
        f->turn = (to + 1) % ports;
        f->out_free = leaves + takes;
        p->due = port[to].in_free = comes + takes;
        put(&port[to].in, p);
    }
    return f->out_free;
}

/* Gives a port what has arrived. When the next packet does, or a second from now. */
static double deliver(int to, queue *q, double when) {
    while (q->first && q->first->due <= when) {
        if (write(device[to].fd, q->first->data, q->first->bytes) < 0 && errno == EAGAIN) return when + 1e-3;
        free(take(q));
    }
    return q->first ? q->first->due : when + 1;
}

static double work(int i, double when) {
    const double out = send_out(i, when), in = deliver(i, &port[i].in, when);
    const double acknowledged = deliver(i, &port[i].acknowledged, when);
    const double first = in < acknowledged ? in : acknowledged;
    return out < first ? out : first;
}

int main(int argc, char **argv) {
    static unsigned char data[PACKET];
    if (argc < 4 || argc > 3 + MOST) return fprintf(stderr, "usage: switch BITS_PER_SECOND SECONDS NAMESPACE...\n"), 2;
    rate = atof(argv[1]), delay = atof(argv[2]);
    for (int i = 3; i < argc; i++) open_port(argv[i]);
    prctl(PR_SET_TIMERSLACK, 1);
    puts("ready");
    fflush(stdout);
    for (;;) {
        double next = now() + 1;
        for (int i = 0; i < ports; i++) {
            const double due = work(i, now());
            if (due < next) next = due;
        }
        const double left = later(0, next - now());
        const struct timespec wait = {(time_t)left, (long)(1e9 * (left - (double)(time_t)left))};
        if (ppoll(device, (nfds_t)ports, &wait, NULL) <= 0) continue;
        for (int i = 0; i < ports; i++)
            for (int n = 0; n < TURN && device[i].revents & POLLIN; n++) {
                const ssize_t bytes = read(device[i].fd, data, sizeof data);
                if (bytes <= 0) break;
                accept_packet(i, data, (size_t)bytes);
            }
    }
}
