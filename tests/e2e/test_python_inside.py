"""--python=inside: the sampler that is preloaded into the command. What its stacks say, that each process has one source of samples, and
that no program runs in another way because of it."""
import collections
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from namespaces import unshare
from program import run
from pythons import PYTHONS
from refuse import BPF, PERF_EVENT_OPEN, refused
from test_cpu import needs_paranoid, needs_root, user  # noqa: F401 (a fixture)
from test_python_record import ONE, SOME, TRUTH, Recording, check_generated, check_spin, check_truth, extension, generated, score, spin, version_of  # noqa: F401 (fixtures)
from waiting import wait_for

HERE = pathlib.Path(__file__).resolve().parent
HZ = 250  # what most kernels give at most
pytestmark = pytest.mark.skipif(not PYTHONS, reason="no Python to record")
TWO_SPIN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: sum(range(20000))\n"  # the call alone is time in the kernel, which not everybody may see


class Inside(Recording):
    def check_merged(self):
        """At least 98 percent; the last samples of a short run may have been on their way."""
        bad = {name: self.sampler[f"python_{name}"] for name in ("unmerged", "torn", "missed")}
        whole = self.sampler["python_merged"] + sum(bad.values())
        assert self.sampler["python_merged"] > 0, self.sampler
        assert sum(bad.values()) <= 0.02 * whole + 4, (bad, whole)
        assert bad["torn"] <= 0.005 * whole + 1, (bad, whole)


@pytest.fixture
def sample(infprof, record):
    """sample(command, options...): a recording from inside, without perf events and BPF."""
    def call(command, *options, code=0, **arguments):
        done = record(f"--cpu={HZ}", "--python=inside", "--no-snapshots", *options, command=command,
                      preexec_fn=refused([PERF_EVENT_OPEN, BPF], errno.EPERM), **arguments)
        assert done.returncode == code, done.stderr
        return Inside(infprof, done)

    return call


def weights(found):
    """{pid: seconds} of mode cpu."""
    pids = {row["id"]: row["pId"] for row in found.run.table("process")}
    seconds = collections.Counter()
    for row in found.run.table("stack_samples"):
        if row["mode"] == "cpu":
            seconds[pids[row["process"]]] += row["weight"]
    return seconds


# ---- what the stacks say ----

@pytest.mark.skipif(not TRUTH.exists(), reason="no ../shared/truth here")
@pytest.mark.parametrize("name", PYTHONS)
def test_mixed(sample, score, extension, name):  # noqa: F811
    words, environment = PYTHONS[name]
    found = sample([*words, TRUTH / "mixed.py", "-s", "1.2", "-t", "2", "-n", "3"],
                   env={**os.environ, **environment, "MIXED_EXT_DIR": str(extension(name))})
    check_truth(score, found, json.loads(found.done.stdout))
    found.check_merged()
    assert "inside" in found.sampler["python_method"] and found.sampler["method"] == "signal timers"


@pytest.mark.skipif(not TRUTH.exists(), reason="no ../shared/truth here")
@pytest.mark.parametrize("mode", ["plain", "recursion", "generator", "asyncio", "flip"])
@pytest.mark.parametrize("name", SOME)
def test_busy_split(sample, score, name, mode):  # noqa: F811
    words, environment = PYTHONS[name]
    found = sample([*words, TRUTH / "busy_split.py", "-s", "1", "-m", mode], env={**os.environ, **environment})
    check_truth(score, found, json.loads(found.done.stdout))
    found.check_merged()


@pytest.mark.parametrize("name", PYTHONS)
def test_names_and_lines(sample, spin, name):  # noqa: F811
    words, environment = PYTHONS[name]
    found = sample([*words, spin, "0.7"], env={**os.environ, **environment})
    check_spin(found, spin, version_of(name))
    assert found.sampler["python_processes"] == 1 and found.sampler["python_unnamed"] == 0


@pytest.mark.parametrize("name", SOME)
def test_code_in_the_place_of_other_code(sample, generated, name):  # noqa: F811
    words, environment = PYTHONS[name]
    check_generated(sample([*words, generated], env={**os.environ, **environment}))


