#!/usr/bin/env python3
"""What a recording costs a real engine: its tokens a second and its CPU a token, with and without infprof, in interleaved rounds.

  bench_engine.py --pid PID --url URL [--infprof PATH] [-r ROUNDS] [-n REQUESTS] [-c STREAMS] [--json FILE]

The server of URL runs already, and PID is the root of its processes. Each round sends the same requests once without infprof, once
beside `record --pid` at 1 Hz, and once with `--cpu=99` as well, in an order that turns from round to round. The ratio of each to its
round without infprof counts; its median is printed with the least and the largest. It checks no budget: figures are the machine's.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time

MODES = {"without": None, "1 Hz": ["-t", "1000"], "1 Hz, --cpu=99": ["-t", "1000", "--cpu=99"]}
WARM_S = 3  # of the recorder, and of the sampler's tables, before requests are sent


def tree(root):
    """The pids of a process and of all that descend from it."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text(errors="replace").rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def cpu_s(pids):
    """CPU time of processes by the scheduler's clock, all threads that live."""
    total = 0
    for pid in pids:
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(path.read_text().split()[0])
            except OSError:
                continue
    return total / 1e9


def load(options, seed):
    """The requests of one round; the summary of `infprof load`."""
    done = subprocess.run([options.infprof, "load", options.url, "-c", str(options.streams), "-n", str(options.requests),
                           "--input-tokens", "64", "--output-tokens", "64", "--ignore-eos", "--seed", str(seed), "--no-record",
                           "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def measure(options, mode, seed):
    """Tokens per second, CPU seconds of the engine a token, and of infprof: its share of a core and its peak memory in MiB."""
    with tempfile.TemporaryDirectory(prefix="infprof-bench-") as output:
        recorder = None
        if MODES[mode] is not None:
            recorder = subprocess.Popen([options.infprof, "record", "-o", output, "--no-finish", "--pid", str(options.pid),
                                         *MODES[mode]], stderr=subprocess.DEVNULL, env={**os.environ, "XDG_RUNTIME_DIR": output})
            time.sleep(WARM_S)
        pids = tree(options.pid)
        own = cpu_s({recorder.pid}) if recorder else 0
        before, began = cpu_s(pids), time.monotonic()
        summary = load(options, seed)
        took = time.monotonic() - began
        result = {"tokens_s": summary["output_throughput"], "cpu_s": (cpu_s(pids) - before) / summary["total_output_tokens"]}
        if recorder:
            result["own"] = (cpu_s({recorder.pid}) - own) / took
            status = pathlib.Path(f"/proc/{recorder.pid}/status").read_text()
            result["rss_mib"] = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
            recorder.send_signal(signal.SIGINT)
            recorder.wait()
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--infprof", default="build/infprof")
    parser.add_argument("-r", "--rounds", type=int, default=6)
    parser.add_argument("-n", "--requests", type=int, default=32)
    parser.add_argument("-c", "--streams", type=int, default=4)
    parser.add_argument("--json")
    options = parser.parse_args()
    options.infprof = os.path.abspath(options.infprof)
    load(options, 0)  # what a server does once, and its prefix cache
    rounds, names = [], list(MODES)
    for number in range(options.rounds):
        turn = number % len(names)
        rounds.append({mode: measure(options, mode, number + 1) for mode in names[turn:] + names[:turn]})
        print(f"round {number + 1}: " + "; ".join(f"{mode}: {rounds[-1][mode]['tokens_s']:.1f} tokens/s, "
                                                  f"{1e3 * rounds[-1][mode]['cpu_s']:.2f} ms CPU a token" for mode in names), flush=True)
    for mode in names[1:]:
        for key, what in (("tokens_s", "tokens/s"), ("cpu_s", "CPU a token")):
            ratios = sorted(each[mode][key] / each["without"][key] for each in rounds)
            print(f"{mode}: {what} {statistics.median(ratios):.4f} of those without [{ratios[0]:.4f}, {ratios[-1]:.4f}]")
        print(f"{mode}: infprof itself {100 * statistics.median(each[mode]['own'] for each in rounds):.2f} % of a core, "
              f"{max(each[mode]['rss_mib'] for each in rounds):.1f} MiB at most")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
