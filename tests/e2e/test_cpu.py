"""record --cpu: options, the ways of opening events, and what is done and said where a right is missing. What the stacks say is
the matter of test_cpu_truth.py."""
import errno
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

import pytest

import proc
from program import run
from refuse import BPF, PERF_EVENT_OPEN, PROCESS_VM_READV, PTRACE, refused
from stacks import KERNEL_PART
from waiting import wait_for

HERE = pathlib.Path(__file__).resolve().parent
HZ = 500
PARANOID = int(pathlib.Path("/proc/sys/kernel/perf_event_paranoid").read_text())
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
needs_paranoid = pytest.mark.skipif(PARANOID != 2, reason="the answers are those of kernel.perf_event_paranoid=2")


@pytest.fixture(scope="session")
def spin(tmp_path_factory):
    path = tmp_path_factory.mktemp("spin") / "cpu_spin"
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", HERE / "cpu_spin.c", "-o", path, "-pthread"], check=True)
    for parent in path.parents:  # others may run it
        if parent != pathlib.Path("/tmp") and str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    return path


@pytest.fixture
def user(run_dir):
    """Words before a program that run it without rights as a user whom nobody else is: locked memory is counted by user."""
    number = str(20000 + os.getpid() % 20000)
    run_dir.mkdir()
    os.chown(run_dir, int(number), int(number))
    for parent in run_dir.parents:
        if parent != pathlib.Path("/tmp") and str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    return ["setpriv", "--reuid", number, "--regid", number, "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
            "env", "-u", "XDG_RUNTIME_DIR", "HOME=/nowhere"]


def last(run, mode="cpu"):
    """The last row of table sampler."""
    rows = [row for row in run.table("sampler") if row["mode"] == mode]
    assert rows, run.table("sampler")
    return rows[-1]


def sources(run):
    """What the sampler says of itself: {instance: (state, reason, fix)}, as it was said last."""
    return {row["instance"]: (row["state"], row["reason"], row["fix"])
            for row in run.table("sources") if row["collector"] == "sampler"}


def samples(run, mode="cpu"):
    return [row for row in run.table("stack_samples") if row["mode"] == mode]


def events_of(pid):
    """How many perf events a process has open."""
    return list(proc.descriptors(pid).values()).count("anon_inode:[perf_event]")


def check_total(run, seconds, hz, stolen_s, kernel=0.02):
    """Samples and their weights are those of so many seconds, of which a share may be the kernel's; each (thread, CPU) may end
    within a period."""
    found = samples(run)
    slack = 2 + len({(row["tid"], row["cpu"]) for row in found}) + stolen_s * hz
    assert (1 - kernel) * seconds * hz - slack <= len(found) <= 1.02 * seconds * hz + slack, (len(found), seconds * hz, slack)
    assert abs(sum(row["weight"] for row in found) - len(found) / hz) < 1e-6 * len(found)
    assert last(run)["taken"] == len(found)


@pytest.mark.parametrize("options, sentence", [
    (["--cpu=0"], "--cpu=0: the rate must be 1 to 4,000 times a second"),
    (["--cpu=4001"], "--cpu=4001: the rate must be 1 to 4,000"),
    (["--cpu=fast"], "--cpu=fast: the rate must be 1 to 4,000"),
    (["--wall=nan"], "--wall=nan: the rate must be 1 to 1,000"),
    (["--cpu", "--stack-size", "1"], "--stack-size 1: must be from 1024 to 65528 bytes"),
    (["--cpu", "--stack-size", "70000"], "--stack-size 70000: must be from 1024 to 65528 bytes"),
    (["--cpu", "--max-stack-depth", "127"], "--max-stack-depth 127: from 128 to 1024 frames"),
    (["--cpu", "--max-stack-depth", "1025"], "--max-stack-depth 1025: from 128 to 1024 frames"),
    (["--off-cpu=0"], "--off-cpu=0: 1 to 1000000 microseconds"),
    (["--off-cpu=1000001"], "--off-cpu=1000001: 1 to 1000000 microseconds"),
    (["--off-cpu=100us"], "--off-cpu=100us: 1 to 1000000 microseconds"),
    (["--stack-size", "32K"], "--stack-size needs --cpu, --wall or --off-cpu"),
    (["--max-stack-depth", "200"], "--max-stack-depth needs --cpu, --wall or --off-cpu"),
    (["--wall", "--python=inside"], "--python=inside needs --cpu"),
    (["--no-snapshots", "--snapshot-limit", "1G"], "--snapshot-limit bounds what --no-snapshots leaves out"),
    (["--cpu", "--root", "/tmp"], "--root /tmp: stacks can be sampled only on this machine"),
])
def test_bad_options(record, options, sentence):
    done = record(*options, command=["true"])
    assert done.returncode == 125
    assert sentence in done.stderr
    assert done.run is None


