#!/usr/bin/env python3
"""What --cpu costs, one verb a measurement, each within five minutes on a quiet machine (harm: ten):

  bench_sampler.py cost        CPU of a program at 99 Hz over its own (60 interleaved pairs), at 1,000 Hz over bare-IP sampling
  bench_sampler.py own         own CPU at 1,000 Hz, symbols included; us and bytes a sample, as segments and Parquet;
                               of --wall with 4,000 threads
  bench_sampler.py inside      --python=inside, perf events refused: CPU of a Python loop over its own, and what the handler takes
  bench_sampler.py torch       on PyTorch (Debian's python3-torch): own CPU, memory, time until sampling, share of whole stacks
  bench_sampler.py python      Python frames at 1,000 Hz: a program's CPU over bare-IP sampling, plain and 200 frames deep; own CPU
  bench_sampler.py waits       --off-cpu: CPU of a switch of a program that does little else, alone, timed in BPF and by perf's records, and
                               switches a second on two CPUs; --async: own CPU beside a loop with 1,000 tasks
  bench_sampler.py deep        stacks beyond the kernel's copy: CPU of a program with them at 99 Hz, and of numpy the share that is cut,
                               own CPU, and how often a stack that is completed after its sample is wrong
  bench_sampler.py peers       perf, py-spy, Austin and Scalene beside us, in one run, on ../shared/truth's programs
  bench_sampler.py unwind      stacks equal to elfutils': torch, the demo's llama-server
  bench_sampler.py go          a Go program against its own pprof
  bench_sampler.py debug       the tests of Python's frames with debug builds of it, where set-up of bench has brought some
  bench_sampler.py harm        10,000 times attached and killed; and a busy Python 10,000 times read and stopped, beside a witness
  [--infprof PATH] [--quick] [--json FILE]

CPU time and memory have budgets (design: section 7), which fail the run; wall-clock figures are printed. Ratios are taken inside
the program, between its own clocks, in interleaved pairs: the bound is that of the median of all pairs' means (Hodges and
Lehmann), which single disturbed pairs do not move.
"""
import argparse
import errno
import glob
import json
import math
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
TRUTH = TOP.parent / "shared" / "truth"
TABLES = ("stack_samples", "stacks", "frames", "symbols", "mappings", "threads", "sampler")
DEEP = """
import json, time
def work(n):
    x = 0
    for i in range(n):
        x = (x * 5 + 1) & 0xFFFF
def down(n, units):
    return down(n - 1, units) if n else [work(600) for _ in range(units)]
down(200, UNITS)
print(json.dumps({"program": "deep", "cpu_s": time.process_time()}))
"""
SOLVE = """
import sys, threading, time
import numpy
end = time.monotonic() + float(sys.argv[1])
def attention(a, b): return a @ b
def feed_forward(a, b): return numpy.maximum(a @ b, 0)
def work():
    a = numpy.random.rand(512, 512).astype(numpy.float32)
    b = a.T.copy()
    while time.monotonic() < end:
        attention(a, b)
        feed_forward(b, a)
        numpy.linalg.solve(a + 512 * numpy.eye(512, dtype=numpy.float32), b)
threads = [threading.Thread(target=work) for _ in range(2)]
[one.start() for one in threads]
work()
[one.join() for one in threads]
"""
TORCH = """
import os, sys, time
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3), torch.nn.Flatten(),
                            torch.nn.Linear(32 * 28 * 28, 128), torch.nn.LayerNorm(128), torch.nn.GELU(), torch.nn.Linear(128, 10))
lstm = torch.nn.LSTM(64, 64)
x, y = torch.rand(4, 3, 32, 32), torch.rand(20, 4, 64)
print("ready", flush=True)
with torch.no_grad():
    while True:
        model(x).softmax(-1).argmax()
        lstm(y)
"""