def test_another_python_in_the_same_process(sample, tmp_path, spin):  # noqa: F811
    program = tmp_path / "execs.py"
    words, environment = PYTHONS[SOME[0]]
    program.write_text(TWO_SPIN.format(0.5) + f"import os\nos.execve({words[0]!r}, {[*words, str(spin), '0.7']!r}, "
                       f"{{**os.environ, **{environment!r}}})\n")
    found = sample([*PYTHONS[ONE][0], program])
    frames = {function for function, _ in found.python_frames()}
    assert {"<module>"} | ({"step"} if version_of(SOME[0]) < (3, 11) else {"Model.step"}) <= frames, frames
    assert found.sampler["python_processes"] == 2
    found.check_merged()


def test_workers(sample, tmp_path):
    """Children of fork have a file and timers of their own, from their first CPU time on."""
    program = tmp_path / "pool.py"
    program.write_text("import multiprocessing, os, time\n"
                       "def work(n):\n    end = time.process_time() + 0.5\n    while time.process_time() < end: pass\n    return os.getpid()\n"
                       "if __name__ == '__main__':\n"
                       "    with multiprocessing.get_context('fork').Pool(2) as pool: print(*set(pool.map(work, range(4), chunksize=2)))\n")
    found = sample([*PYTHONS[ONE][0], program])
    seconds = weights(found)
    for worker in map(int, found.done.stdout.split()):
        assert 0.7 < seconds[worker] < 1.2, seconds
    assert sum(count for names, count in found.stacks if "work" in names) > 0.9 * sum(count for _, count in found.stacks)
    found.check_merged()


def test_threads(sample, tmp_path):
    """Threads that begin late, and a library (zlib) that releases the GIL."""
    program = tmp_path / "threads.py"
    program.write_text("import threading, time, zlib\n"
                       "def work():\n    data = bytes(range(256)) * 4096\n    end = time.thread_time() + 0.8\n"
                       "    while time.thread_time() < end: zlib.compress(data, 9)\n"
                       "time.sleep(0.3)\nall = [threading.Thread(target=work) for _ in range(3)]\n"
                       "[one.start() for one in all]\n[one.join() for one in all]\n")
    found = sample([*PYTHONS[ONE][0], program])
    seconds = collections.Counter()
    for row in found.run.table("stack_samples"):
        if row["mode"] == "cpu":
            seconds[row["tid"]] += row["weight"]
    assert sum(0.6 < one < 1.0 for one in seconds.values()) == 3, seconds
    assert sum(count for names, count in found.stacks if "work" in names) > 0.8 * sum(count for _, count in found.stacks)
    found.check_merged()


@needs_root
@pytest.mark.parametrize("proc", ["of its own", "ours"])
def test_threads_of_a_container(sample, tmp_path, proc):
    """A process writes the numbers of its own pid namespace; rows have ours, of all its threads."""
    program, words = tmp_path / "threads.py", PYTHONS[ONE][0]
    program.write_text(f"""\
import glob, os, threading, time
def work():
    end = time.thread_time() + 0.4
    while time.thread_time() < end: pass
threads = [threading.Thread(target=work) for _ in range(3)]
for one in threads: one.start()
outer = {{}}
proc = {str(tmp_path / "proc")!r}
for path in glob.glob(f"{{proc}}/{{os.readlink(f'{{proc}}/self')}}/task/*/status"):
    with open(path) as file:
        outer[int(next(line for line in file if line.startswith("NSpid:")).split()[-1])] = path.split("/")[-2]
for one in threads: print(outer[one.native_id], flush=True)
for one in threads: one.join()
""")
    (tmp_path / "proc").mkdir()
    own = "mount -t proc proc /proc; " if proc == "of its own" else ""
    found = sample([*unshare("--pid", "--fork", "--kill-child"), "sh", "-ec", f'mount --rbind /proc {tmp_path / "proc"}; {own}exec "$@"', "-", *words, program])
    tids = set(map(int, found.done.stdout.split()))
    seconds = collections.Counter()
    for row in found.run.table("stack_samples"):
        if row["mode"] == "cpu":
            seconds[row["tid"]] += row["weight"]
    assert len(tids) == 3 and min(tids) > 10 and all(0.2 < seconds[tid] < 0.6 for tid in tids), (tids, seconds)
    found.check_merged()