def test_launched(record, spin, stolen):
    done = record(f"--cpu={HZ}", "--stack-size", "16K", "--max-stack-depth", "128", command=[spin, 0.6, 2])
    assert done.returncode == 0, done.stderr
    check_total(done.run, seconds_of(done.stdout), HZ, stolen())
    row = last(done.run)
    assert row["method"] == "perf events of a tree"
    assert row["rate_hz"] == HZ
    assert abs(row["wanted"] - row["taken"]) <= 0.02 * row["wanted"] + 4 + stolen() * HZ
    assert row["lost"] == row["throttled"] == row["dropped"] == row["skipped_threads"] == 0
    assert row["own_cpu_ns"] > 0
    assert sources(done.run)[None][0] == "ok"
    assert done.run.info["sampling"] == {"cpu_hz": HZ, "wall_hz": 0, "off_cpu": False, "stack_bytes": 16384, "max_depth": 128}
    assert len({row["tid"] for row in samples(done.run)}) == 2


def test_the_default_rate(record, spin, stolen):
    done = record("--cpu", "--no-finish", command=[spin, 0.5])
    assert last(done.run)["rate_hz"] == 99
    check_total(done.run, seconds_of(done.stdout), 99, stolen())
    assert done.run.info["sampling"]["stack_bytes"] == 65528


def test_less_of_each_stack_at_high_rates(record):
    done = record("--cpu=251", "--no-finish", command=["true"])
    assert done.run.info["sampling"]["stack_bytes"] == 32768


@pytest.mark.san
def test_no_stacks_without_asking(record):
    done = record("--no-finish", command=["true"])
    assert done.run.table("sampler") == [] and done.run.table("stack_samples") == []
    assert "sampling" not in done.run.info


def seconds_of(stdout):
    """CPU seconds of all threads of cpu_spin."""
    return float(stdout.splitlines()[-1])


def seconds_of_threads(stdout):
    """{tid: CPU seconds by its own clock} of cpu_spin."""
    return {int(tid): float(seconds) for tid, seconds in (line.split() for line in stdout.splitlines()[:-1])}


