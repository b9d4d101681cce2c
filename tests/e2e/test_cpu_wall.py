"""record --wall: every thread of a target with what it waits for and where, read without stopping it."""
import errno
import os
import pathlib
import re
import subprocess
import sys

import pytest

import waits
from program import query, run
from refuse import PERF_EVENT_OPEN, PROCESS_VM_READV, refused

KINDS = ["nap", "lock", "read", "busy"]
HZ = 100
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(scope="session")
def waiter(tmp_path_factory):
    path = waits.build(tmp_path_factory.mktemp("waiter"))
    for parent in path.parents:  # others may run it
        if parent != pathlib.Path("/tmp") and str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    return path


def user_words(directory):
    """Words before a program that run it without rights, and may write into the directory."""
    number = str(20000 + os.getpid() % 20000)
    directory.mkdir(exist_ok=True)
    os.chown(directory, int(number), int(number))
    for parent in directory.parents:
        if parent != pathlib.Path("/tmp") and str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    return ["setpriv", "--reuid", number, "--regid", number, "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
            "env", "-u", "XDG_RUNTIME_DIR", "HOME=/nowhere"]


def last(recorded):
    return [row for row in recorded.table("sampler") if row["mode"] == "wall"][-1]


def check(recorded, stdout, waiter):
    """Shares of states, and the functions that wait, against what the threads say of themselves."""
    found = waits.rows(recorded, "wall", {"cpu_waiter": waiter})
    answers, sampler = waits.truths(stdout), last(recorded)
    kept = 1 - sampler["lost"] / sampler["wanted"]  # rounds that were not too late, on a machine that has no time for us either
    assert kept > 0.3
    assert [one.kind for one in answers if one.errors] == []  # nothing interrupts a system call
    assert sorted(one.kind for one in answers) == sorted(KINDS)
    for one in answers:
        total = waits.seconds(found, tid=one.tid)
        # It is found at the first drain behind its exec.
        assert abs(total / kept - one.life) < 0.1 * one.life + 0.3, (one, total, kept)
        if one.kind == "busy":
            assert waits.seconds(found, tid=one.tid, state=None) > 0.9 * total
            continue
        waiting = waits.seconds(found, tid=one.tid, function=f"wait_{one.kind}")
        share, truth = waiting / total, one.waited / one.life
        n = total * HZ
        # Of each stretch one random moment: the error is below that of n independent draws; 4 sigma of those.
        others = [(row.t_ns, row.state, row.samples, row.is_truncated, [frame.name for frame in row.frames]) for row in found
                  if row.tid == one.tid and f"wait_{one.kind}" not in [frame.name for frame in row.frames]]
        assert abs(share - truth) < 4 * (0.25 / n) ** 0.5, (one, share, others)
        state = {"nap": "sleeping in clock_nanosleep", "lock": "sleeping in futex", "read": "sleeping in read"}[one.kind]
        assert waits.seconds([row for row in found if row.tid == one.tid and f"wait_{one.kind}" in [frame.name for frame in row.frames]],
                             state=state) > 0.9 * waiting, (one, found[:3])
    return found


def test_states_and_stacks(record, waiter):
    done = record(f"--wall={HZ}", "--no-finish", command=[waiter, 2, *KINDS])
    assert done.returncode == 0, done.stderr
    found = check(done.run, done.stdout, waiter)
    for row in found:
        names = [frame.name for frame in row.frames]
        if "wait_nap" not in names:
            continue
        assert not row.is_truncated
        assert names[names.index("wait_nap") - 1] == "work"
        if row.state:
            assert "sys_clock_nanosleep" in names[names.index("wait_nap"):]
    sampler = last(done.run)
    assert sampler["method"] == "reading /proc" and sampler["rate_hz"] == HZ
    assert sampler["taken"] == sum(row.samples for row in found)
    assert sampler["wanted"] == sampler["taken"] + sampler["lost"] + sampler["dropped"]
    assert sampler["own_cpu_ns"] > 0
    assert sampler["torn"] <= 0.05 * sampler["taken"]
    modes = {row["mode"] for row in done.run.table("stack_samples")}
    assert modes == {"wall"}  # the CPU's clock is there for threads that run; nobody asked for its own rows


@pytest.mark.san
def test_beside_the_cpu(record, waiter):
    done = record("--wall", "--cpu", "--no-finish", command=[waiter, 1, "busy", "nap"])
    assert done.returncode == 0, done.stderr
    found = waits.rows(done.run, "wall", {"cpu_waiter": waiter})
    [busy] = [one for one in waits.truths(done.stdout) if one.kind == "busy"]
    running = [row for row in found if row.tid == busy.tid and row.state is None]
    if last(done.run)["taken"] and {row["mode"] for row in done.run.table("stack_samples")} == {"wall", "cpu"}:
        assert waits.seconds(running, function="spin") > 0.6 * waits.seconds(running)