def test_more_than_the_kernel_gives(infprof, record, spin):  # noqa: F811
    done = record("--cpu=4000", "--python=inside", "--no-finish", command=[*PYTHONS[ONE][0], spin, "0.5"],
                  preexec_fn=refused([PERF_EVENT_OPEN, BPF], errno.EPERM))
    assert re.search(r"takes at most \d+ samples a CPU-second, one a tick of the kernel's clock, instead of 4,000", done.stderr), done.stderr


def test_a_recorder_that_was_stopped(sample, tmp_path):
    """Sampling goes on when it goes on, and what is missing is said."""
    program = tmp_path / "stops.py"
    program.write_text("""\
import os, signal, time
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
def early(): spin(1)
def late(): spin(2.5)
early()
os.kill(os.getppid(), signal.SIGSTOP)
end = time.monotonic() + 6
while time.monotonic() < end: spin(0.01)
spin(0.5)
os.kill(os.getppid(), signal.SIGCONT)
late()
""")
    found = sample([*PYTHONS[ONE][0], program])
    assert sum(count for names, count in found.stacks if "early" in names) > 0.2 * HZ
    assert sum(count for names, count in found.stacks if "late" in names) > 0.2 * HZ
    assert "more CPU time than" not in found.done.stderr, found.done.stderr
    assert re.search(r"process \d+ was not sampled from inside for a part of the last \d+\.\d s", found.done.stderr), found.done.stderr
    assert found.sampler["wanted"] > (sum(weights(found).values()) + 0.3) * HZ, found.sampler


# ---- one source for each process ----

def test_perf_leaves_it_alone(infprof, record, spin):  # noqa: F811
    """With perf events beside it, the process is sampled from inside, and others by perf."""
    program = f"{sys.executable} {spin} 0.7; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    done = record(f"--cpu={HZ}", "--python=inside", "--no-snapshots", command=["sh", "-c", program])
    assert done.returncode == 0, done.stderr
    found = Inside(infprof, done)
    names = {row["pId"]: row["pName"] for row in done.run.table("process")}
    seconds = collections.Counter()
    for pid, one in weights(found).items():
        seconds[names[pid]] += one
    assert found.sampler["replaced"] > 0.2 * 0.7 * HZ, found.sampler
    [python] = [one for name, one in seconds.items() if name.startswith("python")]
    assert 0.5 < python < 0.7 + 0.3, seconds  # the interpreter's start, too; twice it would be 1.4
    assert seconds["sh"] > 0.05, seconds


@needs_root
@needs_paranoid
def test_a_normal_user_needs_not_ask(infprof, run_dir, user, spin):  # noqa: F811
    """--python=auto: no BPF for him."""
    home = run_dir.parent / "home"
    home.mkdir()
    os.chown(home, int(user[2]), int(user[2]))
    words = [word if word != "HOME=/nowhere" else f"HOME={home}" for word in user] + ["INFPROF_RING=1"]
    if not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("no Python that everybody may run")
    done = run([*words, infprof, "record", f"--cpu={HZ}", "--no-snapshots", "-o", run_dir, "--", "/usr/bin/python3", spin, "0.7"])
    assert done.returncode == 0, done.stderr
    done.run = run_dir.run()
    found = Inside(infprof, done)
    check_spin(found, spin, version_of("system"))
    found.check_merged()
    assert found.sampler["replaced"] > 0


# ---- harm ----

def build(tmp_path, name, words):
    path = tmp_path / name
    done = run([*words, HERE / "python_harm.c", "-o", path])
    return path if done.returncode == 0 else None


