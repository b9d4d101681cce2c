"""infprof top on a real terminal (a pseudo-terminal, drawn by pyte) and as lines."""
import contextlib
import errno
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

import proc
from program import run
from refuse import BPF, PERF_EVENT_OPEN, refused
from test_engine import server  # noqa: F401  (a fixture)
from waiting import wait_for

pyte = pytest.importorskip("pyte", reason="no pyte: tools/setup check installs it")

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
static volatile uint64_t sink;
__attribute__((noinline, noclone)) void hot(void) { for (int i = 0; i < 3000000; i++) sink += (uint64_t) i; }
__attribute__((noinline, noclone)) void warm(void) { for (int i = 0; i < 1000000; i++) sink += (uint64_t) i; }
static void *wait_long(void *unused) { for (;;) sleep(1000); return unused; }
int main(int argc, char **argv)
{
        pthread_t thread;

        pthread_create(&thread, NULL, wait_long, NULL);
        pthread_setname_np(thread, argc > 1 ? argv[1] : "waiter");
        if (argc > 2)
                wait_long(NULL);
        for (;;) { hot(); warm(); }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("top")
    (folder / "busy.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-g", "-O1", "-pthread", "-o", folder / "busy", folder / "busy.c"], check=True)
    return folder / "busy"


@contextlib.contextmanager
def running(*words):
    process = subprocess.Popen([str(word) for word in words])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def busy(program):
    with running(program) as process:
        yield process


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where private runs are made: nothing may be left there."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    assert not list(folder.iterdir())


