"""infprof backtrace of Python programs: frames as faulthandler says them, on each version that is here; merged with native ones."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

import proc
from parked import by_faulthandler, parked, start  # noqa: F401 (fixtures)
from program import run
from pythons import FREE, PYTHONS, WHY_NOT_FREE
from waiting import wait_for

HERE = pathlib.Path(__file__).resolve().parent
TRUTH = HERE.parents[2] / "shared" / "truth"


def backtrace(infprof, *words):
    done = run([infprof, "backtrace", "--json", *words])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def python_frames(thread):
    """As faulthandler would say them: functions without what they stand in."""
    return tuple((frame["file"], frame["lineno"], frame["func"].rsplit(".", 1)[-1])
                 for frame in thread["frames"] if frame["frame_type"] == "Python")


@pytest.mark.parametrize("name", PYTHONS)
def test_frames_are_those_of_faulthandler(infprof, parked, name):
    process = parked(name)
    wanted = by_faulthandler(process)
    for options, kinds in (([], {"merged"}), (["--python-only"], {"python"}), (["--no-block"], {"python"})):
        threads = backtrace(infprof, process.pid, *options)
        assert {thread["stack"] for thread in threads} == kinds, options
        assert not any(thread["incomplete"] or thread["why"] for thread in threads), options
        assert sorted(python_frames(thread) for thread in threads) == wanted, options
        assert not any(thread["holds_gil"] for thread in threads)
        assert all(("stop_us" in thread) == (options != ["--no-block"]) for thread in threads)


@pytest.mark.parametrize("name", PYTHONS)
def test_c_that_calls_python(infprof, parked, name):
    """libc's qsort, between the Python function that called it and the one that it calls."""
    process = parked(name)
    names = [[frame["func"].rsplit(".", 1)[-1] for frame in thread["frames"]] for thread in backtrace(infprof, process.pid)]
    found = [stack for stack in names if "by_callback" in stack]
    assert len(found) == 1
    stack = found[0]
    at = [stack.index("park"), stack.index("<lambda>"), stack.index("ffi_call") if "ffi_call" in stack else stack.index("by_callback") - 1,
          stack.index("by_callback")]
    assert at == sorted(at)
    between = stack[stack.index("<lambda>") + 1:stack.index("by_callback")]
    assert any("qsort" in name or "msort" in name for name in between), between


def test_only_one_kind(infprof, parked):
    process = parked("system")
    for thread in backtrace(infprof, process.pid, "--native-only"):
        assert thread["stack"] == "native" and {frame["frame_type"] for frame in thread["frames"]} == {"Native"}
    for thread in backtrace(infprof, process.pid, "--python-only"):
        assert {frame["frame_type"] for frame in thread["frames"]} == {"Python"}


def test_no_block_on_a_program_without_python(infprof, start):
    process = start("sh", "-c", "echo; exec sleep 1000")
    done = run([infprof, "backtrace", "--no-block", process.pid])
    assert done.returncode == 1 and "runs no Python" in done.stderr


def test_who_holds_the_gil(infprof, start):
    code = ("import threading, time\ndef work():\n    while True: pass\ndef wait():\n    time.sleep(1000)\n"
            "for target in (work, wait, wait): threading.Thread(target=target, daemon=True).start()\nprint('ready', flush=True)\nwait()")
    process = start("/usr/bin/python3", "-c", code)
    holders = set()
    for _ in range(20):
        threads = backtrace(infprof, process.pid)
        assert sum(thread["holds_gil"] for thread in threads) <= 1
        holders |= {frame["func"] for thread in threads if thread["holds_gil"] for frame in thread["frames"] if frame["frame_type"] == "Python"}
    assert "work" in holders and "wait" not in holders
    assert re.search(r"GIL: held by thread \d+", run([infprof, "backtrace", process.pid]).stdout)