@pytest.mark.parametrize("kind, words", [
    ("musl", ["musl-gcc"]),
    ("musl-static", ["musl-gcc", "-static"]),
    ("glibc", ["gcc"]),
    ("static", ["gcc", "-static"]),
    ("32-bit", ["gcc", "-m32"]),
    ("asan", ["gcc", "-fsanitize=address"]),
])
def test_programs_that_are_no_python(record, tmp_path, kind, words):
    if not shutil.which(words[0]):
        pytest.skip(f"no {words[0]} here")
    path = build(tmp_path, kind, words)
    if not path:
        pytest.skip(f"{' '.join(words)} cannot build a program here")
    alone = run([path, "word"])
    done = record("--cpu", "--python=inside", "--no-finish", command=[path, "word"])
    assert alone.returncode == 7 and "default 1 agent 0" in alone.stdout, alone.stderr
    assert (done.returncode, done.stdout) == (7, alone.stdout), done.stderr
    if kind != "32-bit":  # its ld.so says that it ignores a library of the wrong class
        assert "LD_PRELOAD" not in done.stderr, done.stderr


@pytest.mark.parametrize("call", ["sigaction(SIGUSR1, &(struct sigaction){ 0 }, 0)", "(void) signal(SIGUSR1, SIG_DFL)"])
def test_libraries_that_wrap_sigaction(record, tmp_path, call):
    """As sanitizers do: the stub calls them, not libc."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc here")
    (tmp_path / "wraps.c").write_text("""\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
int wrapped;
int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
        int (*next)(int, const struct sigaction *, struct sigaction *);
        *(void **) &next = dlsym(RTLD_NEXT, "sigaction");
        wrapped += number == SIGUSR1;
        return next(number, action, old);
}
sighandler_t signal(int number, sighandler_t handler)
{
        sighandler_t (*next)(int, sighandler_t);
        *(void **) &next = dlsym(RTLD_NEXT, "signal");
        wrapped += number == SIGUSR1;
        return next(number, handler);
}
""")
    (tmp_path / "calls.c").write_text("#include <signal.h>\n#include <stdio.h>\nextern int wrapped;\n"
                                      f"int main(void) {{ {call}; return printf(\"%d\\n\", wrapped) != 2; }}\n")
    for words in (["-shared", "-fPIC", "-o", "libwraps.so", "wraps.c", "-ldl"], ["-o", "calls", "calls.c", "./libwraps.so"]):
        assert run(["gcc", *words], cwd=tmp_path).returncode == 0
    done = record("--cpu", "--python=inside", "--no-finish", command=["./calls"], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_a_32_bit_program_by_hand(record, tmp_path):
    """Where no compiler makes one: the smallest program of that kind, exit(7) after writing a line."""
    import struct
    code = bytes.fromhex("b804000000bb01000000b9a0800408ba03000000cd80b801000000bb07000000cd80")
    path = tmp_path / "tiny32"
    text = b"ok\n"
    body = code.ljust(0xa0 - 0x54, b"\0") + text
    head = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 3, 1, 0x8048054, 0x34, 0, 0, 0x34, 0x20, 1, 0, 0, 0)
    load = struct.pack("<8I", 1, 0, 0x8048000, 0x8048000, 0x54 + len(body), 0x54 + len(body), 5, 0x1000)
    path.write_bytes(head + load + body)
    path.chmod(0o755)
    if run([path]).returncode != 7:
        pytest.skip("the kernel runs no 32-bit programs")
    done = record("--cpu", "--python=inside", "--no-finish", command=[path])
    assert (done.returncode, done.stdout) == (7, "ok\n"), done.stderr


@needs_root
def test_a_setuid_program(infprof, run_dir, user, tmp_path):  # noqa: F811
    path = build(tmp_path, "setuid", ["gcc"])
    path.chmod(0o4755)
    done = run([*user, infprof, "record", "--cpu", "--python=inside", "--no-finish", "-o", run_dir, "--", path, "word"])
    assert (done.returncode, done.stdout) == (7, run([path, "word"]).stdout), done.stderr
    assert "ld.so" not in done.stderr, done.stderr


def same(sample, tmp_path, text, *words, python=None, **arguments):
    """The program's output is what it is without a recording."""
    program = tmp_path / "program.py"
    program.write_text(text)
    command = [*(python or PYTHONS[ONE][0]), *words, program]
    alone = run(command)
    found = sample(command, code=alone.returncode if alone.returncode >= 0 else 128 - alone.returncode, **arguments)
    assert found.done.stdout == alone.stdout
    return found