class Work:
    """Programs and a folder for outputs, which stay until the end (see bench_cost.py)."""

    def __init__(self, infprof):
        self.infprof = os.path.abspath(infprof)
        self.folder = tempfile.TemporaryDirectory(prefix="infprof-bench-")
        self.path = pathlib.Path(self.folder.name)
        self.n = 0
        self.figures, self.broken = {}, []
        os.environ["XDG_RUNTIME_DIR"] = self.folder.name  # other recordings of this machine do not find ours
        os.environ.setdefault("INFPROF_LIBDUCKDB", str(TOP / ".deps" / "duckdb" / "libduckdb.so"))

    def output(self):
        self.n += 1
        return self.path / f"out-{self.n}"

    def truth(self, *names):
        subprocess.run(["make", "-s", "-C", str(TRUTH), f"OUT={self.path}", *(f"{self.path}/{name}" for name in names)], check=True)

    def tool(self, folder, name):
        """A program of ours, built where tests are; --tools names a build folder."""
        program = pathlib.Path(folder) / "tests" / name if folder else TOP / "build-gcc" / "tests" / name
        if not folder:
            subprocess.run([TOP / "tools" / "build", "build-gcc", f"tests/{name}"], check=True, stdout=subprocess.DEVNULL)
        return str(program)

    def budget(self, name, value, limit, text):
        is_over = value > limit
        print(f"{text} (budget {limit}){'  OVER' if is_over else ''}", flush=True)
        self.figures[name] = value
        if is_over:
            self.broken.append(f"{name}: {value:.5g} is over the budget of {limit}")


def own_line(text):
    return json.loads(next(line for line in text.splitlines() if line.startswith('{"program"')))


def cpu_of(words, **arguments):
    """CPU seconds of the program by its own clock."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **arguments)
    if done.returncode:
        sys.exit(f"{words[0]} failed: {done.stderr[-500:]}")
    return own_line(done.stdout)["cpu_s"]


def centre(ratios):
    """Hodges-Lehmann estimate and its 95 % interval (normal approximation of Wilcoxon's signed ranks)."""
    n = len(ratios)
    means = sorted((ratios[i] + ratios[j]) / 2 for i in range(n) for j in range(i, n))
    k = max(0, math.floor(n * (n + 1) / 4 - 1.96 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)))
    return statistics.median(means), means[k], means[-1 - k]


def said(ratio):
    return f"{ratio[0]:.4f} [{ratio[1]:.4f}, {ratio[2]:.4f}]"


def record_words(work, hz, output, *options):
    return [work.infprof, "record", "-o", output, "--no-snapshots", f"--cpu={hz}", *options]


def cost(work, options):
    work.truth("busy_split")
    program = [work.path / "busy_split", "-s", 1 if not options.quick else 0.3, "-r", 30]
    n_pairs = 60 if not options.quick else 4
    ratios = []
    for i in range(n_pairs):  # the order changes: what warms up, or slows down, favours neither
        pair = {}
        for is_sampled in ((False, True) if i % 2 else (True, False)):
            words = [*record_words(work, 99, work.output(), "--no-finish"), "--", *program] if is_sampled else program
            pair[is_sampled] = cpu_of(words)
        ratios.append(pair[True] / pair[False])
    middle = centre(ratios)
    work.budget("cost_99", middle[2], 1.005, f"99 Hz: {said(middle)} of the program's CPU alone, {n_pairs} pairs")
    work.figures["cost_99_middle"] = middle[0]
    sample_ip = work.tool(options.tools, "bench/sample_ip")
    runs = {"alone": [], "ip": [], "infprof": []}
    for i in range(20 if not options.quick else 3):
        words = {"alone": program, "ip": [sample_ip, 1000, *program],
                 "infprof": [*record_words(work, 1000, work.output(), "--no-finish"), "--", *program]}
        names = list(words)
        for name in names[i % 3:] + names[:i % 3]:
            runs[name].append(cpu_of(words[name]))
    ip = centre([b / a for a, b in zip(runs["alone"], runs["ip"])])
    ours = centre([b / a for a, b in zip(runs["alone"], runs["infprof"])])
    over = centre([b / a for a, b in zip(runs["ip"], runs["infprof"])])
    print(f"1,000 Hz: bare IP {said(ip)}, infprof {said(ours)} of the program's CPU alone")
    work.figures.update(ip_1000=ip[0], infprof_1000=ours[0])
    work.budget("cost_1000_over_ip", over[0], 1.01, f"1,000 Hz: infprof over bare IP {said(over)}")


def over_ip(work, options, name, program, limit):
    """CPU of a Python program at 1,000 Hz with its frames, and without, over bare-IP sampling."""
    sample_ip = work.tool(options.tools, "bench/sample_ip")
    runs = {"ip": [], "frames": [], "off": []}
    for i in range(20 if not options.quick else 3):
        words = {"ip": [sample_ip, 1000, *program],
                 "frames": [*record_words(work, 1000, work.output(), "--no-finish"), "--", *program],
                 "off": [*record_words(work, 1000, work.output(), "--no-finish", "--python=off"), "--", *program]}
        names = list(words)
        for one in names[i % 3:] + names[:i % 3]:
            runs[one].append(cpu_of(words[one]))
    frames, off = (centre([b / a for a, b in zip(runs["ip"], runs[one])]) for one in ("frames", "off"))
    work.figures[f"{name}_off_over_ip"] = off[0]
    work.budget(f"{name}_over_ip", frames[0], limit, f"{name}: 1,000 Hz with Python frames over bare IP {said(frames)}, without {said(off)}")


