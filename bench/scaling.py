#!/usr/bin/env python3
"""How training scales over ranks: measured on one machine, and predicted for many (docs/scaling.md).

    bench/scaling.py links BUILD -o links.csv      ranks in network namespaces, against the model (root, Open MPI)
    bench/scaling.py predict links.csv -o FOLDER   figures: the model against what was measured, and 1,024 nodes

The model is LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995): a message of k bytes takes a + k G, where a is the
latency with the overheads of both ends; messages that leave one after the other do so every g + k G seconds. It knows
how src/dist/exchange.c cuts a block into buckets and segments, and of the measurements a, G and g alone, which
`longline bench --dist` finds between two ranks.
"""
import argparse
import csv
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PIECE, BUCKET, MOST_BUCKETS = 16384, 1 << 18, 2048  # floats, floats, buckets of a block
EAGER = 1 << 20  # bytes: a message below it is sent unasked


# ---- The model ----

def hops(ranks):
    """Messages one after the other from the last rank to the first (src/dist/collective.c): the parent of i is
    i & (i - 1)."""
    return max(bin(i).count('1') for i in range(ranks))


def message(k, link):
    """Seconds of one message: a large one is announced, and sent when the other side has answered."""
    return (link['a'] if k <= EAGER else 3 * link['a']) + k * link['G']


def buckets(block, ranks):
    """Floats of each bucket of a block, from the first."""
    least = max(BUCKET, ranks * PIECE, math.ceil(block / MOST_BUCKETS))
    size = math.ceil(least / PIECE) * PIECE
    return [min(size, block - at) for at in range(0, block, size)]


def exchange(parts, ranks, link, ready):
    """When the last of these buckets has been sent to its owners; ready[b]: when bucket b could be. The last bucket
    comes first, as in backward. A link carries one message at a time."""
    free = end = 0.0
    for b in reversed(range(len(parts))):
        segment = 4 * PIECE * math.ceil(math.ceil(parts[b] / PIECE) / ranks)  # the largest
        free = max(free, ready[b]) + (ranks - 1) * (link['g'] + segment * link['G'])
        end = max(end, free + message(segment, link) - segment * link['G'])
    return end


def step(block, layers, compute, ranks, link):
    """Seconds of a data-parallel step of a model of `block` floats, whose forward and backward take `compute`."""
    if ranks == 1:
        return compute
    parts, ready, at = buckets(block, ranks), [], 0
    for part in parts:
        layer = min(layers - 1, int(at / block * layers))  # the layer that its first float is in
        ready.append(compute * (1 - 2 * layer / layers / 3))
        at += part
    summed = max(compute, exchange(parts, ranks, link, ready))
    sums = 8 * (3 * ranks + 1 + math.ceil(block / PIECE))
    summed += 2 * hops(ranks) * message(sums, link)  # losses, and the norm of the gradient
    return summed + exchange(parts, ranks, link, [0] * len(parts))


def sequence_step(model, tokens, ranks, link):
    """Seconds of a causal sequence of so many tokens over ranks, and the bytes that a rank sends. Forward and backward
    are pipelines: a rank begins with the attention of a layer when the rank before has handed on its state."""
    part, seconds = tokens / ranks, 0
    for products in (1, 2):  # backward has twice those of forward
        attention = products * part * model['attention'] / NODE
        other = products * part * model['rest'] / NODE
        seconds += model['layers'] * (attention + other) + (ranks - 1) * (attention + message(4 * model['state'], link))
    return seconds, 2 * model['layers'] * 4 * model['state']


def lm(name, layers, width, features=256, head=64):
    """A language model with causal random features: floats, flop of a token, numbers of a state (one layer)."""
    heads = width // head
    return {'name': name, 'layers': layers, 'block': 12 * layers * width * width, 'rest': 24 * width * width,
            'attention': 2 * heads * features * (2 * head + 2 * (head + 1)), 'state': heads * features * (head + 1),
            'width': width}


