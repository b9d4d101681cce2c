"""record --off-cpu: how long threads are off their CPU, and where."""
import errno
import os
import pathlib
import subprocess

import pytest

import waits
from conftest import Run
from namespaces import unshare
from program import run
from refuse import BPF, refused
from test_cpu_wall import user_words, waiter  # noqa: F401  (a fixture)

KINDS = ["nap", "lock", "read", "busy", "busy", "busy"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
SHORT = "[waits below 100 us]"


def last(recorded):
    return [row for row in recorded.table("sampler") if row["mode"] == "off-cpu"][-1]


def skip_without_perf(recorded):
    for row in recorded.table("sources"):
        if row["collector"] == "sampler" and row["instance"] == "off-cpu" and row["table_name"] == "*" and row["state"] != "ok":
            pytest.skip(row["reason"])


def check_totals(found, answers, stolen_s):
    """Off-CPU time is life without CPU time, of each thread, within 1 %; and waits before its first and after its last look at its clocks. What the host took
    is in neither."""
    assert [one.kind for one in answers if one.errors] == []
    for one in answers:
        total, truth = waits.seconds(found, tid=one.tid), one.life - one.cpu
        assert -stolen_s < total - truth + 0.01 * truth + 0.005 and total - truth < 0.01 * truth + 0.005 + one.edge, (one, total, truth)


METHODS = {"BPF": "BPF at switches, perf events of waits", "perf": "perf events of switches"}


def without_bpf(way):
    return {"preexec_fn": refused([BPF], errno.EPERM)} if way == "perf" else {}


def skip_other(recorded, way):
    """Where the kernel does not time waits, perf's records of switches do, as where BPF is refused."""
    skip_without_perf(recorded)
    if last(recorded)["method"] != METHODS[way]:
        pytest.skip(f"this machine has {last(recorded)['method']}")


@pytest.mark.san
@pytest.mark.parametrize("way", METHODS)
def test_all_rights(record, waiter, way, stolen):
    done = record("--off-cpu", "--no-finish", command=["taskset", "-c", "0", waiter, 2, *KINDS], **without_bpf(way))
    assert done.returncode == 0, done.stderr
    skip_without_perf(done.run)
    found, answers = waits.rows(done.run, "off-cpu", {"cpu_waiter": waiter}), waits.truths(done.stdout)
    check_totals(found, answers, stolen())
    skip_other(done.run, way)
    for one in answers:
        if one.kind == "busy":  # three on one CPU: they wait for it and for nothing else
            runnable = waits.seconds(found, tid=one.tid, state="runnable")
            assert runnable > 0.95 * waits.seconds(found, tid=one.tid), one
            assert runnable > 0.3 * one.life
            assert waits.seconds(found, tid=one.tid, state="runnable", function="spin") > 0.8 * runnable
            continue
        waited = waits.seconds(found, tid=one.tid, function=f"wait_{one.kind}")
        short = sum(row.weight for row in found if row.tid == one.tid and row.frames and row.frames[0].name == SHORT)
        # What the thread measured includes the time until it could look at its clock.
        assert abs(waited - one.waited) < 0.02 * one.waited + short + 0.03, (one, waited, short)
    sampler = last(done.run)
    assert sampler["lost"] == 0 and sampler["dropped"] == 0
    assert sampler["taken"] == sum(row.samples for row in found)


@needs_root
def test_without_rights(infprof, run_dir, waiter, stolen):
    """Times are whole; waits that last have the stack that was read while they did."""
    done = run([*user_words(run_dir), infprof, "record", "-o", run_dir, "--off-cpu", "--no-finish", "--", waiter, 2, *KINDS[:4]])
    assert done.returncode == 0, done.stderr
    recorded = run_dir.run()
    skip_without_perf(recorded)
    found, answers = waits.rows(recorded, "off-cpu", {"cpu_waiter": waiter}), waits.truths(done.stdout)
    check_totals(found, answers, stolen())
    if last(recorded)["method"] in METHODS.values():
        pytest.skip("this kernel lets everybody take stacks of switches")
    for one in answers:
        if one.kind in ("nap", "lock"):
            waited = waits.seconds(found, tid=one.tid, function=f"wait_{one.kind}")
            assert 0.4 * one.waited < waited < 1.02 * one.waited + 0.03, (one, waited)
    [row] = [row for row in recorded.table("sources") if row["instance"] == "off-cpu" and row["column_name"] == "stack"]
    assert row["state"] == "denied" and "perf_event_paranoid" in row["fix"]
    unread = [row for row in found if [frame.name for frame in row.frames] == ["[no stack was read]"]]
    assert all(row.state == "blocked" for row in unread)


@pytest.fixture(scope="module")
def ping_pong(tmp_path_factory):
    path = tmp_path_factory.mktemp("ping_pong") / "ping_pong"
    subprocess.run(["gcc", "-O2", pathlib.Path(__file__).with_name("ping_pong.c"), "-o", path, "-pthread"], check=True)
    return path


@pytest.mark.parametrize("way", METHODS)
def test_short_waits(record, ping_pong, way):
    """Waits below the limit are sums, so that a storm of them is no storm of rows; their time is there all the same."""
    done = record("--off-cpu", "--no-finish", command=["taskset", "-c", "0", ping_pong], **without_bpf(way))
    assert done.returncode == 0, done.stderr
    skip_other(done.run, way)
    found = waits.rows(done.run, "off-cpu")
    short = [row for row in found if row.frames and row.frames[0].name == SHORT]
    sampler = last(done.run)
    lost = [row for row in done.run.table("sampler")][-1]["lost"]
    assert sum(row.samples for row in short) + 2 * lost > 15000, (sampler, lost)
    assert len(found) < 8000
    if way == "BPF":  # no switch is missed: each thread waits once for each that the other one does
        assert sampler["lost"] == 0 and sum(row.samples for row in found) > 39000, sampler


@pytest.mark.skipif(os.cpu_count() > 8, reason="the buffers of so many CPUs are smaller")
def test_many_go_on_at_once(record, tmp_path):
    """Copies of small stacks are small: the buffer of a CPU (4 MiB) has room for those of 600 threads, and had it for 120."""
    program = tmp_path / "burst"
    subprocess.run(["gcc", "-O2", pathlib.Path(__file__).with_name("burst.c"), "-o", program, "-pthread"], check=True)
    done = record("--off-cpu", "--no-finish", command=["taskset", "-c", "0", program, 600, 3])
    assert done.returncode == 0, done.stderr
    skip_other(done.run, "BPF")
    found = waits.rows(done.run, "off-cpu", {"burst": program})
    whole = [row for row in found if not row.is_truncated and "wait_round" in [frame.name for frame in row.frames]]
    assert last(done.run)["lost"] == 0
    assert sum(row.samples for row in whole) >= 1800, (len(found), len(whole))


@pytest.mark.parametrize("way", METHODS)
def test_limit(record, waiter, way, stolen):
    """The limit is the user's: naps of 100 ms are long for one of 500 us, and short for one of 300 ms."""
    for limit, is_long in ((500, True), (300000, False)):
        done = record(f"--off-cpu={limit}", "--no-finish", command=[waiter, 1, "nap"], **without_bpf(way))
        assert done.returncode == 0, done.stderr
        skip_other(done.run, way)
        found, answers = waits.rows(done.run, "off-cpu", {"cpu_waiter": waiter}), waits.truths(done.stdout)
        check_totals(found, answers, stolen())
        [nap] = [one for one in answers if one.kind == "nap"]
        napped = waits.seconds(found, tid=nap.tid, function="wait_nap")
        short = waits.seconds(found, tid=nap.tid, function=f"[waits below {limit} us]")
        assert (napped > 0.9 * nap.waited) if is_long else (short > 0.9 * nap.waited), (limit, napped, short, nap)


@pytest.mark.parametrize("way", ["off", "inside"])
def test_without_the_program_of_python(record, infprof, run_dir, waiter, way, stolen):
    """Waits are timed in the kernel also where it reads no Python frames."""
    first = run([str(word) for word in [infprof, "record", "-o", run_dir, "--off-cpu", "--no-finish", "--", "true"]])
    assert first.returncode == 0, first.stderr
    skip_other(run_dir.run(), "BPF")
    done = record("--cpu", "--off-cpu", f"--python={way}", "--no-finish", command=[waiter, 1, *KINDS])
    assert done.returncode == 0, done.stderr
    assert last(done.run)["method"] == METHODS["BPF"]
    check_totals(waits.rows(done.run, "off-cpu", {"cpu_waiter": waiter}), waits.truths(done.stdout), stolen())


@needs_root
def test_pid_namespace(infprof, run_dir, waiter, stolen):
    """The kernel counts threads by other numbers than we do: each has its own times all the same, and after its end too."""
    words = [*unshare("--pid", "--fork", "--mount-proc"), infprof, "record", "-o", run_dir, "--off-cpu", "--no-finish", "--", waiter, 1, *KINDS]
    done = run([str(word) for word in words])
    assert done.returncode == 0, done.stderr
    skip_other(run_dir.run(), "BPF")
    found, answers = waits.rows(run_dir.run(), "off-cpu", {"cpu_waiter": waiter}), waits.truths(done.stdout)
    assert max(one.tid for one in answers) < 1000
    check_totals(found, answers, stolen())


def test_those_who_waited_before(infprof, run_dir, waiter):
    """A thread that never runs while we look has waited all the time."""
    with subprocess.Popen([waiter, "forever"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            done = run([infprof, "record", "-o", run_dir, "--off-cpu", "--no-finish", "--duration", "2", "--pid", process.pid])
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr
    assert "TracerPid:\t0" in status
    skip_without_perf(run_dir.run())
    found = waits.rows(run_dir.run(), "off-cpu", {"cpu_waiter": waiter})
    assert {row.state for row in found} == {"sleeping in pause"}
    assert 1.2 < waits.seconds(found, function="main") < 2.5
    assert sum(row.samples for row in found) == 1  # one wait