def python(work, options):
    seconds = 1 if not options.quick else 0.3
    words = ["/usr/bin/python3", TRUTH / "busy_split.py", "-s"]
    over_ip(work, options, "python", [*words, seconds], 1.015)
    over_ip(work, options, "python_deep", [words[0], "-c", DEEP.replace("UNITS", str(int(30000 * seconds)))], 1.03)
    with subprocess.Popen([*map(str, words), "1000", "-m", "recursion"], stdout=subprocess.DEVNULL) as target:
        try:
            time.sleep(1)
            output, _, _ = own_figures(work, "python_frames", target.pid, 20 if not options.quick else 4)
        finally:
            target.kill()
    last = rows_of(work, output, "SELECT max(python_merged) AS merged, max(python_unmerged) AS unmerged, max(python_torn) AS torn, "
                                 "max(python_missed) AS missed FROM sampler WHERE mode = 'cpu'")[0]
    print(f"python_frames: stacks {last}")
    bad = (last["unmerged"] + last["torn"] + last["missed"]) / max(1, sum(last.values()))
    work.budget("python_unmerged", 100 * bad, 0.1, f"python_frames: {100 * bad:.3f} % of Python's stacks without their frames")


def waits(work, options):
    """CPU time of a switch on one CPU, and how many there are a second on two."""
    sys.path.insert(0, str(TOP / "tests" / "e2e"))
    from refuse import BPF, refused
    program = work.path / "ping_pong"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, TOP / "tests" / "e2e" / "ping_pong.c"], check=True)
    rounds = 10 if not options.quick else 2
    for cpus, n in (("0", 50000), ("0,1", 50000)):
        words = ["taskset", "-c", cpus, program, n if not options.quick else n // 10]
        cpu, rate = ({"alone": [], "BPF": [], "perf": []} for _ in range(2))
        for i in range(rounds):
            for way in list(cpu)[i % 3:] + list(cpu)[:i % 3]:
                recorded = [work.infprof, "record", "-o", work.output(), "--off-cpu", "--no-finish", "--no-snapshots", "--"]
                done = subprocess.run([str(word) for word in (words if way == "alone" else [*recorded, *words])], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True, check=True,
                                      preexec_fn=refused([BPF], errno.EPERM) if way == "perf" else None)
                line = own_line(done.stdout)
                cpu[way].append(1e6 * line["cpu_s"] / line["switches"])
                rate[way].append(line["switches"] / line["wall_s"])
        for way in cpu:
            print(f"--off-cpu, CPUs {cpus}, {way}: {statistics.median(cpu[way]):.2f} us of CPU a switch [{min(cpu[way]):.2f}, {max(cpu[way]):.2f}], "
                  f"{statistics.median(rate[way]):,.0f} switches a second, {rounds} rounds", flush=True)
        work.figures[f"off_cpu_{cpus}"] = {"us": cpu, "rate": rate}
    tasks = ("import asyncio\nasync def wait(): await asyncio.sleep(1000)\nasync def main():\n"
             "    tasks = [asyncio.create_task(wait()) for _ in range(1000)]\n    await asyncio.sleep(0)\n    print('ready', flush=True)\n"
             "    while True: await asyncio.sleep(0.01)\nasyncio.run(main())")
    over_recording(work, "async_1000", tasks, ["--async"], 10 if not options.quick else 4, "--async of a loop with 1,000 tasks")


def deep(work, options):
    program = work.path / "cpu_deep"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, TOP / "tests" / "e2e" / "cpu_deep.c"], check=True)
    words = [program, "-f", 150000, "-n", 1000 if not options.quick else 200]
    ways = {"alone": None, "off": ["--deep-stacks=off"], "after": ["--deep-stacks=after"], "auto": [], "auto, copies of 16 KiB": ["--stack-size=16K"]}
    runs = {name: [] for name in ways}
    for i in range(15 if not options.quick else 2):
        names = list(ways)
        for name in names[i % 5:] + names[:i % 5]:
            way = ways[name]
            runs[name].append(cpu_of(words if way is None else [*record_words(work, 99, work.output(), "--no-finish", *way), "--", *words]))
    for name in list(ways)[1:]:
        print(f"150 KB of stack, 99 Hz, {name}: {said(centre([b / a for a, b in zip(runs['alone'], runs[name])]))} of the program's CPU alone")
    seconds = 10 if not options.quick else 3
    for name, way in [("off", ["--deep-stacks=off"]), ("after", ["--deep-stacks=after"]), ("auto", [])]:
        output = work.output()
        done = subprocess.run([str(word) for word in [*record_words(work, 99, output, *way), "--", sys.executable, "-c", SOLVE, seconds]],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"numpy failed: {done.stderr[-500:]}")
        last = rows_of(work, output, "SELECT taken, truncated, deep, completed, moved, own_cpu_ns FROM sampler WHERE mode = 'cpu' ORDER BY t_ns DESC LIMIT 1")[0]
        late = rows_of(work, output, "SELECT avg(is_truncated::INT) AS cut FROM stack_samples WHERE t_ns > (SELECT min(t_ns) + 3000000000 FROM stack_samples)")[0]["cut"]
        work.figures[f"deep_{name}"] = last
        print(f"numpy, {name}: {100 * last['truncated'] / last['taken']:.1f} % of {last['taken']} stacks cut, {100 * (late or 0):.1f} % after 3 s; "
              f"{last['deep']} deep, {last['completed']} completed, {last['moved']} moved; sampling threads {last['own_cpu_ns'] / 1e7 / seconds:.2f} % of a core")
    done = subprocess.run([str(word) for word in [*record_words(work, 997, work.output(), "--no-finish"), "--", sys.executable, "-c", SOLVE, 2 * seconds]],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "INFPROF_DEBUG": "1"})
    found = re.search(r"stacks: (\d+) were completed beside their rest of the same moment, (\d+) of them differ", done.stderr)
    if not found:
        print("no BPF program is permitted here: stacks that are completed after their samples have nothing to be compared with")
        return
    n, wrong = int(found[1]), int(found[2])
    work.budget("deep_wrong", 100 * wrong / n, 0.1, f"numpy: of {n} stacks that were completed after their samples {wrong} have wrong callers ({100 * wrong / n:.3f} %)")


