"""Nothing that is sampled is changed: signals, state, descriptors, memory map, limits and speed are as before, whatever happens to
the recorder. INFPROF_ATTACH_ROUNDS sets how often it comes and goes."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import threading
import time

import pytest

import proc
from stacks import Profile
from waiting import wait_for

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = int(os.environ.get("INFPROF_ATTACH_ROUNDS", 100))
AT_ONCE, LONGEST_PAUSE_S = (4, 0.1) if ROUNDS <= 1000 else (8, 0.02)
# Lines of /proc/PID/status that say what a process is, not what it does.
KEPT = re.compile(r"Name|Umask|Tgid|Ngid|Pid|PPid|TracerPid|Uid|Gid|FDSize|Groups|NStgid|NSpid|NSpgid|NSsid|Threads|SigPnd|ShdPnd|"
                  r"SigBlk|SigIgn|SigCgt|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp|Seccomp_filters|Cpus_allowed|"
                  r"Mems_allowed|CoreDumping|THP_enabled|x86_Thread_features")


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("victim") / "cpu_victim"
    subprocess.run(["gcc", "-O2", "-g", "-fomit-frame-pointer", "-D_GNU_SOURCE", "-Wall", HERE / "cpu_victim.c", "-o", path, "-pthread"],
                   check=True)
    return path


def read(path):
    with open(path, errors="replace") as file:
        return file.read()


class Victim:
    def __init__(self, program, n_threads=4):
        self.process = subprocess.Popen([str(program), str(n_threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def ask(self):
        """What it noticed since the last time."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def state(self):
        """All of it that a debugger, a preloaded library or a signal would change."""
        top, state = f"/proc/{self.pid}", {}
        for task, status in proc.thread_texts(self.pid, "status").items():
            lines = [line.split(":", 1) for line in status.splitlines()]
            one = state[f"thread {task}"] = {name: value.strip() for name, value in lines if KEPT.fullmatch(name)}
            stat = read(f"{top}/task/{task}/stat").rsplit(")", 1)[1].split()
            one["sched"] = [stat[i] for i in (15, 16, 37, 38)]  # priority, nice, real-time priority, policy
            one["slack"] = read(f"{top}/task/{task}/timerslack_ns") if os.path.exists(f"{top}/task/{task}/timerslack_ns") else ""
        state["descriptors"] = proc.descriptors(self.pid)
        state["maps"] = read(f"{top}/maps")
        for name in ("limits", "oom_score_adj", "cgroup", "personality", "coredump_filter", "timers", "environ", "auxv"):
            state[name] = read(f"{top}/{name}") if os.path.exists(f"{top}/{name}") else ""
        return state

    def differs(self, before):
        """What is not as it was, by name."""
        now = self.state()
        lines = {}
        for name in sorted(set(now) | set(before)):
            new, old = now.get(name), before.get(name)
            if new != old and isinstance(new, dict) and isinstance(old, dict):
                lines.update({f"{name}/{key}": (old.get(key), new.get(key)) for key in {*old, *new} if old.get(key) != new.get(key)})
            elif new != old:
                lines[name] = old, new
        return lines

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def victim(program):
    one = Victim(program)
    yield one
    one.end()