def test_its_own_handler(sample, tmp_path):
    """It sees no handler of ours, gets each signal of its own and none of ours, and is no longer sampled."""
    found = same(sample, tmp_path, """\
import os, signal, time
print(signal.getsignal(signal.SIGPROF), signal.getitimer(signal.ITIMER_PROF))
end = time.process_time() + 0.5
while time.process_time() < end: pass
seen = []
print(signal.signal(signal.SIGPROF, lambda number, frame: seen.append(number)))
end = time.process_time() + 0.5
while time.process_time() < end: pass
print(len(seen))
os.kill(os.getpid(), signal.SIGPROF)
print(len(seen))
signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
end = time.process_time() + 0.3
while time.process_time() < end: pass
signal.setitimer(signal.ITIMER_PROF, 0)
print(len(seen) > 2)  # how many reach it is the machine's
""")
    assert "handles SIGPROF itself" in found.done.stderr, found.done.stderr
    assert 0.3 < sum(weights(found).values()) < 0.7


def test_the_default_action(sample, tmp_path):
    """Restoring it does not end the program at our next signal; its own signal does."""
    found = same(sample, tmp_path, """\
import os, signal, time
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_DFL)
end = time.process_time() + 0.5
while time.process_time() < end: pass
print("lives", flush=True)
os.kill(os.getpid(), signal.SIGPROF)
print("not reached")
""")
    assert sum(weights(found).values()) > 0.3


def test_signals_wait_for_nothing(sample, tmp_path):
    """Calls of other threads are not interrupted, nor cut short."""
    same(sample, tmp_path, """\
import select, threading, time, os
def burn():
    end = time.thread_time() + 0.6
    while time.thread_time() < end: pass
thread = threading.Thread(target=burn)
thread.start()
read, write = os.pipe()
begin = time.monotonic()
print(select.select([read], [], [], 1.0), time.monotonic() - begin >= 1.0)
thread.join()
""")


BURN = """\
import ctypes, os, signal, threading, time
over = False
def burn():
    while not over: pass
threads = [threading.Thread(target=burn, daemon=True) for _ in range({})]
[thread.start() for thread in threads]
"""


@pytest.mark.parametrize("blocks", [False, True])
def test_threads_that_sleep(sample, tmp_path, blocks):
    """No signal comes to a thread that uses no CPU time while others run, whether those block signals or not: calls that no SA_RESTART
    starts again are not cut short."""
    text = BURN.format(2)
    if blocks:
        text = text.replace("    while", "    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n    while")
    same(sample, tmp_path, text + """\
libc = ctypes.CDLL(None, use_errno=True)
class Words(ctypes.Structure): _fields_ = [("a", ctypes.c_long), ("b", ctypes.c_long)]
print([libc.usleep(20000) for _ in range(32)])
signal.signal(signal.SIGALRM, lambda number, frame: None)
begin = time.monotonic()
signal.setitimer(signal.ITIMER_REAL, 1.5, 0.5)
signal.pause()
print(time.monotonic() - begin >= 1.5)
signal.setitimer(signal.ITIMER_REAL, 0)  # Python ends with the default action, which may take longer than half a second
over = True
""")


@pytest.mark.parametrize("start", ["threading.Thread(target=burn).start()", "import _thread; _thread.start_new_thread(burn, ())"])
def test_a_thread_that_is_made_last(sample, tmp_path, start):
    """Its maker sleeps from then on, and so does everybody else: nobody is there to look for it but the call that made it."""
    found = same(sample, tmp_path, f"""\
import glob, os, threading, time
over = threading.Event()
def burn():
    end = time.thread_time() + 0.8
    while time.thread_time() < end: pass
    over.set()
tables = os.environ.get("INFPROF_AGENT_TABLES")  # the sampler has begun when it has made its file there
while tables and not glob.glob(tables + f"/.sampler-{{os.getpid()}}-*"): pass
end = time.thread_time() + 0.3
while time.thread_time() < end: pass
time.sleep(0.3)
{start}
over.wait()
""")
    seconds = collections.Counter()
    for row in found.run.table("stack_samples"):
        if row["mode"] == "cpu":
            seconds[row["tid"]] += row["weight"]
    assert len(seconds) == 2 and 0.6 < max(seconds.values()) < 1.0, (seconds, found.sampler)