class Terminal:
    """infprof on a terminal of its own; .lines() is what it shows."""

    def __init__(self, words, columns=80, rows=24, **environment):
        self.master, self.slave = pty.openpty()
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.set_size(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        environment = {**os.environ, "LINES": "33", "COLUMNS": "77", "TERM": "linux", "LC_ALL": "C.UTF-8", **environment}
        self.process = subprocess.Popen([str(word) for word in words], stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        env=environment, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def set_size(self, columns, rows):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        self.set_size(columns, rows)

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            data = os.read(self.master, 65536)
            self.raw += data
            self.stream.feed(data)

    def lines(self):
        self.read()
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def expect(self, pattern, seconds=120):
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text(), re.M)):
            assert time.monotonic() < end, f"{pattern!r} is not shown:\n{self.text()}"
            time.sleep(0.02)  # sleep: between two looks
        return found

    def type(self, keys):
        os.write(self.master, keys.encode())

    def end(self, keys="q"):
        """Its exit code; the terminal is as it was before."""
        if keys:
            self.type(keys)
        wait_for(lambda: (self.read(), self.process.poll() is not None)[1], "the end of top")
        self.read()
        assert termios.tcgetattr(self.slave) == self.before
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(infprof):
    opened = []

    def start(*words, **options):
        opened.append(Terminal([infprof, "top", *words], **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def samples(text):
    return int(re.search(r"in ([\d,]+) samples", text)[1].replace(",", ""))


def test_functions_lines_threads(terminal, busy, temporary):
    top = terminal("--window", "5m", str(busy.pid), columns=100)
    top.expect(r"^ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+  hot +busy$")
    top.expect(r"^target [\d.]+ cores, .* 2 threads   host \d+ % of \d+ CPUs?, [\d.]+ of [\d.]+ GiB")
    # Three of four rounds of the loop; one false alarm in a million: 5 standard deviations of the samples so far.
    wait_for(lambda: samples(top.text()) >= 60, "60 samples", 150)
    text = top.text()
    hot = float(re.search(r"^ +([\d.]+) .*  hot +busy$", text, re.M)[1]) / 100
    other = sum(float(found) for found in re.findall(r"^ +([\d.]+) .*\[kernel\]$", text, re.M)) / 100
    assert abs(hot / (1 - other) - 0.75) < 5 * (0.75 * 0.25 / samples(text)) ** 0.5 + 0.02
    top.type("l")
    top.expect(r"busy\.c:9 +hot$")
    top.type("t")
    top.expect(r"^ +[\d.]+ +[\d.]+ +\d+ +" + str(busy.pid) + r"  running +busy$")
    top.expect(r"sleeping in clock_nanoslee +waiter \(busy\)$")
    assert top.end() == 0


@pytest.mark.parametrize("columns, rows", [(200, 50), (40, 10), (20, 5)])
def test_sizes(terminal, busy, temporary, columns, rows):
    top = terminal(str(busy.pid), columns=columns, rows=rows)
    top.expect(r"^ +[\d.]+ +[\d.]+.*  hot?", 60)
    assert len(top.lines()[0]) <= columns and top.lines()[0].startswith("infprof top")
    assert top.end() == 0


def test_resize(terminal, busy, temporary):
    top = terminal(str(busy.pid))
    top.expect("  hot +busy$")
    top.resize(50, 12)
    os.kill(top.process.pid, signal.SIGWINCH)
    wait_for(lambda: re.match(r" self% total%  function$", top.lines()[2]), "the smaller page")
    assert any("hot" in line for line in top.lines()) and top.lines()[11].startswith("?: help")
    top.resize(120, 30)
    os.kill(top.process.pid, signal.SIGWINCH)
    wait_for(lambda: top.lines()[29].startswith("?: help"), "the larger page")
    assert top.end() == 0


def test_colours(terminal, busy, temporary):
    def colours(top):
        top.expect("  hot +busy$")
        return {top.screen.buffer[y][x].fg for y in range(24) for x in range(80)}

    top = terminal(str(busy.pid))
    assert colours(top) - {"default"}
    assert top.end() == 0
    top = terminal(str(busy.pid), NO_COLOR="1")
    assert colours(top) == {"default"}
    assert top.end() == 0


@pytest.mark.san
def test_keys(terminal, busy, temporary):
    top = terminal(str(busy.pid))
    top.expect("  hot +busy$")
    top.type("/^warm$\r")
    top.expect(r"/\^warm\$: 1 of \d+  cpu")
    assert not re.search("  hot +busy$", top.text(), re.M)
    top.type("/(\r")
    top.expect(r"^\(|.*expression|.*parenthes|.*Unmatched")
    top.type("\x1b")
    top.expect("  hot +busy$")
    top.type("n")
    top.expect("by name")
    top.type("p")
    top.expect(r"\[paused, 0 s ago\]")
    shown = top.expect(r"infprof top (\S+)").group(1)
    top.expect(r"\[paused, [2-9] s ago\]")
    assert top.expect(r"infprof top (\S+)").group(1) == shown
    top.type("p")
    wait_for(lambda: "[paused" not in top.text(), "it goes on")
    top.type("[")
    top.expect(r"\[frozen, \d+ s ago\]")
    top.type("?")
    top.expect("regular expression")
    top.type("q")  # closes the help
    top.expect("frozen")
    assert top.end() == 0


def test_kept(terminal, infprof, busy, tmp_path, temporary):
    top = terminal(str(busy.pid), "-o", tmp_path / "kept")
    top.expect("  hot +busy$")
    top.type("w")
    top.expect(r"\[kept\]")
    assert top.end() == 0
    assert "the run is kept" in top.raw.decode("utf-8", "replace")
    done = run([infprof, "flamegraph", "--top=3", "-r", tmp_path / "kept"])
    assert done.returncode == 0 and "hot" in done.stdout, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_restore_the_terminal(terminal, busy, temporary, number):
    top = terminal(str(busy.pid))
    top.expect("  hot +busy$")
    os.kill(top.process.pid, number)
    assert top.end(None) == 0
    assert b"\x1b[?25h" in top.raw.rsplit(b"hot", 1)[1]  # the cursor is shown


def test_ctrl_c_is_a_key(terminal, busy, temporary):
    top = terminal(str(busy.pid))
    top.expect("  hot +busy$")
    assert top.end("\x03") == 0


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.mark.parametrize("how", ["key", "signal"])
def test_stop_and_go_on(terminal, busy, temporary, how):
    top = terminal(str(busy.pid))
    top.expect("  hot +busy$")
    if how == "key":
        top.type("\x1a")
    else:
        os.kill(top.process.pid, signal.SIGTSTP)
    wait_for(lambda: state(top.process.pid) == "T", "the stop")
    top.read()
    assert termios.tcgetattr(top.slave) == top.before
    top.screen.reset()  # somebody else wrote there meanwhile
    os.kill(top.process.pid, signal.SIGCONT)
    top.expect("  hot +busy$")
    assert top.end() == 0


def children(pid):
    return [int(word) for text in proc.thread_texts(pid, "children").values() for word in text.split()]


def test_killed_recorder(terminal, busy, temporary):
    top = terminal(str(busy.pid))
    top.expect("  hot +busy$")
    for pid in children(top.process.pid):
        os.kill(pid, signal.SIGKILL)
    top.expect(r"\[ended\]")
    assert top.end() == 1
    assert "the recorder was killed by signal 9" in top.raw.decode("utf-8", "replace")


def test_killed_view(terminal, infprof, busy, tmp_path, monkeypatch):
    """What a killed one leaves ends by itself; the next one removes it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    top = terminal(str(busy.pid))
    top.expect("  hot +busy$")
    recorders = children(top.process.pid)
    top.process.kill()
    top.process.wait()
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in recorders), "the end of the recorder")
    assert list(tmp_path.glob("infprof-top-*"))
    assert run([infprof, "top", "-b", "-n", "1", str(busy.pid)]).returncode == 0
    assert not list(tmp_path.glob("infprof-top-*"))


def test_target_that_ends(terminal, program, temporary):
    with running(program) as process:
        top = terminal(str(process.pid))
        top.expect("  hot +busy$")
        process.kill()
        process.wait()
    top.expect(r"\[ended\]")
    top.expect("  hot +busy$")  # what it was is still there
    assert top.end() == 0


def test_target_that_sleeps(terminal, program, temporary):
    with running(program, "sleeper", "sleeps") as process:
        top = terminal(str(process.pid))
        top.expect("the target used no CPU time")
        top.type("t")
        top.expect(r"sleeping in clock_nanoslee +sleeper \(busy\)$")
        assert top.end() == 0


def test_hostile_names(terminal, infprof, program, tmp_path, temporary):
    evil = tmp_path / "\x1b]0;owned\x07\x1b[31m"
    evil.write_bytes(program.read_bytes())
    evil.chmod(0o755)
    with running(evil, "\x1b[2J\x9b\n") as process:
        top = terminal(str(process.pid), columns=160)
        top.expect("  hot +")
        top.type("t")
        top.expect(r"\\x1B\[2J")
        assert b"owned\x07" not in top.raw and b"\x1b]0" not in top.raw and b"\x9b" not in top.raw
        assert top.end() == 0
        done = run([infprof, "top", "-b", "-n", "1", str(process.pid)])
        assert done.returncode == 0 and "\x1b" not in done.stdout and "\x07" not in done.stdout
        assert "\x1b" not in run([infprof, "top", "--json", "-n", "1", str(process.pid)]).stdout


# The recorder's files get their names late.
LATE = """\
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
        usleep(300000);
        return (int) syscall(SYS_renameat, from_fd, from, to_fd, to);
}
"""


def test_a_run_that_has_just_begun(infprof, busy, tmp_path, temporary):
    """It has a directory before it says what it is of."""
    (tmp_path / "late.c").write_text(LATE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "late.so", tmp_path / "late.c"], check=True)
    done = subprocess.run([infprof, "top", str(busy.pid), "--json", "-n", "1"], env={**os.environ, "LD_PRELOAD": str(tmp_path / "late.so")},
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "unknown" not in json.loads(done.stdout)["what"], done.stdout[:200]


def test_dumb_terminal_prints_lines(terminal, busy, temporary):
    top = terminal("-n", "2", str(busy.pid), TERM="dumb")
    assert top.end(None) == 0
    assert b"\x1b" not in top.raw and top.raw.count(b"infprof top ") == 2


def test_unknown_terminal_prints_lines(terminal, busy, temporary):
    top = terminal("-n", "1", str(busy.pid), TERM="no-such-terminal")
    assert top.end(None) == 0
    assert b"nothing is known of the terminal no-such-terminal (TERM)" in top.raw and b"\x1b" not in top.raw


def test_without_ncurses(terminal, busy, temporary, tmp_path):
    (tmp_path / "libncursesw.so.6").write_text("no library")
    top = terminal("-n", "1", str(busy.pid), LD_LIBRARY_PATH=str(tmp_path))
    assert top.end(None) == 0
    assert b"apt-get install libncursesw6" in top.raw and b"\x1b" not in top.raw and b"infprof top " in top.raw


def first_object(infprof, *words, condition, **options):
    """The first object that `top --json` prints for which the condition holds: names and states come as they are found."""
    process = subprocess.Popen([infprof, "top", "--json", "-n", "120", *map(str, words)], stdout=subprocess.PIPE, text=True, **options)
    try:
        return next(one for one in map(json.loads, process.stdout) if condition(one))
    finally:
        process.terminate()
        process.stdout.close()
        assert process.wait(timeout=60) == 0


def says_rights_alone(stderr):
    """Root is told nothing, another user what this user may not."""
    return all(re.search("perf_event_paranoid|BPF is not permitted", line) for line in stderr.splitlines())


def names_of(one):
    return {row["name"] for row in one["functions"]}


@pytest.mark.san
def test_lines_and_json(infprof, busy, temporary):
    done = run([infprof, "top", "-b", "-n", "3", "--rows", "5", str(busy.pid)])
    assert done.returncode == 0 and says_rights_alone(done.stderr) and done.stdout.count("infprof top ") == 3
    assert all(len(line) <= 160 for line in done.stdout.splitlines())
    last = done.stdout.split("infprof top ")[-1]
    assert len(re.findall(r"^ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+  \S", last, re.M)) <= 5
    done = run([infprof, "top", "--json", "-n", "2", str(busy.pid)])
    assert done.returncode == 0 and says_rights_alone(done.stderr) and len(done.stdout.splitlines()) == 2
    last = first_object(infprof, busy.pid, condition=lambda one: "hot" in names_of(one))
    hot = next(row for row in last["functions"] if row["name"] == "hot")
    assert hot["kind"] == "native" and 0 < hot["self_s"] <= hot["total_s"] <= last["sampled_s"] + 1e-6
    assert sum(row["self_s"] for row in last["functions"]) <= last["sampled_s"] + 1e-6
    assert {row["tid"] for row in last["threads"]} >= {busy.pid} and last["host"]["cpus"] > 0
    assert last["engine"] is None and last["gpus"] == []


PYTHON_PROGRAM = """
def inner():
    n = 0
    for i in range(200000): n += i
def outer():
    while True: inner()
outer()
"""


@pytest.mark.parametrize("calls", [[BPF], [BPF, PERF_EVENT_OPEN]])
def test_python_without_bpf(infprof, calls, temporary):
    """Python's functions are shown, as the profile of their own that they are; native ones where they were asked for."""
    refuse = refused(calls, errno.EPERM)
    with running(sys.executable, "-c", PYTHON_PROGRAM) as process:
        found = first_object(infprof, process.pid, condition=lambda one: "inner" in names_of(one), preexec_fn=refuse, stderr=subprocess.DEVNULL)
        assert found["mode"] == "python" and {row["kind"] for row in found["functions"]} == {"python"}, found
        found = first_object(infprof, process.pid, condition=lambda one: one["mode"] == "python" and one["threads"] and one["threads"][0]["cpu_s"] > 0,
                             preexec_fn=refuse, stderr=subprocess.DEVNULL)
        assert found["threads"][0]["tid"] == process.pid, found
        if PERF_EVENT_OPEN not in calls:
            found = first_object(infprof, "--mode", "cpu", process.pid, condition=lambda one: one["functions"], preexec_fn=refuse, stderr=subprocess.DEVNULL)
            assert found["mode"] == "cpu" and not {"inner", "outer"} & set(names_of(found)), found


def test_a_run_that_is_recorded(terminal, infprof, run_dir, program, temporary):
    """Without a target it reads the newest live run, and leaves it alone."""
    recorder = subprocess.Popen([infprof, "record", "--cpu", "--no-finish", "-o", run_dir, "--", program],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: list(run_dir.glob("*.infprof/stack_samples/*.arrows")), "samples")
        top = terminal()
        top.expect("  hot +busy$")
        top.type("w")
        top.expect("recorded by another infprof")
        assert top.end() == 0 and recorder.poll() is None
        assert first_object(infprof, "-r", run_dir, condition=lambda one: "hot" in names_of(one))["problem"] is None
        for words, option in ((["--cpu=200"], "cpu"), (["--engine", "off", "-r", run_dir], "engine"), (["-o", temporary], "output")):
            done = run([infprof, "top", "-b", "-n", "1", *words])
            assert done.returncode == 2 and f"--{option} is for a recording of top's own" in done.stderr, done.stderr
    finally:
        recorder.terminate()
        recorder.wait(timeout=60)
    done = run([infprof, "top", "-b", "-n", "1", "-r", run_dir])
    assert done.returncode == 1 and "no longer recorded" in done.stderr


def test_count_and_rows_on_a_terminal(terminal, busy, temporary):
    top = terminal("--rows", "1", "-n", "20", str(busy.pid))
    top.expect("  hot +busy$")
    assert "libc.so" not in top.text(), top.text()
    assert top.end(None) == 0


def test_engine(terminal, busy, server, temporary):  # noqa: F811
    """Figures of an engine stand above: gauges as they are, tokens as a rate."""
    began = time.monotonic()

    def page(handler):
        tokens = int(1000 * (time.monotonic() - began))
        body = ("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\n"
                "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 2\n"
                "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.25\n"
                f"# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total {tokens}\n").encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    one = server()
    one.answers["/metrics"] = page
    top = terminal("--engine", one.url("/metrics"), str(busy.pid))
    found = top.expect(r"^vllm ([\d,.]+) tokens/s, .*3 running, 2 waiting, KV cache 25 %", 90)
    assert 500 < float(found.group(1).replace(",", "")) < 2000
    assert top.end() == 0


def test_no_permission(infprof, busy, temporary):
    """Without perf events it says so where the functions would be, with the fix; threads are there all the same."""
    done = run([infprof, "top", "-b", "-n", "3", str(busy.pid)], preexec_fn=refused([PERF_EVENT_OPEN], errno.EPERM))
    assert done.returncode == 0
    last = done.stdout.split("infprof top ")[-1]
    assert "perf_event_open" in last and "cap_perfmon" in last.lower().replace("--cap-add perfmon", "cap_perfmon"), last
    wanted = {"running", "sleeping in clock_nanosleep"}
    last = first_object(infprof, busy.pid, condition=lambda one: {row["state"] for row in one["threads"]} >= wanted,
                        preexec_fn=refused([PERF_EVENT_OPEN], errno.EPERM), stderr=subprocess.DEVNULL)
    assert last["functions"] == [] and last["problem"] and last["fix"]


@pytest.mark.parametrize("words, code, said", [
    (["999999999"], 1, "there is no process 999999999"),
    (["none"], 2, "--pid none: not a process number"),
    (["--port", "0"], 2, "--port 0: a TCP port is from 1 to 65535"),
    (["--cpu=9999"], 2, "the rate must be 1 to 4,000"),
    (["-t", "10ms"], 2, "--interval 10ms: from 1s to 1h"),
    (["--by", "lies"], 2, "--by lies: functions, lines or threads"),
    (["--mode", "x"], 2, "--mode x: cpu, python or wall"),
    (["--filter", "("], 2, "--filter: "),
    (["-n", "0"], 2, "--count 0: a number from 1"),
    (["--name", "a", "--port", "80"], 2, "only one of"),
    (["--machine", "1"], 2, "only one of"),
    (["-r", "/nonexistent"], 1, "/nonexistent"),
    (["--machine", "--mode", "wall"], 2, "--mode wall needs a target"),
])
def test_bad_words(infprof, temporary, words, code, said):
    done = run([infprof, "top", "-b", *words])
    assert done.returncode == code and said in done.stderr and not done.stdout, done.stderr
    assert len(done.stderr.splitlines()) == 1