def attach(infprof, output, spin, *arguments, before=(), options=(), **keywords):
    """Records a spinning program from its start to its end; (recorder, what the program printed)."""
    target = subprocess.Popen([*before, str(spin), *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: pathlib.Path(f"/proc/{target.pid}/comm").read_text().strip() == "cpu_spin", "the target's start")
        done = run([*before, infprof, "record", "-o", output, *options, "--no-finish", "--pid", target.pid], **keywords)
        return done, target.communicate()[0]
    finally:
        target.kill()
        target.wait()


def check_attached(recorded, said, stolen_s):
    """All samples that the kernel's clock of the events asks for, the kernel's part apart, and no more than the program's own clock
    does: how much of its time had gone before the events were open, depends on the machine."""
    found, wanted = samples(recorded), last(recorded)["wanted"]
    slack = 4 + len({(row["tid"], row["cpu"]) for row in found}) + stolen_s * HZ
    assert 0 < len(found) <= 1.02 * seconds_of(said) * HZ + slack, (len(found), said)
    assert len(found) >= (1 - KERNEL_PART) * wanted - slack, (len(found), wanted)


@pytest.mark.san
def test_attached(infprof, run_dir, spin, stolen):
    """Threads that were there, and those that begin later."""
    done, said = attach(infprof, run_dir, spin, 0.4, 3, 2, options=[f"--cpu={HZ}", "-t", "100"])
    assert done.returncode == 0, done.stderr
    recorded = run_dir.run()
    assert last(recorded)["method"] == "perf events of threads"
    counts = {}
    for row in samples(recorded):
        counts[row["tid"]] = counts.get(row["tid"], 0) + 1
    assert len(counts) == 5
    right, slack = seconds_of_threads(said), 3 + stolen() * HZ
    assert set(right) == set(counts)
    late = sorted(counts)[-2:]  # numbers are given out upwards: these were seen from their first moment on
    for tid in late:
        assert abs(counts[tid] - right[tid] * HZ) <= 0.03 * right[tid] * HZ + slack, (counts, right)
    for tid, n in counts.items():  # nobody is sampled twice
        assert n <= 1.02 * right[tid] * HZ + slack, (counts, right)
    assert abs(last(recorded)["wanted"] - last(recorded)["taken"]) <= 0.03 * last(recorded)["wanted"] + 7 + slack


@needs_root
def test_kernel_frames(record):
    done = record(f"--cpu={HZ}", "--no-finish", command=["dd", "if=/dev/zero", "of=/dev/null", "bs=64k", "count=40000", "status=none"])
    kinds = {row["fKind"] for row in done.run.table("frames")}
    assert {"kernel", "native"} <= kinds


@needs_root
def test_the_machine(record, spin, run_dir, stolen):
    with subprocess.Popen([spin, "60"]) as target:
        def used_s():
            return int(pathlib.Path(f"/proc/{target.pid}/schedstat").read_text().split()[0]) / 1e9

        try:
            wait_for(lambda: pathlib.Path(f"/proc/{target.pid}/comm").read_text().strip() == "cpu_spin", "the target's start")
            begin, begun = used_s(), time.monotonic()
            done = record("--cpu=500", "--no-finish", "--duration", "1s")
            most, took = (used_s() - begin) * HZ, time.monotonic() - begun
        finally:
            target.kill()
    assert done.returncode == 0, done.stderr
    assert last(done.run)["method"] == "perf events of CPUs"
    assert last(done.run)["wanted"] is None  # what others use is not measured
    mine = [row for row in samples(done.run) if row["tid"] == target.pid]
    # From before the recorder's start to after its end: a second of that is recorded.
    assert 0.5 * most / took < len(mine) <= 1.02 * most + 4 + stolen() * HZ, (len(mine), most, took)


@needs_root
@needs_paranoid
def test_normal_user(infprof, run_dir, spin, user, stolen):
    done = run([*user, infprof, "record", "-o", run_dir, f"--cpu={HZ}", "--no-finish", "--", spin, 0.5, 2])
    assert done.returncode == 0, done.stderr
    recorded = run_dir.run()
    check_total(recorded, seconds_of(done.stdout), HZ, stolen(), kernel=KERNEL_PART)
    state, reason, fix = sources(recorded)["kernel"]
    assert state == "denied" and "not sampled" in reason and "perf_event_paranoid" in fix
    assert done.stderr.count("does not permit kernel stacks") == 1
    assert "kernel" not in {row["fKind"] for row in recorded.table("frames")}


@needs_root
@needs_paranoid
def test_normal_user_attaches(infprof, run_dir, spin, user, stolen):
    done, said = attach(infprof, run_dir, spin, 0.4, 2, before=user, options=[f"--cpu={HZ}"])
    assert done.returncode == 0, done.stderr
    assert last(run_dir.run())["method"] == "perf events of threads"
    check_attached(run_dir.run(), said, stolen())


@needs_root
@needs_paranoid
def test_processes_of_others(infprof, run_dir, spin, user):
    with subprocess.Popen([spin, "60"]) as target:
        try:
            done = run([*user, infprof, "record", "-o", run_dir, "--cpu", "--no-finish", "--duration", "0.5", "--pid",
                        target.pid])
        finally:
            target.kill()
    assert done.returncode == 0, done.stderr
    assert f"process {target.pid} ({spin.name}) may not be sampled: it is another user's" in done.stderr
    assert "setcap cap_perfmon" in sources(run_dir.run())["perf"][2]
    assert sources(run_dir.run())["perf"][0] == "denied"
    assert samples(run_dir.run()) == []


@needs_root
@needs_paranoid
@pytest.mark.parametrize("nested", [False, True])
def test_program_with_more_rights(infprof, run_dir, spin, user, nested):
    """The kernel ends the events of a setuid program: who may not open them again has no samples, and is told why."""
    program = spin.parent / "cpu_setuid"
    shutil.copy(spin, program)
    program.chmod(0o4755)
    command = ["sh", "-c", f"{program} 0.4; exit 0"] if nested else [program, 0.4]
    done = run([*user, infprof, "record", "-o", run_dir, "--cpu", "--", *command])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("(cpu_setuid) may not be sampled: ") == 1 and "setuid" in done.stderr
    state, reason, fix = sources(run_dir.run())["perf"]
    assert state == "denied" and "(cpu_setuid)" in reason and "setcap cap_perfmon" in fix
    for verb in ["report", "flamegraph"] if not nested else []:
        said = run([infprof, verb, "-r", run_dir])
        assert "no stack samples: process" in " ".join((said.stdout + said.stderr).split())
        assert "it waited (" not in said.stdout + said.stderr


@needs_root
@pytest.mark.parametrize("attached", [False, True])
def test_program_of_other_rights_goes_on(infprof, run_dir, spin, stolen, attached):
    """Who may sample everybody opens the events again, once."""
    program = spin.parent / "cpu_other"
    shutil.copy(spin, program)
    os.chown(program, 65534, 65534)
    program.chmod(0o6755)
    words = [infprof, "record", "-o", run_dir, f"--cpu={HZ}", "--no-finish"]
    if attached:
        shell = subprocess.Popen(["sh", "-c", f"read line; {program} 0.8; exit 0"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        recorder = subprocess.Popen([*words, "--pid", str(shell.pid)], stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: events_of(recorder.pid) > os.cpu_count(), "the recorder's attachment")  # its rings have one each
            shell.communicate(b"go\n", timeout=60)
            recorder.wait(60)
        finally:
            shell.kill()
            recorder.kill()
            shell.wait()
            recorder.wait()
    else:
        done = run([*words, "--", program, 0.8])
        assert done.returncode == 0 and "may not" not in done.stderr, done.stderr
    found = len(samples(run_dir.run()))
    most = 0.8 * HZ * 1.02 + 4 + stolen() * HZ
    assert 0.2 * HZ < found <= most
    assert last(run_dir.run())["wanted"] <= most and "perf" not in sources(run_dir.run())


@pytest.mark.parametrize("code", [errno.EPERM, errno.EACCES, errno.ENOSYS])
def test_refused_by_a_filter(record, spin, code):
    done = record("--cpu", "--no-finish", command=[spin, 0.3], env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},  # which needs ptrace itself
                  preexec_fn=refused([PERF_EVENT_OPEN, PTRACE, BPF, PROCESS_VM_READV], code))
    assert done.returncode == 0, done.stderr
    assert seconds_of(done.stdout) > 0.25  # the target is as it was
    sentence = "a seccomp filter of this container refuses perf_event_open"
    assert done.stderr.count(sentence) == 1
    assert "is sampled instead, as --wall does" in done.stderr
    state, reason, fix = sources(done.run)["perf"]
    assert state == "denied" and reason.startswith(sentence) and "seccomp profile" in fix
    assert samples(done.run) == []
    assert last(done.run, "wall")["rate_hz"] == 20  # the next way


def limit(**limits):
    def set_them():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))
    return set_them


