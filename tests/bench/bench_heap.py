#!/usr/bin/env python3
"""What `record --heap` costs a program: CPU time that it counts itself, in interleaved rounds, beside the same recording without --heap.

  bench_heap.py [--infprof PATH] [-n ROUNDS] [--samples]

Then what one sample costs, with its free: of programs each of whose blocks is sampled, the least of 40 rounds of 500, less that of the same
without --heap. The same of an mmap and its munmap that are not sampled, beside few and many other mappings.

Exits with 1 when a budget is broken: malloc_storm (two threads that do little but allocate) at most 1.05 times with a sample each 512 KiB,
1.13 times each 64 KiB.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
TRUTH = TOP.parent / "shared" / "truth"
WAYS = (("record", None, 0), ("512K", "--heap=512K", 1.05), ("64K", "--heap=64K", 1.13), ("64K or more", "--heap", 0))
PYTHON = """\
import json, time
for i in range(%d):
    json.dumps([str(k) * 20 for k in range(2000)])
print(json.dumps({"cpu_s": time.process_time()}))
"""
# Each block of 60,000 bytes is a sample, under so many frames.
SAMPLES_C = """\
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static void *volatile block;
__attribute__((noinline)) void deep(int depth) { if (depth) deep(depth - 1); else { block = malloc(60000); free(block); } __asm__ volatile(""); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char **argv) {
        double least = 1e9;
        deep(atoi(argv[argc - 1]));
        usleep(500000); /* there are unwind tables by then */
        for (int round = 0; round < 40; round++, usleep(20000)) {
                double begin = now();
                for (int i = 0; i < 500; i++)
                        deep(atoi(argv[argc - 1]));
                least = now() - begin < least ? now() - begin : least;
        }
        printf("{\\"cpu_s\\": %.9f}\\n", least / 500 / 1e9);
        return 0;
}
"""
# Every other page is a mapping of its own, so that each has to be known by itself.
MAPPINGS_C = """\
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static char *map(void *at) { return mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char **argv) {
        char *room = mmap(NULL, 1 << 26, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        double least = 1e9;
        for (int i = 0; i < atoi(argv[argc - 1]); i++)
                map(room + i * 8192);
        usleep(500000);
        for (int round = 0; round < 40; round++, usleep(20000)) {
                double begin = now();
                for (int i = 0; i < 500; i++)
                        munmap(map(room + (1 << 25)), 4096);
                least = now() - begin < least ? now() - begin : least;
        }
        printf("{\\"cpu_s\\": %.9f}\\n", least / 500 / 1e9);
        return 0;
}
"""
SAMPLES_PYTHON = """\
import json, sys, time
def deep(depth):
    if depth:
        return deep(depth - 1)
    begin = time.thread_time_ns()
    for i in range(500):
        bytearray(60000)
    return time.thread_time_ns() - begin
deep(1)
time.sleep(0.5)
rounds = [(deep(int(sys.argv[1])), time.sleep(0.02)) for i in range(40)]
print(json.dumps({"cpu_s": min(rounds)[0] / 500 / 1e9}))
"""


def cpu_of(options, output, option, program):
    """Seconds, as the program says; samples that were taken."""
    words = [options.infprof, "record", *([option] if option else []), "--no-snapshots", "--no-finish", "-o", output, "--", *program]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return next(json.loads(line)["cpu_s"] for line in done.stdout.splitlines() if line.startswith("{"))


def compare(options, work, name, program, has_budget):
    seconds = {way: [] for way, _, _ in WAYS}
    for i in range(options.n):
        for way, option, _ in WAYS if i % 2 else WAYS[::-1]:
            seconds[way].append(cpu_of(options, os.path.join(work, f"{name}-{way}-{i}"), option, program))
    broken = False
    for way, _, budget in WAYS[1:]:
        ratios = sorted(a / b for a, b in zip(seconds[way], seconds["record"]))
        ratio = statistics.median(ratios)
        over = has_budget and budget and ratio > budget
        broken |= over
        print(f"{name}: a sample each {way}: {ratio:.3f} [{ratios[0]:.3f}, {ratios[-1]:.3f}] of the CPU time without, {options.n} pairs"
              f"{f'; budget {budget}' if has_budget and budget else ''}{'  over budget' if over else ''}", flush=True)
    return broken


def difference(options, work, option, command):
    """ns: the least of three recordings with the option, less the least without."""
    with_it, without = (min(cpu_of(options, os.path.join(work, "one"), one, command) for _ in range(3)) for one in (option, None))
    return (with_it - without) * 1e9


def compile_c(work, name, text):
    subprocess.run(["gcc", "-O2", "-x", "c", "-", "-o", os.path.join(work, name)], input=text, text=True, check=True)
    return os.path.join(work, name)


def one_sample(options, work):
    for name, command in (("C", [compile_c(work, "samples", SAMPLES_C)]), ("Python", ["/usr/bin/python3", "-c", SAMPLES_PYTHON])):
        for depth in (1, 40):
            cost = difference(options, work, "--heap=1K", [*command, str(depth)])
            print(f"a sample and its free, {name}, {depth} calls deep: {cost:.0f} ns", flush=True)


def one_mapping(options, work):
    program = compile_c(work, "mappings", MAPPINGS_C)
    for others in (10, 3000):
        print(f"mmap and munmap beside {others:,} others: {difference(options, work, '--heap=1G', [program, str(others)]):.0f} ns", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infprof", default=str(TOP / "build" / "infprof"))
    parser.add_argument("-n", type=int, default=11)
    parser.add_argument("--samples", action="store_true", help="only what one sample and one mapping cost")
    options = parser.parse_args()
    broken = False
    with tempfile.TemporaryDirectory() as work:
        if options.samples:
            one_sample(options, work)
            one_mapping(options, work)
            return 0
        if (TRUTH / "malloc_storm.c").exists():
            storm = os.path.join(work, "malloc_storm")
            subprocess.run(["gcc", "-O2", "-g", "-std=gnu17", "-D_GNU_SOURCE", TRUTH / "malloc_storm.c", "-o", storm, "-pthread"], check=True)
            broken |= compare(options, work, "malloc_storm", [storm], True)
        else:
            print(f"{TRUTH} is not here: no malloc_storm")
        broken |= compare(options, work, "python", ["/usr/bin/python3", "-c", PYTHON % 300], False)
        broken |= compare(options, work, "python, longer", ["/usr/bin/python3", "-c", PYTHON % 5000], False)
        one_sample(options, work)
        one_mapping(options, work)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
