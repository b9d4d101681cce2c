#!/usr/bin/env python3
"""How often `infprof compare` is wrong: real runs of one program against each other (A/A), and a planted slowdown.

  bench_compare.py [--infprof PATH] [--runs N] [--seconds S] [--replicates R] [--rounds K] [--slower PERCENT]

A/A: N runs of S seconds of wall time (bursts of 5 ms of CPU on average, a quarter of the time), each compared with the next; at most 5 % of comparisons may have a
verdict. Planted: K comparisons of R runs a side in turns, of half a second of CPU each, one side with PERCENT more; at least 95 % are found.
Runs are kept in a temporary directory. Exits with 1 when the counts are too far from that to be chance (one in a million).
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
# Bursts of random length: those of a fixed one would beat with the period of the samples.
PACED = """import random, sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    begin, burst = time.process_time(), random.expovariate(200)
    while time.process_time() - begin < burst: sum(range(500))
    time.sleep(3 * burst)
"""
BURN = "import sys\nfor i in range(int(sys.argv[1])): sum(range(2000))"
UNITS = 20000


def record(infprof, folder, *words):
    subprocess.run([infprof, "record", "-o", folder, "-t", "200", "--cpu", "--no-snapshots", "--", *map(str, words)], check=True, stderr=subprocess.DEVNULL)


def compare(infprof, *words):
    done = subprocess.run([infprof, "compare", "--json", *map(str, words)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["rows"]


def verdicts(rows):
    return [row for row in rows if row["verdict"] not in ("no evidence", "not known")]


def beyond(k, n, p):
    """Chance of k or more of n."""
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def equal_runs(options, folder):
    for _ in range(options.runs):
        record(options.infprof, folder / "equal", "python3", "-S", "-c", PACED, options.seconds)
    runs = sorted((folder / "equal").glob("*.infprof"))
    n = options.runs - 1
    false = 0
    for a, b in zip(runs, runs[1:]):
        found = verdicts(compare(options.infprof, a, b))
        false += bool(found)
        for row in found:
            print(f"  {row['name']} {row['verdict']}: {100 * row['difference']:+.1f} % ({100 * row['low']:.1f} to {100 * row['high']:.1f}), noise {100 * row['noise']:.1f}")
    print(f"equal runs of {options.seconds} s, one a side: {false} of {n} comparisons have a verdict")
    return beyond(false, n, 0.05) < 1e-6


def planted(options, folder):
    found = false = 0
    for i in range(options.rounds):
        sides = [folder / f"{i}{side}" for side in "ab"]
        for k in range(options.replicates):
            for side in sides if k % 2 else reversed(sides):
                slower = 1 + options.slower / 100 if side is sides[1] else 1
                record(options.infprof, side, "python3", "-S", "-c", BURN, round(UNITS * slower))
        rows = compare(options.infprof, "--replicates", options.replicates, *sides)
        cpu = next(row for row in rows if row["name"] == "cpu_s")
        found += cpu["verdict"] == "worse"
        print(f"  cpu_s {100 * cpu['difference']:+.2f} % ({100 * cpu['low']:+.2f} to {100 * cpu['high']:+.2f}), finds {100 * cpu['detectable']:.2f}: {cpu['verdict']}")
    print(f"{options.slower:g} % more CPU, {options.replicates} runs a side: found in {found} of {options.rounds} comparisons")
    return beyond(options.rounds - found, options.rounds, 0.05) < 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infprof", default=str(TOP / "build" / "infprof"))
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slower", type=float, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        bad = equal_runs(options, pathlib.Path(work)) if options.runs > 1 else False
        bad |= planted(options, pathlib.Path(work)) if options.rounds else False
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