@needs_root
@needs_paranoid
@pytest.mark.parametrize("most", [96, 64, 48])
def test_few_descriptors(infprof, run_dir, spin, user, stolen, most):
    """Perf events leave the store and the collectors what they need: no row is lost."""
    done, said = attach(infprof, run_dir, spin, 1, 1, 0, 48, before=user, options=[f"--cpu={HZ}", "-t", "100"],
                        preexec_fn=limit(RLIMIT_NOFILE=most))
    assert done.returncode == 0 and "lost" not in done.stderr and "no descriptor" not in done.stderr, done.stderr
    recorded = run_dir.run()
    n = last(recorded)["skipped_threads"]
    assert 0 < n < 49
    assert f"{n} threads of the target are not sampled" in done.stderr
    state, reason, fix = sources(recorded)["threads"]
    assert state == "denied" and reason.startswith(f"{n} threads") and "ulimit -n" in fix
    assert {row["self_rows_lost"] for row in recorded.table("self")} == {0}
    assert len(recorded.table("cpu")) >= len(recorded.table("ticks")) - 1
    check_attached(recorded, said, stolen())  # of the one that works


@needs_root
def test_few_descriptors_and_all_rights(infprof, run_dir, spin):
    """Then the CPUs are sampled, and who is not of the target is left out."""
    with subprocess.Popen([spin, "60"]) as other:
        try:
            done, _ = attach(infprof, run_dir, spin, 1, 1, 0, 48, options=["--cpu=1000"], preexec_fn=limit(RLIMIT_NOFILE=64))
        finally:
            other.kill()
    assert done.returncode == 0, done.stderr
    recorded = run_dir.run()
    assert last(recorded)["method"] == "perf events of CPUs, the target's alone"
    assert last(recorded)["skipped_threads"] == 0
    assert samples(recorded) and other.pid not in {row["tid"] for row in samples(recorded)}


