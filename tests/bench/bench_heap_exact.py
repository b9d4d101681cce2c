#!/usr/bin/env python3
"""What `record --heap=exact` costs, beside heaptrack in the same run: CPU time of all their processes on malloc_storm; and memory a live block.

  bench_heap_exact.py [--infprof PATH] [-n ROUNDS]

Exits with 1 when a budget is broken: at most 0.6 of heaptrack's CPU time; at most 48 bytes for each block that is in use, of a program that
holds a million, beyond what a program that holds none takes.
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
TRUTH = TOP.parent / "shared" / "truth"
HOLDS = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
        long n = argc > 1 ? atol(argv[1]) : 0, pages = 0;
        void **blocks = calloc(n + 1, sizeof *blocks);
        for (long i = 0; i < n; i++)
                memset(blocks[i] = malloc(24), 1, 24);
        FILE *file = fopen("/proc/self/statm", "r");
        if (!file || fscanf(file, "%*d %ld", &pages) != 1)
                return 1;
        printf("%ld\\n", pages * 4096);
        return 0;
}
"""


def run(words):
    """(CPU seconds of the command and its children, its output)"""
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(map(str, words))} failed:\n{text}")
    return usage.ru_utime + usage.ru_stime, text


def build(work, name, source):
    subprocess.run(["gcc", "-O2", "-g", "-std=gnu17", "-D_GNU_SOURCE", source, "-o", work / name, "-pthread"], check=True)
    return work / name


def exact(options, output, *program):
    return [options.infprof, "record", "--heap=exact", "--no-snapshots", "-o", output, "--", *program]


def compare_cpu(options, work):
    if not shutil.which("heaptrack") or not (TRUTH / "malloc_storm.c").exists():
        print(f"heaptrack or {TRUTH} is not here: no comparison")
        return False
    program = build(work, "malloc_storm", TRUTH / "malloc_storm.c")
    ways = {"alone": lambda i: [program], "exact": lambda i: exact(options, work / f"run-{i}", program),
            "heaptrack": lambda i: ["heaptrack", "-o", work / f"heaptrack-{i}", program]}
    seconds = {way: [] for way in ways}
    pairs = {way: [] for way in ways}
    for i in range(options.n):
        for way in ways if i % 2 else reversed(ways):
            cpu, text = run(ways[way](i))
            seconds[way].append(cpu)
            pairs[way].append(float(re.search(r"ns_per_pair ([\d.]+)", text).group(1)))
    ratios = sorted(a / b for a, b in zip(seconds["exact"], seconds["heaptrack"]))
    ratio = statistics.median(ratios)
    print(f"malloc_storm: exact takes {ratio:.3f} [{ratios[0]:.3f}, {ratios[-1]:.3f}] of heaptrack's CPU time, {options.n} pairs; budget 0.6"
          f"{'  over budget' if ratio > 0.6 else ''}")
    for way in ways:
        print(f"  {way}: {statistics.median(seconds[way]):.2f} s of CPU time in all, {statistics.median(pairs[way]):.1f} ns a pair in the program")
    return ratio > 0.6


def compare_memory(options, work):
    source = work / "holds.c"
    source.write_text(HOLDS)
    program, n = build(work, "holds", source), 1_000_000

    def resident(words):
        return int(re.search(r"^\d+$", run(words)[1], re.M).group(0))

    own = resident([program, str(n)]) - resident([program])
    with_us = resident(exact(options, work / "holds-run", program, str(n))) - resident(exact(options, work / "none-run", program))
    each = (with_us - own) / n
    print(f"memory: {each:.1f} bytes for each of {n:,} blocks that are in use; budget 48{'  over budget' if each > 48 else ''}")
    return each > 48


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infprof", default=str(TOP / "build" / "infprof"))
    parser.add_argument("-n", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        broken = compare_cpu(options, pathlib.Path(work))
        broken |= compare_memory(options, pathlib.Path(work))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