@needs_root
def test_without_rights(infprof, run_dir, waiter):
    done = run([*user_words(run_dir), infprof, "record", "-o", run_dir, f"--wall={HZ}", "--no-finish", "--", waiter, 2, *KINDS])
    assert done.returncode == 0, done.stderr
    check(run_dir.run(), done.stdout, waiter)


@pytest.mark.parametrize("calls, has_stacks", [
    ([PERF_EVENT_OPEN], True),
    ([PERF_EVENT_OPEN, PROCESS_VM_READV], True),  # by /proc/PID/mem
])
def test_refused_by_a_filter(record, waiter, calls, has_stacks):
    # Without perf a new process is found at a tick.
    done = record("--wall=50", "-t", "100", "--no-finish", command=[waiter, 1, "nap"], preexec_fn=refused(calls, errno.EPERM))
    assert done.returncode == 0, done.stderr
    found = waits.rows(done.run, "wall", {"cpu_waiter": waiter})
    assert (waits.seconds(found, function="wait_nap") > 0) == has_stacks


@needs_root
def test_a_target_that_hides(infprof, run_dir, waiter):
    """Not dumpable: its stacks and system calls are root's alone. States are told all the same, and why there is no more."""
    done = run([*user_words(run_dir), infprof, "record", "-o", run_dir, "--wall=50", "--no-finish", "--", "env", "CPU_WAITER_HIDES=1",
                waiter, 1, "nap"])
    assert done.returncode == 0, done.stderr
    recorded = run_dir.run()
    [nap] = waits.truths(done.stdout)
    found = [row for row in waits.rows(recorded, "wall", {"cpu_waiter": waiter}) if row.tid == nap.tid]
    assert waits.seconds(found, state="sleeping") > 0.5 * waits.seconds(found)
    assert waits.seconds(found, function="wait_nap") < 0.2 * waits.seconds(found)  # before it hid itself
    [row] = [row for row in recorded.table("sources") if row["instance"] == "wall" and row["column_name"] == "stack"]
    assert row["state"] == "denied" and "CAP_SYS_PTRACE" in row["fix"], row
    assert "Permission denied" in row["reason"] or "Operation not permitted" in row["reason"], row  # as it is opened, as it is read


# ---- whole stacks of a program with many ways to wait ----

PYTHON = """
import threading, time, queue, select, os, socket, asyncio
def lock():
    l = threading.Lock(); l.acquire(); l.acquire()
def pipe():
    r, w = os.pipe(); os.read(r, 1)
def poll():
    p = select.poll(); r, w = os.pipe(); p.register(r); p.poll()
def accept():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); s.accept()
ways = [lock, pipe, poll, accept, lambda: queue.Queue().get(), lambda: queue.Queue().get(timeout=1000), lambda: time.sleep(1000),
        lambda: threading.Event().wait(), lambda: select.epoll().poll(), lambda: select.select([], [], [], 1000),
        lambda: asyncio.run(asyncio.sleep(1000))]
for way in ways:
    threading.Thread(target=way, daemon=True).start()
time.sleep(1)
print("ready", flush=True)
time.sleep(1000)
"""