@needs_root
@needs_paranoid
def test_little_locked_memory(infprof, run_dir, spin, user):
    """64 KiB beside what perf gives each user; then a second recording finds even less."""
    little = limit(RLIMIT_MEMLOCK=65536)
    words = [*user, infprof, "record", "-o"]
    first = subprocess.Popen([*words, run_dir / "first", "--cpu", "--no-finish", "--", spin, "60"], preexec_fn=little,
                             stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: list(run_dir.glob("first/*.infprof/sampler/*")), "samples of the first", 20)
        done = run([*words, run_dir / "second", "--cpu", "--no-finish", "--", spin, 0.3], preexec_fn=little)
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait()
    assert done.returncode == 0, done.stderr
    assert seconds_of(done.stdout) > 0.25
    assert "KiB per CPU may be locked" in done.stderr and "ulimit -l" in done.stderr


def test_the_target_survives(infprof, run_dir, spin):
    recorder = subprocess.Popen([infprof, "record", "-o", run_dir, "--cpu=4000", "--no-finish", "--", spin, "0.7"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    wait_for(lambda: list(run_dir.glob("*.infprof/sampler/*")), "samples")
    recorder.kill()
    assert seconds_of(recorder.communicate()[0]) >= 0.7  # its pipe is the target's: this waits for that


@needs_root
@needs_paranoid
def test_doctor(infprof, user):
    def lines(words, **keywords):
        found = json.loads(run([*words, infprof, "doctor", "--json"], cwd="/tmp", **keywords).stdout)["findings"]
        return {one["name"]: one for one in found if one["group"] == "sampling"}

    mine = lines([])
    assert mine.pop("Python way")["state"] == "info"
    assert {one["state"] for one in mine.values()} == {"ok"}
    theirs = lines(user)
    assert theirs["CPU sampling"]["state"] == "ok"
    for name in ("kernel frames", "blocked time", "whole machine"):
        assert theirs[name]["state"] == "denied" and "perf_event_paranoid" in theirs[name]["fix"]
    refusals = lines([], preexec_fn=refused([PERF_EVENT_OPEN], errno.EPERM))
    assert set(refusals) == {"CPU sampling", "Python inside", "Python way"} and refusals["Python inside"]["state"] == "ok"
    only = refusals["CPU sampling"]
    assert only["state"] == "denied" and "seccomp profile" in only["fix"]


@pytest.mark.san
def test_what_lives_shorter_than_a_period_is_told(infprof, record, run_dir):
    """Each process gets a whole period before its first sample: what is not seen for that is no loss, and no mystery."""
    done = record("--cpu=20", "--no-finish", command=["sh", "-c", "i=0; while [ $i -lt 1500 ]; do /bin/true; i=$((i+1)); done"])
    assert done.returncode == 0, done.stderr
    row = last(done.run)
    assert row["wanted"] > 5 and row["taken"] < 0.9 * row["wanted"] and row["lost"] == 0  # none of /bin/true lives for 50 ms of CPU
    text = " ".join(run([infprof, "report", "--full", "-r", run_dir]).stdout.split())
    if row["taken"]:
        assert "Nothing was lost. The missing time cannot be sampled: threads and processes that live for less than 50.0 ms" in text
    else:
        assert "Functions by CPU time none no stack samples, of" in text and "lived shorter than a period" in text