NODE = 64 * 70e9  # flop a second that 64 cores make of the training that the equations need
MODELS = [lm('25 M', 8, 512), lm('300 M', 24, 1024), lm('1.2 G', 24, 2048)]
FAST = {'a': 80e-6, 'G': 1.01 * 8 / 25e9, 'g': 5e-6}  # 25 Gbit/s; 0.05 ms and what a message costs two threads and TCP


def efficiency(model, ranks, tokens):
    compute = 3 * tokens * model['layers'] * (model['attention'] + model['rest']) / NODE
    return compute / step(model['block'], model['layers'], compute, ranks, FAST)


# ---- Measured ----

def values(text):
    return dict(line.split('=', 1) for line in text.splitlines() if line.startswith('bench.dist.'))


def numbers(found):
    return {k[len('bench.dist.'):]: float(v) for k, v in found.items()}


def link_of(found):
    """a, G and g of what `bench --dist` printed."""
    if 'gb_per_s' not in found:
        sys.exit('scaling.py: the rate of the link is not known, since other programs use this machine; try again')
    a = 1e-6 * found['latency_us']
    large, size = found['latency_us'] * 1e-6 + 4194304 / (found['gb_per_s'] * 1e9), 4194304
    return {'a': a, 'G': max(1e-12, (large - 3 * a) / size), 'g': 1e-6 * found['gap_us']}


class Cluster:
    """Network namespaces joined by bench/switch.c, and a launcher that starts ranks in them."""

    def __init__(self, nodes, rate, delay, folder):
        self.names = [f'lls{os.getpid()}-{i}' for i in range(nodes)]
        self.folder = folder
        self.switch = None
        try:
            self.begin(rate, delay)
        except BaseException:
            self.end()
            raise

    def begin(self, rate, delay):
        program = os.path.join(self.folder, 'switch')
        if not os.path.exists(program):
            source = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'switch.c')
            subprocess.run(['cc', '-std=c17', '-D_GNU_SOURCE', '-O2', source, '-o', program], check=True)
        for name in self.names:
            subprocess.run(['ip', 'netns', 'add', name], check=True)
        command = [program, str(rate), str(delay), *self.names]
        self.switch = subprocess.Popen(['chrt', '-f', '10', *command], stdout=subprocess.PIPE, text=True)
        if self.switch.stdout.readline() != 'ready\n':
            raise RuntimeError('the switch does not begin')
        for i, name in enumerate(self.names):
            for words in (f'addr add 10.78.0.{i + 1}/24 dev ll0', 'link set ll0 mtu 9000 txqueuelen 10000 up',
                          'link set lo up'):
                subprocess.run(['ip', '-n', name, *words.split()], check=True)
            settings = {'tcp_slow_start_after_idle': '0', 'tcp_rmem': '4096 4194304 33554432',
                        'tcp_wmem': '4096 4194304 33554432', 'tcp_no_metrics_save': '1'}
            for key, value in settings.items():
                write = f'echo "{value}" >/proc/sys/net/ipv4/{key}'
                subprocess.run(['ip', 'netns', 'exec', name, 'sh', '-c', write], check=True)
        self.agent = os.path.join(self.folder, 'agent')
        with open(self.agent, 'w') as file:
            file.write('#!/bin/sh\nwhile case $1 in -*) true ;; *) false ;; esac; do shift; done\n'
                       'i=$((${1##*.} - 1))\nshift\n'
                       f'mkdir -p {self.folder}/tmp$i\nexport TMPDIR={self.folder}/tmp$i\n'
                       f'exec ip netns exec lls{os.getpid()}-$i sh -c "$*"\n')
        os.chmod(self.agent, 0o755)

    def run(self, ranks, words, seconds=100):
        hosts = ','.join(f'10.78.0.{i + 1}' for i in range(ranks))
        tmp = os.path.join(self.folder, 'tmp0')
        os.makedirs(tmp, exist_ok=True)
        mca = {'plm_rsh_agent': self.agent, 'btl': 'tcp,self', 'btl_tcp_if_include': 'll0', 'oob_tcp_if_include': 'll0',
               'btl_tcp_sndbuf': '0', 'btl_tcp_rcvbuf': '0', 'btl_tcp_eager_limit': str(EAGER),
               'btl_tcp_max_send_size': str(EAGER)}
        environment = dict(os.environ, TMPDIR=tmp, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1',
                           **{'OMPI_MCA_' + k: v for k, v in mca.items()})
        command = ['nice', '-n', '-15', 'timeout', '-k', '5', str(seconds), 'ip', 'netns', 'exec', self.names[0],
                   'mpirun.openmpi', '-host', hosts, '-n', str(ranks), *words]
        for attempt in range(3):  # Open MPI's ranks sometimes do not connect to each other
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True,
                                  stdin=subprocess.DEVNULL)
            if not done.returncode:
                return numbers(values(done.stdout))
            print(f'{" ".join(words)} on {ranks} ranks: exit {done.returncode}', file=sys.stderr)
        raise SystemExit(1)

    def end(self):
        if self.switch:
            self.switch.kill()
            self.switch.wait()
        for name in self.names:
            if os.path.exists('/run/netns/' + name):
                pids = subprocess.run(['ip', 'netns', 'pids', name], stdout=subprocess.PIPE, text=True).stdout.split()
                for pid in pids:
                    subprocess.run(['kill', '-KILL', pid], stderr=subprocess.DEVNULL)
                subprocess.run(['ip', 'netns', 'del', name])