def elfutils_stacks(pid):
    """{tid: addresses, the innermost first} by eu-stack, which stops the threads."""
    text = subprocess.run(["eu-stack", "-n", "512", "-p", str(pid)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    found, tid = {}, None
    for line in text.splitlines():
        if line.startswith("TID "):
            tid = int(line[4:].rstrip(":").split()[0])
            found[tid] = []
        elif (match := re.match(r"#\d+ +0x([0-9a-f]+)", line)) and tid:
            found[tid].append(int(match[1], 16))
    return found


def first_mappings(pid):
    """{path: the address of its first byte}."""
    found = {}
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split()
        if len(words) > 5 and words[5] not in found:
            found[words[5]] = int(words[0].split("-")[0], 16)
    return found


def test_whole_stacks_of_python(infprof, run_dir):
    with subprocess.Popen(["/usr/bin/python3", "-c", PYTHON], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            done = run([infprof, "record", "-o", run_dir, "--wall", "--python=off", "--no-finish", "--duration", "1.5", "--pid", process.pid])
            assert done.returncode == 0, done.stderr
            truth, begins = elfutils_stacks(process.pid), first_mappings(process.pid)
            state = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.kill()
    assert re.search(r"^TracerPid:\t0$", state, re.MULTILINE)
    newest = {row.tid: row for row in waits.rows(run_dir.run(), "wall")}
    assert set(newest) == set(truth) and len(truth) == 12
    for tid, row in newest.items():
        ours = [frame for frame in reversed(row.frames) if frame.kind != "kernel"]
        assert not row.is_truncated, (tid, row.state)
        assert len(ours) == len(truth[tid]), (tid, row.state)
        for i, (frame, address) in enumerate(zip(ours, truth[tid])):
            at = address - (i > 0)  # of a caller, the call
            assert at in (frame.address, frame.address + begins[frame.object]), (tid, i, frame, hex(address))
        assert row.state.startswith("sleeping in ")


# ---- bounds ----

MANY = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *wait_for_ever(void *unused) { for (;;) pause(); return unused; }
int main(int argc, char **argv)
{
        pthread_attr_t small;
        pthread_t id;
        int n = argc > 1 ? atoi(argv[1]) : 1, made = 0;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 65536);
        while (made < n && pthread_create(&id, &small, wait_for_ever, NULL) == 0)
                made++;
        printf("%d\\n", made);
        fflush(stdout);
        pause();
}
"""


def test_thousands_of_threads(infprof, run_dir, tmp_path):
    """At most 20,000 reads a second, said; shares and totals stay right."""
    (tmp_path / "many.c").write_text(MANY)
    subprocess.run(["gcc", "-O2", tmp_path / "many.c", "-o", tmp_path / "many", "-pthread"], check=True)
    with subprocess.Popen([tmp_path / "many", "4000"], stdout=subprocess.PIPE, text=True) as process:
        try:
            n = int(process.stdout.readline()) + 1
            if n < 4001:
                pytest.skip(f"only {n} threads may be started here")
            duration = 4
            # A program inherits the peak of its starter: the shell's is small.
            done = run(["sh", "-c", '"$@"; exit $?', "sh", infprof, "record", "-o", run_dir, "--wall", "--no-finish", "--duration", duration,
                        "--pid", process.pid])
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr
    recorded = run_dir.run()
    assert max(row["self_rss_peak_bytes"] for row in recorded.table("self")) < 400 << 20
    sampler, found = last(recorded), recorded.table("stack_samples")
    assert sampler["taken"] <= 20000 * (duration + 1)
    assert sampler["rate_hz"] <= 5.01
    assert len(found) <= n * (duration + 2)  # a thread that does not run has a row a second
    assert len({row["tid"] for row in found}) == n
    total = sum(row["weight"] for row in found)
    kept = (sampler["taken"] - n) / sampler["wanted"]  # the first round stands for 1/20 s: nothing has said yet how many there are
    assert 0.5 * n * duration * kept < total < 1.1 * n * duration, (total, sampler)
    said = [row for row in recorded.table("sources") if row["instance"] == "wall" and row["state"] == "late"]
    assert said and "4,001 threads are read" in said[-1]["reason"]


def test_new_processes_and_threads(record, waiter):
    """What a shell starts is seen from its beginning, not from the next look at the machine."""
    done = record("--wall=50", "-t", 5000, "--no-finish", command=["sh", "-c", f"sleep 0.3; {waiter} 1 nap; true"])
    assert done.returncode == 0, done.stderr
    [nap] = waits.truths(done.stdout)
    found = waits.rows(done.run, "wall", {"cpu_waiter": waiter})
    if last(done.run)["taken"] and any(row["collector"] == "sampler" and row["instance"] == "perf" and row["state"] == "denied"
                                       for row in done.run.table("sources")):
        pytest.skip("without perf events new processes are found by the next look")
    assert waits.seconds(found, tid=nap.tid) > 0.6 * nap.life * (1 - last(done.run)["lost"] / last(done.run)["wanted"])


def test_no_target(record):
    done = record("--wall", "--duration", "0.3", "--no-finish")
    assert done.returncode == 0, done.stderr
    [row] = [row for row in done.run.table("sources") if row["collector"] == "sampler" and row["instance"] == "wall"]
    assert "--wall reads the threads of a target" in row["reason"]
    assert row["reason"] in done.stderr


def test_a_name_belongs_to_a_time(infprof, run_dir):
    """A process that renames itself (setproctitle, vLLM's workers) is called what it was called then."""
    code = "import ctypes, time\ndef burn(s):\n    end = time.monotonic() + s\n    while time.monotonic() < end: pass\nburn(.5); ctypes.CDLL(None).prctl(15, b'AAA::Worker'); burn(.5)"
    subprocess.run([infprof, "record", "-o", str(run_dir), "-t", "50", "--wall=100", "--no-finish", "--", sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)
    rows = query(infprof, run_dir, "SELECT t_ns, pName FROM samples_named ORDER BY t_ns")
    old, new = query(infprof, run_dir, "SELECT pName, min(t_ns) AS t_ns FROM process GROUP BY pName ORDER BY t_ns")
    assert new["pName"] == "AAA::Worker"
    assert [row["pName"] for row in rows] == [(old if row["t_ns"] < new["t_ns"] else new)["pName"] for row in rows]
    assert {row["pName"] for row in rows} == {old["pName"], new["pName"]}
