#!/usr/bin/env python3
"""What all sources cost together: an engine whose page of 50 kB has 300 series that change, and 50 containers.

  bench_sources.py [--infprof PATH] [-s SECONDS] [-r ROUNDS] [--segments SECONDS] [--hour SECONDS] [--json FILE]

CPU and memory are those of real recordings (infprof's own threads), the median of ROUNDS interleaved rounds, each of which
runs all cases one after the other; live segments are those of one recording of --segments seconds, which a flush more or less
does not change; the size of finished tables is that of a synthetic hour whose every value is another (make_rows.c). Exit code
1 when a budget is broken (design: section 7; issue 4: section 5).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from bench_cost import end_on_sigterm, measure, size_of
from bench_query import make_rows_program
from containers import Containers
from fake_engine import FakeEngine

N_CONTAINERS, CHANGING = 50, 300
CORE, RSS_MIB = 0.006, 25          # all sources
LIVE_MIB_H, FINISHED_MIB_H = 60, 10  # tree of 20, 300 engine series


def cases(url):
    """name: (options, checks CPU and memory)"""
    return {
        "no engine": (["--engine", "off"], False),
        "engine": (["--engine", url], False),
        "all, no snapshots": (["--engine", url, "--containers", "--no-snapshots"], False),
        "all": (["--engine", url, "--containers"], True),
    }


def synthetic_hour(infprof, seconds):
    with tempfile.TemporaryDirectory(prefix="infprof-bench-") as output:
        subprocess.run([make_rows_program(), "hour", output, str(seconds)], check=True)
        run = next(pathlib.Path(output).glob("*.infprof"))
        live = size_of(run)
        subprocess.run([infprof, "finish", "-r", output], check=True, stdout=subprocess.DEVNULL)
        return {"live_mib_h": live / 2**20 * 3600 / seconds, "finished_mib_h": size_of(run) / 2**20 * 3600 / seconds}


def record(infprof, options):
    with FakeEngine(changing=CHANGING) as url, Containers(N_CONTAINERS) as n_containers:
        if not n_containers:
            print("without containers: they need root and control groups that may be written")
        named = cases(url)
        results = {name: [] for name in named}
        for _ in range(options.rounds):
            for name, (flags, *_) in named.items():
                results[name].append(measure(infprof, ["-t", "1000", *flags], options.seconds))
    return named, {name: {key: statistics.median(result[key] for result in rows) for key in rows[0]} for name, rows in results.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infprof", default="build/infprof")
    parser.add_argument("-s", "--seconds", type=float, default=15)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("--segments", type=float, default=120, help="seconds of the recording whose segments count")
    parser.add_argument("--hour", type=int, default=3600, help="seconds of the synthetic hour")
    parser.add_argument("--json")
    options = parser.parse_args()
    infprof = os.path.abspath(options.infprof)
    end_on_sigterm()
    named, figures = record(infprof, options)
    with FakeEngine(changing=CHANGING) as url:
        live = measure(infprof, ["-t", "1000", "--no-snapshots", "--engine", url], options.segments)
    hour = synthetic_hour(infprof, options.hour)
    broken = []

    def check(what, value, budget, unit):
        if value > budget:
            broken.append(f"{what}: {value:.3f} {unit}, {budget} {unit} are allowed")

    for name, figure in figures.items():
        print(f"{name:20s} {100 * figure['core_share']:6.3f} % of a core (user {100 * figure['user_share']:.0f} %), "
              f"{figure['rss_mib']:5.1f} MiB peak, {figure['segments_mib_h']:6.1f} MiB/h of segments, "
              f"{figure['all_mib_h']:7.1f} with snapshots")
        if named[name][1]:
            check(name, 100 * figure["core_share"], 100 * CORE, "% of a core")
            check(name, figure["rss_mib"], RSS_MIB, "MiB of memory")
    print(f"engine, {options.segments:.0f} s: {live['segments_mib_h']:.1f} MiB/h of live segments")
    check("engine", live["segments_mib_h"], LIVE_MIB_H, "MiB/h of live segments")
    print(f"a synthetic hour of it: {hour['live_mib_h']:.1f} MiB/h of live segments, {hour['finished_mib_h']:.1f} MiB/h finished")
    check("a synthetic hour", hour["finished_mib_h"], FINISHED_MIB_H, "MiB/h of finished tables")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({**figures, "segments": live, "hour": hour}, file, indent=1)
    for line in broken:
        print("over budget:", line)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