def tree_cpu_after(process):
    """CPU seconds of an ended child and of what it waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def rows_of(work, output, sql):
    done = subprocess.run([work.infprof, "query", "-r", str(output), "-f", "json", sql], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode:
        sys.exit(f"query failed: {done.stderr}")
    return json.loads(done.stdout)


def bytes_of(output, tables, suffix):
    return sum(os.path.getsize(path) for table in tables for path in glob.glob(f"{output}/*.infprof/{table}/*{suffix}"))


def attached(work, pid, hz, seconds, output, *options):
    """Records a running process: CPU seconds of all of infprof, its peak memory, when its first sample was."""
    began = time.monotonic_ns()
    process = subprocess.Popen([str(word) for word in record_words(work, hz, output, "--duration", seconds, *options, "--pid", pid)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak, anonymous = 0, 0
    end = time.monotonic() + seconds - 0.2
    while time.monotonic() < end:
        time.sleep(0.1)
        try:
            with open(f"/proc/{process.pid}/status") as file:
                text = file.read()
            peak = max(peak, int(re.search(r"VmHWM:\s+(\d+)", text)[1]) * 1024)
            anonymous = max(anonymous, int(re.search(r"RssAnon:\s+(\d+)", text)[1]) * 1024)
        except (OSError, TypeError):
            break
    return {"own_cpu_s": tree_cpu_after(process), "peak": peak, "anonymous": anonymous, "began": began}


def own_figures(work, name, pid, seconds, hz=1000, *options):
    """Own CPU of two recordings of a process, with and without --cpu: what sampling takes is the difference."""
    output, bare = work.output(), work.output()
    got = attached(work, pid, hz, seconds, output, *options)
    words = [work.infprof, "record", "-o", bare, "--no-snapshots", "--duration", seconds, "--pid", pid]
    without = tree_cpu_after(subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    last = rows_of(work, output, "SELECT max(taken) AS taken, max(lost) AS lost, max(dropped) AS dropped, max(truncated) AS truncated, "
                                 "max(incomplete) AS incomplete, max(frames) AS frames, max(guessed_frames) AS guessed, "
                                 "max(own_cpu_ns) AS own FROM sampler WHERE mode = 'cpu'")[0]
    first = rows_of(work, output, "SELECT min(t_ns)::VARCHAR AS t, count(*) AS n FROM stack_samples")[0]
    n = max(1, first["n"])
    work.figures[name] = {**got, **last, "without_s": without, "samples": n}
    print(f"{name}: {n} samples, {last['lost']} lost, {last['dropped']} dropped; {100 * (1 - last['truncated'] / n):.2f} % of stacks not "
          f"truncated, {100 * last['incomplete'] / n:.3f} % incomplete, {100 * (last['guessed'] or 0) / max(1, last['frames']):.3f} % of "
          f"frames guessed, {last['frames'] / n:.1f} frames a stack")
    print(f"{name}: sampling threads {(last['own'] or 0) / 1e3 / n:.2f} us a sample; all of infprof {got['own_cpu_s']:.3f} s of CPU, "
          f"{without:.3f} s without --cpu, finish and symbols included")
    work.budget(f"{name}_own_cpu", 100 * (got["own_cpu_s"] - without) / seconds, 3.0,
                f"{name}: sampling at {hz} Hz, with symbols: {100 * (got['own_cpu_s'] - without) / seconds:.2f} % of a core over {seconds} s")
    print(f"{name}: first sample {(int(first['t']) - got['began']) / 1e6:.0f} ms after infprof's start (wall clock; aim 100 ms)")
    work.figures[name]["ready_ms"] = (int(first["t"]) - got["began"]) / 1e6
    return output, got, n


def over_recording(work, name, code, options, seconds, text):
    """CPU of a recording of a Python program with some options, over that of one without."""
    used = {}
    with subprocess.Popen(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE, text=True) as target:
        try:
            assert target.stdout.readline() == "ready\n"
            for way, words in (("with", options), ("without", [])):
                words = [work.infprof, "record", "-o", work.output(), "--no-snapshots", *words, "--duration", seconds, "--pid", target.pid]
                used[way] = tree_cpu_after(subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL,
                                                            stderr=subprocess.DEVNULL))
        finally:
            target.kill()
    work.figures[name] = {**used, "seconds": seconds}
    print(f"{text}: {100 * (used['with'] - used['without']) / seconds:.1f} % of a core over {seconds} s, finish and symbols included")


def own(work, options):
    work.truth("busy_split")
    seconds = 20 if not options.quick else 4
    # One busy core.
    target = subprocess.Popen([str(work.path / "busy_split"), "-s", "1000", "-r", "30"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        finished, _, n = own_figures(work, "busy_split", target.pid, seconds)
        live = work.output()
        attached(work, target.pid, 1000, seconds / 2, live, "--no-finish")
        # Python has many different stacks.
        target.kill()
        target.wait()
        script = TRUTH / "busy_split.py"
        target = subprocess.Popen(["/usr/bin/python3", str(script), "-s", "1000", "-m", "recursion"], stdout=subprocess.DEVNULL)
        time.sleep(1)
        own_figures(work, "python", target.pid, seconds)
    finally:
        target.kill()
        target.wait()
    n_live = rows_of(work, live, "SELECT count(*) AS n FROM stack_samples")[0]["n"]
    threads = ("import threading, time\nthreading.stack_size(65536)\nfor i in range(3999): threading.Thread(target=time.sleep, "
               "args=(1000,), daemon=True).start()\nprint('ready', flush=True)\ntime.sleep(1000)")
    over_recording(work, "wall_4000", threads, ["--wall"], 4 if options.quick else 10, "--wall of 4,000 threads")
    print(f"bytes a sample: {bytes_of(live, TABLES, '.arrows') / n_live:.1f} in segments, {bytes_of(finished, TABLES, '.parquet') / n:.1f} "
          f"in Parquet, all seven tables")
    work.figures["bytes_segment"] = bytes_of(live, TABLES, ".arrows") / n_live
    work.figures["bytes_parquet"] = bytes_of(finished, TABLES, ".parquet") / n


class TorchTarget:
    def __enter__(self):
        python = next((path for path in ("/usr/bin/python3",) if not subprocess.run(
            [path, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode), None)
        if python is None:
            print("python3-torch is not installed (tools/setup bench): nothing to measure")
            return None
        self.process = subprocess.Popen([python, "-c", TORCH], stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        time.sleep(1)
        return self.process.pid

    def __exit__(self, *_):
        if hasattr(self, "process"):
            self.process.kill()
            self.process.wait()


def inside(work, options):
    """Both without perf events: in one the Python process samples itself, in the other nothing is loaded into it."""
    sys.path.insert(0, str(TOP / "tests" / "e2e"))
    from refuse import BPF, PERF_EVENT_OPEN, refused
    filtered = refused([PERF_EVENT_OPEN, BPF], errno.EPERM)
    program = ["/usr/bin/python3", TRUTH / "busy_split.py", "-s", 2 if not options.quick else 0.3, "-m", "recursion"]
    n_pairs = 20 if not options.quick else 3
    for hz in (99, 250):
        ratios, handlers = [], []
        for i in range(n_pairs):
            pair = {}
            for way in (("off", "inside") if i % 2 else ("inside", "off")):
                output = work.output()
                pair[way] = cpu_of([*record_words(work, hz, output, "--no-finish", f"--python={way}"), "--", *program],
                                   preexec_fn=filtered)
                if way == "inside":
                    last = rows_of(work, output, "SELECT taken, handler_ns, python_merged, python_unmerged + python_torn + python_missed AS bad "
                                                 "FROM sampler WHERE mode = 'cpu' ORDER BY t_ns DESC LIMIT 1")[0]
                    handlers.append(last["handler_ns"] / 1e3 / max(1, last["taken"]))
            ratios.append(pair["inside"] / pair["off"])
        middle = centre(ratios)
        work.figures[f"inside_{hz}"] = {"ratio": middle, "handler_us": statistics.median(handlers)}
        print(f"{hz} Hz inside: {said(middle)} of the program's CPU without, {n_pairs} pairs; the handler takes "
              f"{statistics.median(handlers):.1f} us of CPU a sample; of the last run {last['python_merged']} merged, {last['bad']} not", flush=True)


def torch(work, options):
    with TorchTarget() as pid:
        if pid is None:
            return
        with open(f"/proc/{pid}/maps") as file:
            objects = {line.split()[-1] for line in file if " r-xp " in line and "/" in line}
        print(f"torch: {len(objects)} objects")
        shutil.rmtree(os.path.expanduser("~/.cache/infprof"), ignore_errors=True) if options.cold else None
        _, got, _ = own_figures(work, "torch", pid, 20 if not options.quick else 5)
        limit = 60 + os.cpu_count()
        work.budget("torch_rss", got["peak"] / 2**20, limit, f"torch: {got['peak'] / 2**20:.1f} MiB peak, {got['anonymous'] / 2**20:.1f} "
                                                             f"MiB of it anonymous")


def peers(work, options):
    """../shared/truth/peers.sh with the peers that sample native stacks."""
    if not (TRUTH / "peers.sh").exists():
        print(f"{TRUTH}/peers.sh is not here: no comparison with peers")
        return
    folder = work.path / "peers"
    folder.mkdir()
    venv = TOP / ".deps" / "bench" / "venv"
    os.symlink(venv, folder / "venv")
    subprocess.run(["make", "-s", "-C", str(TRUTH), f"OUT={folder}/build", f"PYTHON={venv}/bin/python"], check=False)
    environment = {**os.environ, "INFPROF": f"{work.infprof} record --cpu=$HZ --no-snapshots -o $OUT.d -- $CMD",
                   "INFPROF_FOLD": f"{work.infprof} flamegraph --folded -r $OUT.d -o $OUT.fold",
                   "PATH": f"{os.path.dirname(work.infprof)}:{os.environ['PATH']}"}
    pairs = 3 if not options.quick else 1
    for tool, hz, *program in (("infprof", 99, "busy_split", "-s", "2.5"), ("perf-dwarf", 99, "busy_split", "-s", "2.5"),
                               ("infprof", 1000, "busy_split", "-s", "2.5"), ("perf-dwarf", 1000, "busy_split", "-s", "2.5"),
                               ("perf-fp", 1000, "busy_split_fp", "-s", "2.5"),
                               ("infprof", 1000, "busy_split", "-s", "2", "-r", "200"),
                               ("perf-dwarf", 1000, "busy_split", "-s", "2", "-r", "200"),
                               ("infprof", 1000, "mixed.py", "-s", "2"), ("perf-dwarf", 1000, "mixed.py", "-s", "2"),
                               ("py-spy-native", 1000, "mixed.py", "-s", "2"),
                               *((tool, 100, *program) for program in (("busy_split.py", "-s", "2"), ("mixed.py", "-s", "2"))
                                 for tool in ("infprof", "infprof-inside", "py-spy", "py-spy-nonblocking", "austin", "scalene-cpu"))):
        words = ["--python=inside"] if tool == "infprof-inside" else []
        environment["INFPROF"] = f"{work.infprof} record --cpu=$HZ --no-snapshots {' '.join(words)} -o $OUT.d -- $CMD"
        tool = tool.split("-")[0] if words else tool
        done = subprocess.run(["bash", str(TRUTH / "peers.sh"), "run", str(folder), tool, str(hz), str(pairs), *program], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        print(done.stdout.strip() or f"{tool} {hz} {program}: {done.stderr.strip()[-300:] or 'failed'}", flush=True)
        if done.stdout.startswith("{"):
            line = {**json.loads(done.stdout), "options": words}
            work.figures.setdefault("peers", []).append(line)
            if tool == "infprof" and line.get("impossible_share"):
                work.broken.append(f"impossible stacks: {line}")


def unwind(work, options):
    program = work.tool(options.tools, "unit/test_unwind_samples")
    n = "3000" if not options.quick else "500"
    with TorchTarget() as pid:
        if pid is not None and subprocess.run([program, "torch", "1000", n, "--pid", str(pid)], check=False).returncode == 1:
            work.broken.append("torch: less than 99.9 % of frames are elfutils'")
    server, model = TOP / ".deps" / "llama" / "llama-server", next(iter(glob.glob(str(TOP / ".deps" / "models" / "*.gguf"))), None)
    if not server.exists() or model is None:
        print("the demo's server is not here (make demo-deps): no stacks of it")
        return
    port = "18123"
    process = subprocess.Popen([str(server), "-m", model, "--port", port, "-t", "1", "-np", "1"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        body = json.dumps({"prompt": "Tell me a long story.", "n_predict": 100000, "ignore_eos": True})
        # Again and again: an answer ends where the model's context does.
        client = subprocess.Popen(["sh", "-c", "while :; do curl -s -o /dev/null -d \"$1\" \"$2\" || sleep 0.5; done", "sh", body,
                                   f"http://127.0.0.1:{port}/completion"], start_new_session=True)
        busiest = None
        for _ in range(60):
            time.sleep(1)
            busiest = busiest_thread(process.pid)
            if busiest and busiest[1] > 300:
                break
        if busiest and subprocess.run([program, "llama-server", "1000", n, "--pid", str(busiest[0])], check=False).returncode == 1:
            work.broken.append("llama-server: less than 99.9 % of frames are elfutils'")
        os.killpg(client.pid, signal.SIGKILL)
        client.wait()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def busiest_thread(root):
    """(tid, ticks of CPU) of the thread below root that used most."""
    pids, grown = {root}, True
    while grown:
        grown = False
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path) as file:
                    pid, parent = int(path.split("/")[2]), int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent in pids and pid not in pids:
                pids.add(pid)
                grown = True
    best = None
    for path in [path for pid in pids for path in glob.glob(f"/proc/{pid}/task/*/stat")]:
        try:
            with open(path) as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks = int(fields[11]) + int(fields[12])
        if best is None or ticks > best[1]:
            best = int(path.split("/")[4]), ticks
    return best


def go(work, options):
    compiler = shutil.which("go")
    if compiler is None:
        print("Go is not installed (tools/setup bench): no program of it to compare with its own profile")
        return
    environment = {**os.environ, "GOCACHE": str(work.path / "go-cache"), "GOPATH": str(work.path / "go"), "GOFLAGS": "-mod=mod",
                   "GO111MODULE": "off", "HOME": str(work.path)}
    program, seconds = work.path / "go-program", 10 if not options.quick else 3
    subprocess.run([compiler, "build", "-o", str(program), str(HERE / "go_program.go")], check=True, env=environment)
    output, own_profile = work.output(), work.path / "own.pprof"
    subprocess.run([str(word) for word in [*record_words(work, 1000, output), "--", program, seconds, own_profile]], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    theirs = subprocess.run([compiler, "tool", "pprof", "-raw", str(program), str(own_profile)], check=True, env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    folded = subprocess.run([work.infprof, "flamegraph", "--folded", "-r", str(output)], check=True, stdout=subprocess.PIPE, text=True).stdout
    want, ours = go_shares(theirs), {}
    total = 0
    for line in folded.splitlines():
        stack, count = line.rsplit(" ", 1)
        names = [name for name in stack.split(";") if name.startswith("main.")]
        if names:
            ours[names[-1]] = ours.get(names[-1], 0) + int(count)
            total += int(count)
    worst = 0.0
    for name in sorted(set(want) | set(ours), key=lambda name: -want.get(name, 0)):
        share = ours.get(name, 0) / max(1, total)
        worst = max(worst, abs(share - want.get(name, 0)))
        print(f"  {name:30s} its own pprof {100 * want.get(name, 0):6.2f} %, infprof {100 * share:6.2f} %")
    # The scheduler's own stack begins with mcall; who called systemstack is on another stack.
    roots = {"begin": 0, "systemstack": 0, "all": 0}
    for line in folded.splitlines():
        stack, count = line.rsplit(" ", 1)
        roots["all"] += int(count)
        roots["begin"] += int(count) * bool(re.match(r"(runtime\.|\S+_\[k\])(goexit|mcall|morestack|mstart|main|rt0_go)?", stack))
        roots["systemstack"] += int(count) * stack.startswith("[truncated];runtime.systemstack")
    print(f"go: {roots['all']} samples, {100 * roots['begin'] / max(1, roots['all']):.2f} % reach a goroutine's or the scheduler's begin, "
          f"{100 * roots['systemstack'] / max(1, roots['all']):.2f} % the change of stacks of systemstack")
    # Its profile has 100 samples a second: three sigma of the largest difference of a few shares.
    work.budget("go_share_difference", worst, 3.5 * math.sqrt(0.25 / (100 * seconds)), f"go: largest difference of a share {worst:.4f}")


def go_shares(raw):
    """Shares by innermost function of main, from `go tool pprof -raw`."""
    names, counts, section = {}, {}, ""
    samples = []
    for line in raw.splitlines():
        if line.rstrip().endswith(":") and not line.startswith(" "):
            section = line.strip().rstrip(":")
        elif section == "Samples" and ":" in line:
            values, locations = line.split(":", 1)
            if values.split() and values.split()[0].isdigit():
                samples.append((int(values.split()[0]), [int(word) for word in locations.split() if word.isdigit()]))
        elif section == "Locations":
            found = re.match(r"\s+(\d+): 0x\S+(?: M=\d+)? (.*)", line)
            if found:
                location = int(found[1])
                names[location] = [found[2].split()[0]]
            elif line.strip():
                names[location].append(line.split()[0])
        elif line.startswith("samples/count"):
            section = "Samples"
        if line.startswith("Locations"):
            section = "Locations"
        elif line.startswith("Mappings"):
            section = "Mappings"
    for count, locations in samples:
        inner = next((name for location in locations for name in names.get(location, []) if name.startswith("main.")), None)
        if inner:
            counts[inner] = counts.get(inner, 0) + count
    total = sum(counts.values()) or 1
    return {name: count / total for name, count in counts.items()}


def tests(work, words, **environment):
    """End-to-end tests of ours."""
    words = [TOP / ".deps" / "venv" / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run([str(word) for word in words], env={**os.environ, "INFPROF": work.infprof, **environment}).returncode


def harm(work, options):
    rounds = "10000" if not options.quick else "200"
    folder = TOP / "tests" / "e2e"
    if tests(work, ["-s", "--timeout=3600", folder / "test_cpu_harm.py", folder / "test_python_attached.py", "-k", "coming_and_going or cycles"],
             INFPROF_ATTACH_ROUNDS=rounds):
        work.broken.append(f"attached {rounds} times: the target was not left alone")


def debug(work, options):
    if tests(work, [TOP / "tests" / "e2e", "-k", "python3.14d or system-debug" if not options.quick else "test_backtrace_python and system-debug"],
             INFPROF_DEBUG_PYTHONS="1") not in (0, 5):
        work.broken.append("frames of a debug build of Python are not those of the others")


VERBS = {"cost": cost, "own": own, "inside": inside, "torch": torch, "python": python, "waits": waits, "deep": deep, "peers": peers, "unwind": unwind, "go": go,
         "debug": debug, "harm": harm}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--infprof", default=str(TOP / "build" / "infprof"))
    parser.add_argument("--tools", help="build folder with tests; built in build-gcc where it is not given")
    parser.add_argument("--quick", action="store_true", help="short: to see that it runs")
    parser.add_argument("--cold", action="store_true", help="remove the cache of unwind tables before (torch)")
    parser.add_argument("--json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = Work(options.infprof)
    VERBS[options.verb](work, options)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(work.figures, file, indent=1)
    for line in work.broken:
        print("over budget:", line)
    return 1 if work.broken else 0


if __name__ == "__main__":
    sys.exit(main())