class Watch(threading.Thread):
    """Sees whether it is ever stopped or traced."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.seen, self.is_over, self.looks = pid, set(), False, 0

    def run(self):
        while not self.is_over:
            for text in proc.thread_texts(self.pid, "status").values():
                self.seen.add((re.search(r"State:\s+(\S)", text)[1], re.search(r"TracerPid:\s+(\d+)", text)[1]))
            self.looks += 1
            time.sleep(0.01)  # sleep: between two looks

    def end(self):
        self.is_over = True
        self.join()
        return self.seen


def record_words(infprof, output, pid, *options):
    return [infprof, "record", "-o", str(output), "--no-snapshots", "--no-finish", "--cpu=1000", *options, "--pid", str(pid)]


def compare_speed(victim, fresh):
    """How much more CPU time a unit of work takes than in one that was never sampled: the median of pairs at the same time."""
    try:
        ratios = []
        for _ in range(15):
            time.sleep(0.1)  # sleep: both work meanwhile
            ratios.append(victim.ask()["median_us"] / fresh.ask()["median_us"])
        return statistics.median(ratios)
    finally:
        fresh.end()


def test_coming_and_going(infprof, program, victim, tmp_path):
    """Recorders that attach, several at a time, and are killed or ended at any moment."""
    randomness = random.Random(6)
    victim.ask()  # its first answer allocates
    state = victim.state()
    watch = Watch(victim.pid)
    watch.start()
    running, ended = [], 0

    def end_one():
        process, output, number = running.pop(0)
        process.send_signal(number)
        process.communicate(timeout=60)
        shutil.rmtree(output, ignore_errors=True)

    for i in range(ROUNDS):
        output = tmp_path / str(i)
        words = record_words(infprof, output, victim.pid, *randomness.choice([[], ["--wall"], ["--off-cpu"], ["--wall", "--off-cpu"]]))
        number = randomness.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT])
        running.append((subprocess.Popen(words, stderr=subprocess.DEVNULL, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}),
                        output, number))
        time.sleep(randomness.uniform(0, LONGEST_PAUSE_S))  # sleep: any moment will do
        if len(running) == AT_ONCE:
            end_one()
    while running:
        end_one()
    victim.ask()
    seen = watch.end()
    wait_for(lambda: (after := victim.ask())["calls"] > 100 and after, "a hundred waits of the target")
    slower = compare_speed(victim, Victim(program))
    after = victim.ask()
    assert not victim.differs(state)
    assert watch.looks > 10
    assert {traced for _, traced in seen} == {"0"}, seen
    assert not {"T", "t"} & {letter for letter, _ in seen}, seen
    # Our own child: the kernel would have told us of a stop.
    assert os.waitid(os.P_PID, victim.pid, os.WSTOPPED | os.WCONTINUED | os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    assert after["signals"] == after["interrupted"] == after["short"] == 0, after
    assert slower <= 1.15


def test_the_end_of_the_recorder_ends_the_sampling(infprof, victim, tmp_path):
    """kill -9 of the recorder of a command: it goes on to its end."""
    begun, marker = tmp_path / "begun", tmp_path / "done"
    process = subprocess.Popen([infprof, "record", "-o", str(tmp_path / "out"), "--cpu=1000", "--", "sh", "-c",
                                f"echo > {begun}; i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo $i > {marker}"], stderr=subprocess.DEVNULL)
    wait_for(begun.exists, "the command's start")
    process.kill()
    process.wait()
    wait_for(lambda: marker.exists() and marker.read_text() == "200000\n", "the end of the command")


def test_no_call_touches_the_target(infprof, victim, tmp_path):
    """Nothing that stops, signals, writes to or moves it."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed: no system calls to look at")
    calls = ("ptrace,kill,tkill,tgkill,rt_sigqueueinfo,rt_tgsigqueueinfo,pidfd_send_signal,process_vm_writev,process_madvise,prlimit64,"
             "sched_setaffinity,sched_setscheduler,sched_setparam,sched_setattr,setpriority,ioprio_set,migrate_pages,move_pages,"
             "pidfd_getfd,setpgid,kcmp,process_mrelease")
    words = record_words(infprof, tmp_path / "out", victim.pid, "--wall", "--off-cpu", "--duration", "2")
    done = subprocess.run(["strace", "-f", "-qq", "-o", str(tmp_path / "calls"), "-e", f"trace={calls}", *words], stderr=subprocess.PIPE,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    tasks = set(map(str, proc.threads(victim.pid)))
    for line in (tmp_path / "calls").read_text().splitlines():
        arguments = re.match(r"\d+\s+(?:<\.\.\. )?(\w+)\((.*)", line)
        if arguments and set(re.findall(r"\b\d+\b", arguments[2])) & tasks:
            # Asking whether it lives, and reading a limit, change nothing.
            assert re.search(r"kill\(\d+, 0\)|prlimit64\(\d+, \w+, NULL,|pidfd_send_signal\(\d+, 0,", line), line
    asked = victim.ask()
    assert asked["signals"] == asked["interrupted"] == 0, asked


def test_at_the_highest_rate(infprof, victim, tmp_path):
    """No call ends early, no signal comes, at 4,000 Hz with wall-clock and off-CPU samples."""
    victim.ask()  # its first answer allocates: before that its memory is another
    state = victim.state()
    words = [infprof, "record", "-o", str(tmp_path), "--no-snapshots", "--cpu=4000", "--wall=50", "--off-cpu", "--duration", "2", "--pid",
             str(victim.pid)]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    asked = victim.ask()
    assert asked["signals"] == asked["interrupted"] == asked["short"] == 0, asked
    assert not victim.differs(state)


def test_samples_are_taken_meanwhile(infprof, victim, program, run_dir):
    """The tests above look at a recorder that does sample."""
    done = subprocess.run([*record_words(infprof, run_dir, victim.pid), "--duration", "1"], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    profile = Profile(run_dir.run(), {"cpu_victim": program})
    working = sum("unit" in one.names for one in profile.samples)
    assert working > 30 and working >= 0.8 * len(profile.samples), (working, len(profile.samples))