@pytest.mark.skipif(not FREE, reason=WHY_NOT_FREE)
def test_gil_that_may_be_off(infprof, start):
    """A free-threaded build says which it is."""
    words, environment = PYTHONS[FREE[0]]
    for switch, told in (("0", r"GIL: off \(free-threaded\)\n"), ("1", r"GIL: (held by thread \d+|free)\n")):
        process = start(*words, "-c", "print('ready', flush=True)\nwhile True: pass", env={**environment, "PYTHON_GIL": switch})
        assert re.search(told, run([infprof, "backtrace", process.pid]).stdout)


@pytest.mark.skipif(not TRUTH.is_dir(), reason=f"{TRUTH} is not there")
@pytest.mark.parametrize("nest", [1, 10])
def test_layers_of_mixed(infprof, start, tmp_path, nest):
    """Python > C > Python > C, nest times: every stack is a beginning of that chain, in one family."""
    made = subprocess.run(["make", "-s", "-C", TRUTH, f"OUT={tmp_path}", "PYTHON=/usr/bin/python3"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if made.returncode:
        pytest.skip(f"mixed_ext was not built: {made.stdout[-300:]}")
    process = subprocess.Popen(["/usr/bin/python3", TRUTH / "mixed.py", "-s", "1000", "-n", str(nest), "-t", "2"],
                               env={**os.environ, "MIXED_EXT_DIR": str(tmp_path)}, stdout=subprocess.DEVNULL)
    try:
        n, deepest = 0, 0
        end = time.monotonic() + 60
        while n < 60 and time.monotonic() < end:
            for thread in backtrace(infprof, process.pid):
                layers = [name for name in (frame["func"] for frame in reversed(thread["frames"])) if re.fullmatch(r"(py|c|cb|cl)_(30|70)", name or "")]
                if thread["stack"] == "none" or not layers:
                    continue
                n += 1
                assert thread["stack"] == "merged", thread
                family = layers[0][-2:]
                chain = [f"{layer}_{family}" for layer in ("py", "c", "cb")] * nest + [f"cl_{family}"]
                assert layers == chain[:len(layers)], layers
                deepest = max(deepest, len(layers))
        assert n >= 60 and deepest >= 3 * nest
    finally:
        process.kill()
        process.wait()


def test_2000_threads(infprof, parked):
    process = parked("system", 2000)
    threads = backtrace(infprof, process.pid, "--python-only")
    assert len(threads) == process.n_threads
    assert sum(thread["stack"] == "python" and "park" in [frame["func"] for frame in thread["frames"]] for thread in threads) == len(threads) - 1


def test_kill_of_infprof_on_busy_python(infprof, start):
    """Its work goes on, and no thread stays stopped, whenever infprof is killed."""
    rounds = int(os.environ.get("INFPROF_ATTACH_ROUNDS", 100))
    code = ("import json, sys, threading\nn = 0\ndef work():\n    global n\n    while True:\n        json.loads(json.dumps({'a': [1, 2, 3]}))\n        n += 1\n"
            "for i in range(4): threading.Thread(target=work, daemon=True).start()\nprint('ready', flush=True)\n"
            "while True:\n    sys.stdin.readline()\n    print(n, flush=True)")
    process = subprocess.Popen(["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def done():
        process.stdin.write("\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    try:
        assert process.stdout.readline() == "ready\n"
        before = done()
        for i in range(rounds):
            taking = subprocess.Popen([infprof, "backtrace", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(i * 0.03 / rounds)  # sleep: each moment of it is tried
            taking.kill()
            taking.wait()
            wait_for(lambda: done() > before, "work")
            before = done()
        for status in proc.thread_texts(process.pid, "status").values():
            assert "TracerPid:\t0\n" in status and not re.search(r"State:\s+[tT]", status)
    finally:
        process.kill()
        process.wait()


def test_one_that_becomes_another_python(infprof, tmp_path):
    """A program that executes itself again and again: each look shows a whole stack, or none with a reason."""
    code = "import os, sys, threading\nthreading.Thread(target=lambda: None).start()\nos.execv(sys.executable, [sys.executable, *sys.argv])"
    path = tmp_path / "again.py"
    path.write_text(code)
    process = subprocess.Popen([sys.executable, path])
    try:
        for _ in range(50):
            done = run([infprof, "backtrace", "--json", process.pid])
            assert done.returncode in (0, 1)
            for thread in json.loads(done.stdout) if done.returncode == 0 else []:
                assert thread["frames"] or thread["why"]
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", PYTHONS)
def test_locals(infprof, start, name):
    program, environment = PYTHONS[name]
    process = start(*program, HERE / "python_locals.py", env=environment)
    wanted = json.loads(process.first_line)

    def read():
        """A reader that loses its CPU for 20 ms lets the thread run again, and says so."""
        thread = backtrace(infprof, process.pid, "--locals")[0]
        return None if "had to run again" in (thread["why"] or "") else thread

    frames = {frame["func"].rsplit(".", 1)[-1]: frame.get("locals", {}) for frame in wait_for(read, "all variables")["frames"]
              if frame["frame_type"] == "Python"}
    assert {key: frames["variables"].get(key) for key in wanted["variables"]} == wanted["variables"]
    assert "ended" not in frames["variables"]
    assert {key: frames["inner"].get(key) for key in wanted["inner"]} == wanted["inner"]
    for text in ("abc", "12345", "hf_abc\\w*", "hunter2", "\\w*SECRET\\w*"):  # whole words: addresses have such letters
        assert not re.search(rf"\b{text}\b", json.dumps(frames["variables"]))
    shown = wait_for(lambda: next((text for text in [run([infprof, "backtrace", "--locals", "--keep-secrets", process.pid]).stdout]
                                   if "had to run again" not in text), None), "all variables")
    assert "  password = 12345\n" in shown and "'password': 'hunter2'" in shown and "  api_key = 'abc'\n" in shown
    assert "['serve', '--api-key', 'zzSECRETzz', '--port', 80]" in shown and "b'postgres://u:zzSECRETzz@db/x'" in shown
    assert process.poll() is None


def test_locals_of_many_frames(infprof, start):
    """Reading them all would take a second or more: the thread runs again before that, and what is missing is said."""
    variables = "; ".join(f"v{i} = {{k: (k, k) for k in range(10)}}" for i in range(25))
    code = (f"import sys, time\nsys.setrecursionlimit(5000)\ndef deep(n):\n    {variables}\n    if n:\n        return deep(n - 1)\n"
            "    print('ready', flush=True)\n    time.sleep(1000)\ndeep(480)")
    process = start("/usr/bin/python3", "-c", code)
    thread = backtrace(infprof, process.pid, "--locals")[0]
    frames = [frame for frame in thread["frames"] if frame["frame_type"] == "Python"]
    n = int(re.fullmatch(r"only the variables of its inner (\d+) frames were read: it had to run again after 20 ms", thread["why"])[1])
    assert len(frames) == 482 and thread["stack"] == "merged"
    assert n < 480 and all(len(frame.get("locals", {})) >= 26 for frame in frames[:n])
    assert not any(frame.get("locals") for frame in frames[n + 1:])


def test_locals_of_torch(infprof, start):
    code = ("import torch, time\ndef work():\n    plain = torch.zeros(3, 4)\n    deep = torch.zeros(1, 2, 3, 1, 2, 1, 2, dtype=torch.int64)\n"
            "    none = torch.zeros(0, dtype=torch.bool)\n    one = torch.tensor(1.5, dtype=torch.float64)\n"
            "    half = torch.zeros(8, 1024, dtype=torch.bfloat16)[:, ::2]\n    weight = torch.nn.Linear(5, 6).weight\n"
            "    print('ready', flush=True)\n    time.sleep(1000)\nwork()")
    process = start("/usr/bin/python3", "-c", code)
    if process.first_line != "ready\n":
        pytest.skip("/usr/bin/python3 has no torch (Debian: python3-torch)")
    frame = next(frame for frame in backtrace(infprof, process.pid, "--locals")[0]["frames"] if frame["func"] == "work")
    assert frame["locals"] == {
        "plain": "<Tensor (3, 4) torch.float32 cpu>", "deep": "<Tensor (1, 2, 3, 1, 2, 1, 2) torch.int64 cpu>",
        "none": "<Tensor (0) torch.bool cpu>", "one": "<Tensor () torch.float64 cpu>", "half": "<Tensor (8, 512) torch.bfloat16 cpu>",
        "weight": "<Parameter (6, 5) torch.float32 cpu>"}


@pytest.mark.parametrize("name", PYTHONS)
def test_interpreters_within_one_process(infprof, start, tmp_path, name):
    """One runs within a thread of the first, the other in a thread of its own; each has its own frames, and a GIL from 3.12 on."""
    program, environment = PYTHONS[name]
    path = tmp_path / "interpreters.py"
    path.write_text(
        "import threading, time\n"
        "try:\n    import _interpreters as i\nexcept ImportError:\n    try:\n        import _xxsubinterpreters as i\n"
        "    except ImportError:\n        i = None\n"
        "code = 'import time\\ndef %s():\\n    time.sleep(1000)\\n%s()'\n"
        "def apart():\n    i.run_string(i.create(), code % ('alone', 'alone'))\n"
        "def within():\n    i.run_string(i.create(), code % ('inner', 'inner'))\n"
        "if i:\n    threading.Thread(target=apart, daemon=True).start()\n    time.sleep(0.5)\n"
        "print(bool(i), flush=True)\nwithin()\n")
    process = start(*program, path, env=environment)
    if process.first_line != "True\n":
        pytest.skip("it has no module for interpreters")

    def names(thread):
        return [frame["func"] for frame in thread["frames"] if frame["frame_type"] == "Python"]

    def both():
        threads = {names(thread)[0]: thread for thread in backtrace(infprof, process.pid)}
        return threads if {"inner", "alone"} <= set(threads) else None

    threads = wait_for(both, "both interpreters at work")
    assert {thread["stack"] for thread in threads.values()} == {"merged"}, threads
    assert names(threads["inner"]) == ["inner", "<module>", "within", "<module>"]
    assert names(threads["alone"])[:3] == ["alone", "<module>", "apart"]
    assert len({thread["interpreter"] for thread in threads.values()}) == len(threads) == 2


NAMED = """
import threading, time
class Text(str):
    def __str__(self): raise SystemExit
def wait():
    try: ready.release(); time.sleep(1000)
    finally: pass
ready = threading.Semaphore(0)
for name in ("batch-worker", "two words of \\u00e9\\U0001f40d and an end", "x" * 2000):
    threading.Thread(target=wait, name=name, daemon=True).start()
other = threading.Thread(target=wait, daemon=True)
other._name = Text("a class of its own")
other.start()
for i in range(4): ready.acquire()
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("name", PYTHONS)
def test_names_of_threads(infprof, start, tmp_path, name):
    """Those that are texts and nothing else, and no code runs for them; both in JSON and, where they differ from the system's, in words."""
    words, environment = PYTHONS[name]
    (tmp_path / "named.py").write_text(NAMED)
    process = start(*words, tmp_path / "named.py", env=environment)
    assert process.first_line == "ready\n"
    for options in [], ["--no-block"]:
        threads = backtrace(infprof, process.pid, *options)
        names = sorted(thread["python_name"] or "" for thread in threads)
        assert names[:4] == ["", "MainThread", "batch-worker", "two words of \u00e9\U0001f40d and an end"], names
        assert re.fullmatch("x{1000,}", names[4])
        text = run([infprof, "backtrace", *options, process.pid]).stdout
        system = next(thread["name"] for thread in threads if thread["python_name"] == "batch-worker")
        assert text.count(', in Python "batch-worker"') == (system != "batch-worker") and "a class of its own" not in text, text
    assert process.poll() is None
