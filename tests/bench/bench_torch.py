#!/usr/bin/env python3
"""What infprof.torch costs a PyTorch program: CPU time of its thread, in blocks of steps of one process, each way beside a block without.

  bench_torch.py [--infprof PATH] [-n ROUNDS] [--ways WAY...]

Programs: decoding of ../shared/fixtures/workloads/torch_infer.py (53 modules in 5 ms or so), and 100 modules of 1 ms. Ways: `default`
(--torch), `all` (all modules of every step), `variables` (the same, with argument, weight and output of each module), and beside them
torch.profiler and cProfile. Rows go into a ring that nobody empties.

Exits with 1 when a budget is broken: default at most 1 %, all at most 5 %, variables at most 10 % on the modules of 1 ms.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = TOP.parent / "shared" / "fixtures" / "workloads"
PYTHON = "/usr/bin/python3"
WAYS = ("default", "all", "variables", "torch.profiler", "cProfile")
BUDGETS = {("infer", "default"): 1.01, ("modules", "default"): 1.01, ("modules", "all"): 1.05, ("modules", "variables"): 1.10}
NAMES = {"infer": "torch_infer.py, decoding", "modules": "100 modules of 1 ms"}


def calibrated(torch):
    """A product of matrices that takes 1 ms."""
    import time

    n = 64
    while True:
        a = torch.ones(n, n)
        times = []
        for _ in range(20):
            begin = time.thread_time()
            torch.mm(a, a)
            times.append(time.thread_time() - begin)
        if statistics.median(times) >= 0.001:
            return n
        n = n * 9 // 8


def model_of(name, torch):
    """(what runs one step, steps of a block)"""
    from torch import nn

    if name == "infer":
        sys.path.insert(0, str(WORKLOADS))
        import torch_infer

        model, ids, caches = torch_infer.CausalLM().eval(), torch.zeros(1, 1, dtype=torch.int64), []

        def step():
            if len(caches) == 0 or caches[0]["k"].shape[2] > 64:
                caches[:] = [{} for _ in range(4)]
            model(ids, caches)

        return step, 200

    class Product(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.eye(n))

        def forward(self, x):
            return torch.mm(x, self.weight)

    n = calibrated(torch)
    model, x = nn.Sequential(*(Product(n) for _ in range(100))), torch.ones(n, n)
    return lambda: model(x), 25


def measure(name, ways, rounds):
    """In the program: the ratios of each way to its neighbour without, as JSON."""
    import time

    import torch

    import infprof

    torch.set_num_threads(1)
    step, steps = model_of(name, torch)

    def block():
        begin = time.thread_time()
        with torch.no_grad():
            for _ in range(steps):
                step()
        return (time.thread_time() - begin) / steps

    def with_way(way):
        if way == "torch.profiler":
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
                return block()
        if way == "cProfile":
            import cProfile

            with cProfile.Profile():
                return block()
        if way == "variables":
            infprof.enable_variables("*:x,weight,output")
        infprof.enable_torch_profiling(**({} if way == "default" else {"every": 1, "budget": None}))
        step()  # by which the model is found
        try:
            return block()
        finally:
            infprof.disable_torch_profiling()
            infprof.disable_variables()

    block()
    ratios, bare = {way: [] for way in ways}, []
    for _ in range(rounds):
        for way in random.sample(ways, len(ways)):
            if random.random() < 0.5:
                without, taken = block(), with_way(way)
            else:
                taken = with_way(way)
                without = block()
            ratios[way].append(taken / without)
            bare.append(without)
    print(json.dumps({"ratios": ratios, "step_s": statistics.median(bare)}))


def interval(values):
    """Of the median, by order statistics: 95 % or nearly so from 6 values on."""
    ordered, n = sorted(values), len(values)
    below, k = 1 / 2**n, 0
    total = below
    while total <= 0.025:
        k += 1
        below = below * (n - k + 1) / k
        total += below
    return statistics.median(ordered), ordered[max(k - 1, 0)], ordered[n - max(k, 1)]


def compare(options, name):
    broken = False
    environment = {key: value for key, value in os.environ.items() if key not in ("INFPROF_TORCH", "PROBING_TORCH_PROFILING")}
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as rings:
        environment.update(INFPROF_RING=rings, PYTHONPATH=str(pathlib.Path(options.infprof).resolve().parent / "python"))
        words = [PYTHON, __file__, "--measure", name, "-n", str(options.n), "--ways", *options.ways]
        found = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout.splitlines()[-1])
    print(f"{NAMES[name]}: a step takes {found['step_s'] * 1e3:.2f} ms of CPU time", flush=True)
    for way, ratios in found["ratios"].items():
        ratio, low, high = interval(ratios)
        budget = BUDGETS.get((name, way))
        over = budget is not None and low > budget  # what noise alone explains breaks nothing
        broken |= over
        print(f"  {way:14} {ratio:.4f} [{low:.4f}, {high:.4f}] of that without, {len(ratios)} pairs"
              f"{f'; budget {budget}' if budget else ''}{'  over budget' if over else ''}", flush=True)
    return broken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infprof", default=str(TOP / "build" / "infprof"))
    parser.add_argument("-n", type=int, default=10, help="rounds")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--measure", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.ways, options.n)
        return 0
    if subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode:
        print("no python3-torch: no figures of it")
        return 0
    broken = False
    for name in NAMES:
        if name == "infer" and not WORKLOADS.exists():
            print(f"{WORKLOADS} is not here: no torch_infer.py")
            continue
        broken |= compare(options, name)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