LINKS = [  # bits a second, seconds
    (1e9, 50e-6), (1e9, 1e-3), (10e9, 50e-6), (10e9, 200e-6), (10e9, 1e-3), (25e9, 50e-6), (25e9, 200e-6), (25e9, 1e-3)
]
SLOW = 100e6  # bits a second of the links, whatever they stand for
SHAPE = ['--set', 'model.layers=6', '--set', 'model.width=160', '--set', 'model.heads=4', '--set', 'model.ff=640']
COLUMNS = ['gbit', 'delay_ms', 'slowed', 'ranks', 'parameters', 'a_us', 'ns_per_byte', 'gap_us', 'compute_s',
           'exchange_s', 'exchange_model_s', 'step_s', 'model_s', 'error', 'hidden', 'sent_over_least']


def measure_links(args):
    """Everything is slowed by one factor, so that eight ranks and their links fit on two cores: links are slower and
    longer, and computation is a longer sleep. The model gets the slowed values."""
    longline = os.path.join(os.path.abspath(args.build), 'longline')
    with tempfile.TemporaryDirectory() as folder, open(args.out, 'w', newline='') as out:
        writer = csv.DictWriter(out, COLUMNS)
        writer.writeheader()
        wanted = [tuple(map(float, link.split(':'))) for link in args.link]
        for rate, delay in [(1e9 * r, 1e-3 * d) for r, d in wanted] or LINKS:
            slowed = rate / SLOW
            cluster = Cluster(8, rate / slowed, delay * slowed, folder)
            try:
                measure_link(cluster, longline, rate, delay, slowed, writer, out)
            finally:
                cluster.end()


