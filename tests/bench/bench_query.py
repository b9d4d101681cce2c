#!/usr/bin/env python3
"""Reading: group-by over 10 million rows, finish and report of a synthetic day, the page of an hour and of that day.

  bench_query.py [--infprof PATH] [--rows N] [--seconds N] [-r ROUNDS] [--json FILE]

The runs are made by tests/bench/make_rows.c through the store. CPU time of the whole process is what counts, the
best of ROUNDS; the budget of design section 7 is the group-by's. Exit code 1 when it is broken.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
GROUPS, BUDGET_S, BUDGET_ROWS = 20000, 0.6, 10_000_000

QUERIES = {
    "group by 20,000 ids": "SELECT function, sum(weight), count(*) FROM samples GROUP BY function ORDER BY 2 DESC LIMIT 10",
    "group by 20,000 names": "SELECT name, sum(weight), count(*) FROM samples GROUP BY name ORDER BY 2 DESC LIMIT 10",
    "one second of rows": "SELECT count(*), sum(weight) FROM samples WHERE t_ns >= 5000000000 AND t_ns < 6000000000",
    "count(*)": "SELECT count(*) FROM samples",
}


def run(words):
    """CPU seconds, peak resident MiB of that child, output."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(words, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode:
            sys.exit(f"{' '.join(map(str, words))}: {err.read().decode()}")
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.read().decode()


def best(words, rounds):
    return min((run(words) for _ in range(rounds)), key=lambda result: result[0])


def make_rows_program():
    """Only builds with tests have it."""
    subprocess.run([TOP / "tools" / "build", "build-gcc", "tests/bench/make_rows"], check=True, stdout=subprocess.DEVNULL)
    return TOP / "build-gcc" / "tests" / "bench" / "make_rows"


def size_of(directory):
    return sum(path.stat().st_size for path in pathlib.Path(directory).rglob("*") if path.is_file())


def check_groups(infprof, output, rows):
    """The answer itself: every row in one group, all groups there."""
    _, _, out = run([infprof, "query", "-r", output, "-f", "tsv", "SELECT count(*), sum(n) FROM (SELECT count(*) AS n FROM samples GROUP BY name)"])
    groups, total = map(int, out.splitlines()[1].split("\t"))
    if total != rows or (rows >= BUDGET_ROWS and groups != GROUPS):
        sys.exit(f"{groups} groups of {total} rows instead of {GROUPS} of {rows}")


def bench_samples(infprof, program, rows, rounds):
    with tempfile.TemporaryDirectory(prefix="infprof-bench-") as output:
        subprocess.run([program, "samples", output, str(rows)], check=True)
        live = size_of(output)
        finish, rss, _ = run([infprof, "finish", "-r", output])
        figures = {"rows": rows, "arrow_bytes": live, "parquet_bytes": size_of(output), "finish_cpu_s": finish, "finish_rss_mib": rss}
        check_groups(infprof, output, rows)
        for name, sql in QUERIES.items():
            figures[name] = best([infprof, "query", "-r", output, sql], rounds)[0]
    return figures


def bench_page(infprof, output, rounds):
    """CPU seconds, peak resident MiB and bytes of the page."""
    cpu, rss, out = best([infprof, "report", "--html", "-r", output, "-o", "-"], rounds)
    return {"page_cpu_s": cpu, "page_rss_mib": rss, "page_bytes": len(out.encode())}


def bench_hour(infprof, program, rounds):
    """An engine, containers, GPUs, 60 processes, 14,400 requests and as many spans: what a page draws at most."""
    with tempfile.TemporaryDirectory(prefix="infprof-bench-") as output:
        subprocess.run([program, "page", output, "3600"], check=True)
        return bench_page(infprof, output, rounds)


def bench_day(infprof, program, seconds, rounds):
    with tempfile.TemporaryDirectory(prefix="infprof-bench-") as output:
        subprocess.run([program, "day", output, str(seconds)], check=True)
        live = size_of(output)
        finish, rss, _ = run([infprof, "finish", "-r", output])
        report, report_rss, _ = best([infprof, "report", "-r", output], rounds)
        series, _, out = best([infprof, "query", "-r", output, "-f", "tsv", "SELECT count(*) FROM timeseries"], rounds)
        if int(out.splitlines()[1]) != seconds:
            sys.exit(f"the time series of {seconds} ticks has {out.splitlines()[1]} rows")
        return {"seconds": seconds, "arrow_bytes": live, "parquet_bytes": size_of(output), "finish_cpu_s": finish, "finish_rss_mib": rss,
                "report_cpu_s": report, "report_rss_mib": report_rss, "count_timeseries_cpu_s": series, **bench_page(infprof, output, rounds)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infprof", default="build/infprof")
    parser.add_argument("--rows", type=int, default=BUDGET_ROWS)
    parser.add_argument("--seconds", type=int, default=86400)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    infprof, program = os.path.abspath(options.infprof), make_rows_program()
    samples = bench_samples(infprof, program, options.rows, options.rounds)
    day = bench_day(infprof, program, options.seconds, options.rounds)
    hour = bench_hour(infprof, program, options.rounds)
    print(f"{samples['rows']:,} rows: {samples['arrow_bytes'] / 2**20:.0f} MiB Arrow, {samples['parquet_bytes'] / 2**20:.0f} MiB Parquet, "
          f"finished in {samples['finish_cpu_s']:.1f} s CPU and {samples['finish_rss_mib']:.0f} MiB")
    for name in QUERIES:
        print(f"  {name:24s} {samples[name]:6.2f} s CPU{f', budget {BUDGET_S} s' if name.startswith('group') else ''}")
    print(f"{day['seconds']:,} s at 1 Hz: {day['arrow_bytes'] / 2**20:.0f} MiB Arrow, {day['parquet_bytes'] / 2**20:.0f} MiB finished, in "
          f"{day['finish_cpu_s']:.1f} s CPU and {day['finish_rss_mib']:.0f} MiB; report {day['report_cpu_s']:.2f} s CPU, "
          f"{day['report_rss_mib']:.0f} MiB")
    for what, page in (("an hour", hour), ("that day", day)):
        print(f"page of {what}: {page['page_cpu_s']:.2f} s CPU, {page['page_rss_mib']:.0f} MiB, {page['page_bytes'] / 1e6:.2f} MB written")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"samples": samples, "day": day, "hour": hour}, file, indent=1)
    broken = [name for name in QUERIES if name.startswith("group") and samples[name] > BUDGET_S]
    for name in broken:
        print(f"over budget: {name} took {samples[name]:.2f} s CPU, {BUDGET_S} s are allowed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