def test_descriptors_threads_and_warnings(sample, tmp_path):
    """No descriptor and no thread more; so no warning of Python at fork either."""
    python = next((PYTHONS[name][0] for name in PYTHONS if version_of(name) >= (3, 12)), PYTHONS[ONE][0])
    same(sample, tmp_path, """\
import os, time
end = time.process_time() + 0.4
while time.process_time() < end: pass
print(sorted(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), flush=True)
if os.fork() == 0:
    print(sorted(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), flush=True)
    os._exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]) if hasattr(os, "waitstatus_to_exitcode") else 3)
""", "-W", "error", python=python)


def test_many_children(sample, tmp_path):
    same(sample, tmp_path, """\
import os, subprocess, sys
codes = []
for i in range(300):
    pid = os.fork()
    if pid == 0:
        os._exit(i % 7)
    codes.append(os.waitpid(pid, 0)[1] >> 8)
print(codes)
print([subprocess.run(["/bin/echo", str(i)], stdout=subprocess.PIPE).stdout for i in range(50)])
""")


def test_many_threads(sample, tmp_path):
    """2,000 threads one after the other, then 200 at once: timers of ended threads are given back."""
    found = same(sample, tmp_path, """\
import glob, threading, time
done = []
def work(n, s):
    end = time.thread_time() + s
    while time.thread_time() < end: pass
    done.append(n)
for n in range(2000):
    thread = threading.Thread(target=work, args=(n, 0.0005))
    thread.start()
    thread.join()
print(len(done), sum(done))
threads = [threading.Thread(target=work, args=(n, 0.005)) for n in range(200)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(done))
work(0, 0.5)
timers = open("/proc/self/timers").read().count("ID:") if glob.glob("/proc/self/timers") else 0
print(timers < 150)
""")
    found.check_merged()


def test_kill_9(infprof, run_dir, tmp_path):
    """The target goes on, and its sampler ends by itself: 60 s after it has seen that nobody reads, since a recorder may be stopped."""
    program = tmp_path / "program.py"
    program.write_text("""\
import glob, os, sys, time
def timers(): return open("/proc/self/timers").read().count("ID:")
def burn(s):
    end = time.process_time() + s
    while time.process_time() < end: pass
while not glob.glob(os.environ["INFPROF_AGENT_TABLES"] + f"/.sampler-{os.getpid()}-*"): burn(0.02)
burn(0.2)
print(timers() > 0, flush=True)
print("sampled", flush=True)
sys.stdin.readline()
begin = time.monotonic()
while timers() and time.monotonic() < begin + 150:
    burn(0.05)
    time.sleep(0.2)
print("timers", timers(), flush=True)
""")
    if not pathlib.Path("/proc/self/timers").exists():
        pytest.skip("this kernel does not list timers")
    words = [infprof, "record", f"--cpu={HZ}", "--python=inside", "-o", run_dir, "--", *PYTHONS[ONE][0], program]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout.readline() == "True\n"
        assert process.stdout.readline() == "sampled\n"
        process.send_signal(signal.SIGKILL)
        process.stdin.write("\n")
        process.stdin.close()
        assert process.stdout.readline() == "timers 0\n"