def measure_link(cluster, longline, rate, delay, slowed, writer, out):
    link = None
    compute = 0.5
    for ranks in (2, 3, 4, 8):
        found = cluster.run(ranks, [longline, 'bench', '--dist', '--repeats', '2', '--threads', '1', '--rehearse',
                                    str(compute), *SHAPE])
        link = link or link_of(found)
        block = int(found['parameters'])
        expected = step(block, 6, compute, ranks, link)
        alone = step(block, 6, 0, ranks, link)
        row = {'gbit': rate / 1e9, 'delay_ms': delay * 1e3, 'slowed': slowed, 'ranks': ranks, 'parameters': block,
               'a_us': f'{1e6 * link["a"]:.1f}', 'ns_per_byte': f'{1e9 * link["G"]:.3f}',
               'gap_us': f'{1e6 * link["g"]:.2f}', 'compute_s': compute,
               'exchange_s': f'{found["exchange.seconds"]:.4f}', 'exchange_model_s': f'{alone:.4f}',
               'step_s': f'{found["rehearsal.seconds"]:.4f}', 'model_s': f'{expected:.4f}',
               'error': f'{expected / found["rehearsal.seconds"] - 1:.4f}', 'hidden': found['rehearsal.hidden'],
               'sent_over_least': found['rehearsal.sent_over_least']}
        writer.writerow(row)
        out.flush()
        print(' '.join(f'{k}={v}' for k, v in row.items()), flush=True)


# ---- Figures ----

COLORS = ['#1f6fb4', '#d1603d', '#3a9a5b', '#8e5ea2', '#b8860b', '#555555', '#17a2b8', '#e377c2']


