#!/usr/bin/env python3
"""What a recording costs: own CPU and memory beside 500 processes, bytes an hour, the start, the child's delay.

  bench_cost.py [--infprof PATH] [-n PROCESSES] [-s SECONDS] [-r ROUNDS] [--only WORD] [--json FILE]

Budgets (design: section 7) are checked on CPU time and memory, by the scheduler's clock of infprof's own threads; the median
of ROUNDS interleaved rounds counts. Wall-clock figures are printed and fail nothing. Exit code 1 when a budget is broken.
"""
import argparse
import glob
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TREE = ["sh", "-c", "for i in $(seq 19); do sleep 3600 & done; wait"]
# 20 processes of 8 threads, all of which run some 25 times a second.
WORK = "import threading, time\ndef work():\n    while True: time.sleep(0.04)\n[threading.Thread(target=work).start() for _ in range(7)]\nwork()"
BUSY = ["sh", "-c", f"for i in $(seq 20); do '{sys.executable}' -c '{WORK}' & done; wait"]
# name: (options, budget of a core, of peak RSS in MiB, of live segments in MiB an hour, the command)
CASES = {
    "1 Hz, tree of 20": (["-t", "1000"], 0.003, 20, 60, TREE),
    "20 Hz, tree of 20": (["-t", "50"], 0.03, 20, None, TREE),
    "1 Hz, -p": (["-t", "1000", "-p"], 0.010, None, None, TREE),
    "20 Hz, -p": (["-t", "50", "-p"], None, None, None, TREE),
    "1 Hz, 160 threads": (["-t", "1000"], None, None, None, BUSY),
    "20 Hz, 160 threads": (["-t", "50"], None, None, None, BUSY),
}
WARM_S = 8  # the first flush, which writes what is written once, comes after 5 s, later where the machine is busy
# Outputs stay until the end (up to 1 GB): making a file, ext4 looks at each inode that was deleted within the last minutes, which
# was a fifth of the recorder's own thread at 20 Hz behind another case at 20 Hz.
OUTPUTS = tempfile.TemporaryDirectory(prefix="infprof-bench-")


def cpu_ns(pid):
    """Nanoseconds on a CPU of all threads of one process, and the largest it was resident."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path) as file:
            total += int(file.read().split()[0])
    with open(f"/proc/{pid}/status") as file:
        peak = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) * 1024
    return total, peak


def user_share(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    user, system = int(fields[11]), int(fields[12])
    return user / max(1, user + system)


def size_of(directory):
    return sum(os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(directory) for name in names)


def segments_of(output):
    return sum(size_of(path) for path in glob.glob(output + "/*.infprof"))


def end_on_sigterm():
    """Ended from outside, a bench still ends what it started and removes what it made."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def figures_of(pid, output, seconds):
    time.sleep(WARM_S)
    before, _ = cpu_ns(pid)
    bytes_before, segments_before = size_of(output), segments_of(output)
    began = time.monotonic()
    time.sleep(seconds)
    after, peak = cpu_ns(pid)
    took = time.monotonic() - began
    mib_per_hour = 3600 / took / 2**20
    return {"core_share": (after - before) / 1e9 / took, "rss_mib": peak / 2**20, "user_share": user_share(pid),
            "all_mib_h": (size_of(output) - bytes_before) * mib_per_hour,
            "segments_mib_h": (segments_of(output) - segments_before) * mib_per_hour}


def measure(infprof, options, seconds, command=TREE):
    output = tempfile.mkdtemp(dir=OUTPUTS.name)
    # A registry of its own: whoever else reads or loads on this machine would find this recording, and make it flush each second.
    process = subprocess.Popen([infprof, "record", "-o", output, "--no-finish", *options, "--", *command],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                               env={**os.environ, "XDG_RUNTIME_DIR": output})
    try:
        return figures_of(process.pid, output, seconds)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def wall_of(words):
    began = time.monotonic()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def measure_start(infprof, rounds):
    """How much later a child ends under infprof, and how long infprof takes until it has started it."""
    delays, starts = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as output:
            bare = wall_of(["sh", "-c", "date +%s%N > /dev/null"])
            began = time.clock_gettime_ns(time.CLOCK_REALTIME)
            done = subprocess.run([infprof, "record", "-o", output, "--no-finish", "--", "date", "+%s%N"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
            starts.append((int(done.stdout) - began) / 1e6)
            delays.append((wall_of([infprof, "record", "-o", output, "--no-finish", "--", "sh", "-c", "date > /dev/null"]) - bare) * 1e3)
    return {"start_to_child_ms": statistics.median(starts), "whole_run_more_ms": statistics.median(delays)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infprof", default="build/infprof")
    parser.add_argument("-n", "--processes", type=int, default=500)
    parser.add_argument("-s", "--seconds", type=float, default=15)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="the cases whose names have this word")
    parser.add_argument("--json")
    options = parser.parse_args()
    cases = {name: case for name, case in CASES.items() if options.only in name}
    end_on_sigterm()
    infprof = os.path.abspath(options.infprof)
    crowd = subprocess.Popen(["bash", "-c", f"for ((i = 0; i < {options.processes}; i++)); do sleep 3600 & done; wait"],
                             start_new_session=True)
    time.sleep(2)
    results = {name: [] for name in cases}
    try:
        for _ in range(options.rounds):
            for name, (flags, *_, command) in cases.items():
                results[name].append(measure(infprof, flags, options.seconds, command))
        start = measure_start(infprof, 7)
    finally:
        os.killpg(crowd.pid, signal.SIGKILL)
    broken, figures = [], {"processes": len(glob.glob("/proc/[0-9]*")), "start": start}
    for name, (_, core, rss, segments, _) in cases.items():
        middle = {key: statistics.median(result[key] for result in results[name]) for key in results[name][0]}
        figures[name] = middle
        print(f"{name:20s} {100 * middle['core_share']:6.3f} % of a core (user {100 * middle['user_share']:.0f} %), "
              f"{middle['rss_mib']:5.1f} MiB peak, {middle['segments_mib_h']:6.1f} MiB/h of segments, "
              f"{middle['all_mib_h']:7.1f} with snapshots"
              f"{f', budget {100 * core} %' if core else ''}")
        if core and middle["core_share"] > core:
            broken.append(f"{name}: {100 * middle['core_share']:.3f} % of a core is over the budget of {100 * core} %")
        if rss and middle["rss_mib"] > rss:
            broken.append(f"{name}: {middle['rss_mib']:.1f} MiB is over the budget of {rss} MiB")
        if segments and middle["segments_mib_h"] > segments:
            broken.append(f"{name}: {middle['segments_mib_h']:.1f} MiB/h of segments is over the budget of {segments} MiB/h")
    print(f"start to the child's first instruction {start['start_to_child_ms']:.1f} ms, whole run {start['whole_run_more_ms']:.1f} ms "
          f"longer (wall clock, without finishing)")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)
    for line in broken:
        print("over budget:", line)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
