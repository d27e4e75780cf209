"""Times a step of AdaHB and HB against torch's Adam: ratios, in one process, in turns, medians.

    python benchmarks/bench_torch.py [--device cpu] [--threads 1] [--rounds 15] [--only "adahb fused" "hb fused"]
                                     [--sizes cnn many resnet18 transformer 1e6 1e7]

A ratio below 1 means faster than ``torch.optim.Adam(foreach=True)`` on the CPU, ``Adam(fused=True)`` on CUDA. On CUDA the
share of the memory's bandwidth is printed too, for seven streams of the parameters' size (w, g, m, v read; w, m, v
written; HB has no v and five) and the bandwidth of a plain copy, measured here. Results: benchmarks/results/torch.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from finitesum.torch import HB, AdaHB

CNN = [
    (32, 3, 3, 3),
    (32,),
    (32,),
    (32,),
    (32, 32, 3, 3),
    (32,),
    (32,),
    (32,),
    (32,),
    (32,),
    (128, 8192),
    (128,),
    (10, 128),
    (10,),
]
STREAMS = {"adam": 7, "adahb": 7, "hb": 5}


def resnet18() -> list[tuple[int, ...]]:
    """Return the shapes of a ResNet-18 with 1,000 classes: 62 parameters, 11.7 million entries."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    before = 64
    for width in (64, 64, 128, 128, 256, 256, 512, 512):
        shapes += [(width, before, 3, 3), (width,), (width,), (width, width, 3, 3), (width,), (width,)]
        if width != before:
            shapes += [(width, before, 1, 1), (width,), (width,)]
        before = width
    return [*shapes, (1000, 512), (1000,)]


def transformer() -> list[tuple[int, ...]]:
    """Return the shapes of twelve layers of width 768 with 50,257 words: 148 parameters, 124 million entries."""
    layer: list[tuple[int, ...]] = [(768,), (768,), (2304, 768), (2304,), (768, 768), (768,), (768,), (768,)]
    layer += [(3072, 768), (3072,), (768, 3072), (768,)]
    return [(50257, 768), (1024, 768), *layer * 12, (768,), (768,)]


def shapes_of(size: str) -> list[tuple[int, ...]]:
    """Return the parameters' shapes: of a network, 100 of 1,000 entries, or one of the given size."""
    if size == "cnn":
        return CNN
    if size == "resnet18":
        return resnet18()
    if size == "transformer":
        return transformer()
    if size == "many":
        return [(1000,)] * 100
    return [(int(float(size)),)]


def clock(step: Callable[[], object], device: str) -> float:
    """Return the seconds of one step."""
    if device != "cuda":
        start = time.perf_counter()
        step()
        return time.perf_counter() - start
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before.record()
    step()
    after.record()
    torch.cuda.synchronize()
    return before.elapsed_time(after) / 1e3


def candidates(device: str) -> dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]]:
    """Return how each optimizer is made; the first one is what the others are measured against."""
    adam = {
        "adam fused": lambda p: torch.optim.Adam(p, fused=True),
        "adam foreach": lambda p: torch.optim.Adam(p, foreach=True),
    }
    if device == "cpu":
        adam = dict(reversed(adam.items()))
    return {
        **adam,
        "adahb fused": lambda p: AdaHB(p, steps_per_epoch=100, fused=True),
        "adahb foreach": lambda p: AdaHB(p, steps_per_epoch=100, foreach=True),
        "adahb reference": lambda p: AdaHB(p, steps_per_epoch=100, foreach=False),
        "hb fused": lambda p: HB(p, steps_per_epoch=100, fused=True),
        "hb foreach": lambda p: HB(p, steps_per_epoch=100, foreach=True),
    }


def measure(size: str, device: str, rounds: int, only: list[str] | None) -> dict[str, float]:
    """Return the median seconds of each optimizer, timed in turns on parameters of its own."""
    generator = torch.Generator(device).manual_seed(0)
    steps = {}
    for k, (name, make) in enumerate(candidates(device).items()):
        if k > 0 and only is not None and name not in only:  # the first one is what the others are measured against
            continue
        params = [torch.nn.Parameter(torch.randn(s, device=device, generator=generator)) for s in shapes_of(size)]
        for p in params:
            p.grad = torch.randn(p.shape, device=device, generator=generator)
        steps[name] = make(params).step
    for step in steps.values():
        step()
        step()
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            seconds[name].append(clock(step, device))
    return {name: statistics.median(values) for name, values in seconds.items()}


def copy_bandwidth(n_bytes: int) -> float:
    """Return the bytes a second that a plain copy on the GPU reads and writes."""
    source = torch.empty(n_bytes, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times = [clock(lambda: target.copy_(source), "cuda") for _ in range(10)]
    return 2 * n_bytes / min(times)


def main() -> None:
    """Print one line for each size and optimizer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", nargs="+", default=["cnn", "many", "1e6", "1e7"])
    parser.add_argument("--only", nargs="+", help="These beside the one that they are measured against.")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    bandwidth = copy_bandwidth(2**30) if args.device == "cuda" else None
    print(f"torch {torch.__version__}, {args.device}, {args.threads} thread(s), {args.rounds} rounds")
    for size in args.sizes:
        medians = measure(size, args.device, args.rounds, args.only)
        base = next(iter(medians.values()))
        n_entries = sum(torch.Size(s).numel() for s in shapes_of(size))
        for name, seconds in medians.items():
            n_bytes = 4 * STREAMS[name.split()[0]] * n_entries
            share = "" if bandwidth is None else f"  {n_bytes / seconds / bandwidth:5.0%} of the bandwidth"
            print(f"{size:>11}  {name:16}  {seconds * 1e6:10.0f} us  ratio {seconds / base:5.2f}{share}")


if __name__ == "__main__":
    main()