class Figure:
    """Curves over a logarithmic axis, as SVG."""

    def __init__(self, title, across, up, xs, low, high, log=False, form=str):
        self.xs, self.low, self.high, self.log = xs, low, high, log
        self.names = 0
        self.parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 400" font-family="sans-serif">',
                      '<rect width="720" height="400" fill="white"/>', self.text(70, 26, title, size=15)]
        ticks = [10 ** e for e in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)] if log else [
            low + (high - low) * i / 5 for i in range(6)]
        for y in ticks:
            self.parts.append(f'<path d="M70 {self.y(y):.1f}H520" stroke="#ddd"/>')
            self.parts.append(self.text(62, self.y(y) + 4, form(y), 'end'))
        for x in xs:
            label = f'{x:g}' if x < 1e6 else f'2^{round(math.log2(x))}'
            self.parts.append(self.text(self.x(x), 368, label, 'middle', 11))
        self.parts += [self.text(295, 390, across, 'middle'), '<path d="M70 40V350H520" fill="none" stroke="#333"/>',
                       f'<g transform="translate(16 195) rotate(-90)">{self.text(0, 0, up, "middle")}</g>']

    @staticmethod
    def text(x, y, words, anchor='start', size=13, fill='#222'):
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}">{words}</text>'

    def x(self, x):
        a, b = math.log(self.xs[0]), math.log(self.xs[-1])
        return 82 + 426 * (math.log(x) - a) / (b - a)

    def y(self, y):
        if self.log:
            return 350 - 300 * math.log(y / self.low) / math.log(self.high / self.low)
        return 350 - 300 * (y - self.low) / (self.high - self.low)

    def curve(self, name, points, marks=(), dashed=False):
        color = COLORS[self.names % len(COLORS)]
        path = 'M' + 'L'.join(f'{self.x(x):.1f} {self.y(y):.1f}' for x, y in points)
        dashes = ' stroke-dasharray="6 4"' if dashed else ''
        self.parts.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>')
        self.parts += [f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="4" fill="{color}"/>' for x, y in marks]
        top = 60 + 22 * self.names
        self.parts.append(f'<path d="M535 {top}H559" stroke="{color}" stroke-width="3"/>')
        self.parts.append(self.text(566, top + 4, name, size=12))
        self.names += 1

    def write(self, path):
        with open(path, 'w') as file:
            file.write('\n'.join(self.parts) + '\n</svg>\n')


def percent(x):
    return f'{100 * x:.0f} %'


def draw_links(rows, path):
    figure = Figure('Step of 1.9 M parameters: measured (dots) and the model (lines)', 'ranks',
                    'seconds, slowed links', [2, 3, 4, 8], 0.5, 4.0, form=lambda y: f'{y:.1f}')
    for key in dict.fromkeys((r['gbit'], r['delay_ms']) for r in rows):
        mine = [r for r in rows if (r['gbit'], r['delay_ms']) == key]
        modelled = [(int(r['ranks']), float(r['model_s'])) for r in mine]
        measured = [(int(r['ranks']), float(r['step_s'])) for r in mine]
        figure.curve(f'{float(key[0]):g} Gbit/s, {float(key[1]):g} ms', modelled, measured)
    figure.write(path)


def draw_nodes(path):
    nodes = [1, 4, 16, 64, 256, 1024]
    figure = Figure('Data parallel at 25 Gbit/s, so many tokens a node and step', 'nodes', 'efficiency', nodes,
                    0.75, 1.0, form=percent)
    for tokens in (131072, 32768, 16384):
        for model in MODELS:
            points = [(n, efficiency(model, n, tokens)) for n in nodes]
            if tokens != 32768:  # which is only printed
                figure.curve(f'{model["name"]}, {tokens // 1024} Ki tokens', points, dashed=tokens < 131072)
            print(f'{model["name"]}, {tokens} tokens a node: ' + ', '.join(f'{n} {percent(e)}' for n, e in points))
    figure.write(path)


def draw_sequence(path):
    model, ranks = MODELS[1], 1024
    lengths = [2 ** e for e in range(20, 31, 2)]
    figure = Figure('A sequence over 1,024 ranks, 300 M parameters: what a rank sends', 'tokens', 'bytes a step',
                    lengths, 1e7, 1e15, log=True, form=lambda y: f'1e{round(math.log10(y))}')
    figure.curve('states', [(t, sequence_step(model, t, ranks, FAST)[1]) for t in lengths])
    # A float of each key and value, and backward three times as many.
    ring = [(t, 4 * model['layers'] * 4 * t * (ranks - 1) / ranks * 2 * model['width']) for t in lengths]
    figure.curve('keys and values (ring)', ring, dashed=True)
    figure.write(path)
    for n in (1, 4, 16, 64, 256, 1024):
        seconds, sent = sequence_step(model, 2 ** 20 * n, n, FAST)
        alone = sequence_step(model, 2 ** 20, 1, FAST)[0]
        print(f'{n} ranks with 2^20 tokens each: {seconds:.0f} s, {percent(alone / seconds)}, {sent / 1e6:.0f} MB sent')


def predict(args):
    with open(args.csv, newline='') as file:
        rows = list(csv.DictReader(file))
    off = []
    for r in rows:
        link = {'a': 1e-6 * float(r['a_us']), 'G': 1e-9 * float(r['ns_per_byte']), 'g': 1e-6 * float(r['gap_us'])}
        r['model_s'] = step(int(r['parameters']), 6, float(r['compute_s']), int(r['ranks']), link)
        off.append(100 * abs(r['model_s'] / float(r['step_s']) - 1))
    print(f'{len(rows)} steps measured; the model is off by at most {max(off):.1f} %, {statistics.median(off):.1f} % in '
          'the median')
    hidden = [100 * float(r['hidden']) for r in rows]
    print(f'of the communication {min(hidden):.0f} to {max(hidden):.0f} % is hidden')
    draw_links(rows, os.path.join(args.out, 'scaling-links.svg'))
    draw_nodes(os.path.join(args.out, 'scaling-nodes.svg'))
    draw_sequence(os.path.join(args.out, 'scaling-sequence.svg'))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    links = commands.add_parser('links', help='ranks in network namespaces, against the model')
    links.add_argument('build')
    links.add_argument('-o', '--out', default='links.csv')
    links.add_argument('--link', action='append', default=[], metavar='GBIT:MS', help='this link; may be given again')
    figures = commands.add_parser('predict', help='figures from what was measured')
    figures.add_argument('csv')
    figures.add_argument('-o', '--out', default='.')
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    {'links': measure_links, 'predict': predict}[args.command](args)


if __name__ == '__main__':
    main()
