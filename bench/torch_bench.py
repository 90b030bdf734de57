"""Attention forward and backward through autograd, beside what else is installed, in one run on the CPU.

    PYTHONPATH=build/python python3 bench/torch_bench.py [--length 4096] [--threads 2] [--peer NAME=PATH ..]

Peers are torch's softmax attention, fast-transformers, performer-pytorch and the plain path of flash-linear-attention.
Those that can be imported are measured, others are named as missing. --peer puts a checkout's folder on the path. Each
row is the best and the median of --repeat runs after one to warm up. On Debian, torch is at its best with
libopenblas0-openmp. --cpu counts the processor's time in place of the clock's, for a machine that has other work; give
it one thread.
"""
import argparse
import statistics
import sys
import time

import torch

import longline
import longline.torch


def softmax(q, k, v, causal, m):
    native = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if native is not None:
        return native(q, k, v, is_causal=causal)
    logits = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        logits = logits.masked_fill(torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return logits.softmax(-1) @ v


def ours(kernel):
    def run(q, k, v, causal, m):
        options = {"features": m} if kernel == "favor" else {}
        return longline.torch.functional.linear_attention(q, k, v, kernel, causal=causal, **options)
    return run


def fast_transformers():
    from fast_transformers.attention import CausalLinearAttention, LinearAttention
    from fast_transformers.feature_maps import Favor
    from fast_transformers.masking import FullMask, LengthMask, TriangularCausalMask
    made = {}

    def run(q, k, v, causal, m):
        B, H, T, D = q.shape
        if (causal, m) not in made:
            kind = CausalLinearAttention if causal else LinearAttention
            made[causal, m] = kind(D, feature_map=Favor.factory(n_dims=m))
        mask = TriangularCausalMask(T) if causal else FullMask(T)
        lengths = LengthMask(torch.full((B,), T, dtype=torch.long))
        return made[causal, m](*(x.transpose(1, 2) for x in (q, k, v)), mask, lengths, lengths).transpose(1, 2)
    return run


def performer_pytorch():
    from performer_pytorch import FastAttention
    made = {}

    def run(q, k, v, causal, m):
        if (causal, m) not in made:
            made[causal, m] = FastAttention(q.shape[-1], nb_features=m, causal=causal, no_projection=False)
        return made[causal, m](q, k, v)
    return run


def fla():
    from fla.ops.linear_attn.naive import naive_chunk_linear_attn

    def run(q, k, v, causal, m):
        if not causal:
            raise NotImplementedError("causal alone")
        q, k = (torch.nn.functional.elu(x) + 1 for x in (q, k))
        out = naive_chunk_linear_attn(*(x.transpose(1, 2) for x in (q, k, v)))
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)
    return run


PEERS = {"fast-transformers": fast_transformers, "performer-pytorch": performer_pytorch, "fla-naive": fla}


def seconds(run, q, k, v, causal, m, repeat, clock):
    """Of forward and backward, for each run."""
    times = []
    for i in range(repeat + 1):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        begin = clock()
        run(*leaves, causal, m).sum().backward()
        if i:
            times.append(clock() - begin)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = dict(batch=1, heads=8, size=64, features=256, length=4096, threads=2, repeat=5)
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--cpu", action="store_true", help="processor time")
    a = parser.parse_args()
    clock = time.process_time if a.cpu else time.perf_counter
    for peer in a.peer:
        sys.path.insert(0, peer.split("=", 1)[-1])
    torch.set_num_threads(a.threads)
    longline.set_threads(a.threads)
    systems = {"longline favor": ours("favor"), "longline elu1": ours("elu1"), "torch softmax": softmax}
    for name, load in PEERS.items():
        try:
            systems[name] = load()
        except ImportError as error:
            print(f"{name}: not here ({error})", file=sys.stderr)
    print(f"# torch {torch.__version__}, longline {longline.__version__} ({longline.cpu()}), {a.threads} threads")
    print("system,causal,best_ms,median_ms")
    q, k, v = (torch.randn(a.batch, a.heads, a.length, a.size) for _ in range(3))
    for causal in (False, True):
        for name, run in systems.items():
            try:
                times = seconds(run, q, k, v, causal, a.features, a.repeat, clock)
            except NotImplementedError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            print(f"{name},{int(causal)},{min(times) * 1e3:.1f},{statistics.median(times) * 1e3:.1f}", flush=True)


if __name__ == "__main__":
    main()