def test_a_recording_that_ends_first(infprof, run_dir, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""\
import glob, os, time
def timers(): return open("/proc/self/timers").read().count("ID:")
def burn(s):
    end = time.process_time() + s
    while time.process_time() < end: pass
while timers() and not glob.glob(os.environ["INFPROF_AGENT_TABLES"] + f"/.sampler-{os.getpid()}-*"): burn(0.02)
begin = time.monotonic()
while timers() and time.monotonic() < begin + 60: burn(0.05)
print("timers", timers(), flush=True)
""")
    if not pathlib.Path("/proc/self/timers").exists():
        pytest.skip("this kernel does not list timers")
    with open(tmp_path / "output", "w") as output:
        done = subprocess.run([infprof, "record", f"--cpu={HZ}", "--python=inside", "--duration", "1s", "-o", run_dir, "--",
                               *PYTHONS[ONE][0], program], stdout=output, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    wait_for(lambda: (tmp_path / "output").read_text() == "timers 0\n", "timers that are gone", 90)


def test_no_recorder(infprof, rings, tmp_path):
    """What starts when the recording is over leaves no file: the variables are still in its environment."""
    folder = pathlib.Path(infprof).parent
    environment = {**os.environ, "LD_PRELOAD": str(folder / "libinfprof-preload.so"), "INFPROF_AGENT": str(folder / "libinfprof-agent.so"),
                   "INFPROF_AGENT_HZ": "99.000", "INFPROF_AGENT_TABLES": str(tmp_path), "INFPROF_RUN": "of-before"}
    code = "import os, time\nend = time.process_time() + 0.1\nwhile time.process_time() < end: pass\nprint(os.listdir(%r))" % str(rings)
    done = run([*PYTHONS[ONE][0], "-c", code], env=environment)
    assert re.search(r"\['\d+-\d+-\d+\.ring'\]", done.stdout), done.stdout + done.stderr
    assert list(rings.iterdir()) == []


def test_signals_that_never_come(infprof, record, tmp_path):
    """A process that blocks SIGPROF is sampled by perf, not by nobody."""
    program = tmp_path / "blocks.py"
    program.write_text("import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})\n" + TWO_SPIN.format(2.5))
    done = record(f"--cpu={HZ}", "--python=inside", "--no-snapshots", command=[*PYTHONS[ONE][0], program])
    assert done.returncode == 0, done.stderr
    seconds = sum(weights(Inside(infprof, done)).values())
    assert 1.2 < seconds < 3.0, seconds


def test_a_python_that_is_not_known(record):
    old = next(iter(sorted(pathlib.Path.home().glob(".pyenv/versions/3.[67].*/bin/python3"))), None)
    if not old:
        pytest.skip("no Python that is older than 3.8")
    done = record("--cpu", "--python=inside", "--no-finish", command=[old, "-c", "print('as ever', sum(i * i for i in range(3000000)))"],
                  preexec_fn=refused([PERF_EVENT_OPEN, BPF], errno.EPERM))
    assert (done.returncode, done.stdout) == (0, "as ever 8999995500000500000\n"), done.stderr
    assert re.search(r"runs Python 3\.[67], which is not known", done.stderr), done.stderr


@pytest.mark.parametrize("words, says", [
    (["--cpu", "--python=inside", "--pid", str(os.getpid())], "--python=inside needs a command after --"),
    (["--python=inside"], "--python=inside needs --cpu"),
])
def test_wrong_words(record, words, says):
    done = record(*words, command=[] if "--pid" in words else ["true"])
    assert done.returncode == 125 and says in done.stderr, done.stderr


def test_a_path_that_cannot_be_preloaded(infprof, run_dir, tmp_path):
    folder = tmp_path / "with blank"
    folder.mkdir()
    for name in ("infprof", "libinfprof-preload.so", "libinfprof-agent.so"):
        shutil.copy(pathlib.Path(infprof).parent / name, folder / name)
    done = run([folder / "infprof", "record", "--cpu", "--python=inside", "--no-finish", "-o", run_dir, "--", "true"])
    assert done.returncode == 0 and "a blank or a colon" in done.stderr, done.stderr
    (folder / "libinfprof-preload.so").unlink()
    done = run([folder / "infprof", "record", "--cpu", "--python=inside", "--no-finish", "-o", run_dir, "--", "true"])
    assert done.returncode == 0 and "libinfprof-preload.so is missing" in done.stderr, done.stderr
