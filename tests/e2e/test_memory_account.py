"""What the memory of processes holds: record --memory, table memory_account, and the report's view of it."""
import collections
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

import pytest

from nvml import machine  # noqa: F401 a fixture
from program import run

HERE = pathlib.Path(__file__).resolve().parent
MIB, PAGE = 1 << 20, 4096
pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "memory_program"
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", HERE / "memory_program.c", "-o", path, "-pthread"], check=True)
    return path


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "model weights.gguf"
    path.write_bytes(b"w" * (32 * MIB))
    return path


def accounts(recorded, name="memory_program"):
    """[{(kind, name): bytes}] of the process of that name, in order of time; `rss` and `t_ns` beside."""
    ids = {row["id"] for row in recorded.table("process") if row["pName"] == name}
    found = collections.defaultdict(dict)
    for row in recorded.table("memory_account"):
        if row["process"] in ids and row["of"] == "rss":
            assert (row["kind"], row["name"]) not in found[row["t_ns"]], row
            found[row["t_ns"]][row["kind"], row["name"]] = row["bytes"]
    return [found[t_ns] for t_ns in sorted(found)]


def report(infprof, run_dir):
    done = run([infprof, "report", "-r", run_dir, "--json"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_kind(account, kind):
    return sum(size for (of, _), size in account.items() if of == kind)


def names_anonymous_memory():
    return subprocess.run([sys.executable, "-c", "import ctypes, mmap; m = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); "
                           "a = ctypes.addressof(ctypes.c_char.from_buffer(m)); "
                           "raise SystemExit(ctypes.CDLL(None).prctl(0x53564d41, 0, ctypes.c_ulong(a), ctypes.c_ulong(4096), b'x'))"]).returncode == 0


def test_known_answer(infprof, record, run_dir, program, weights):
    done = record("--memory", "-t", 200, "--no-snapshots", command=[program, weights, "hold", 5])
    assert done.returncode == 0, done.stderr
    account = accounts(done.run)[-1]
    assert account["mapped file", str(weights)] == 32 * MIB
    shared = account["shared memory", "/memfd:truth of\nlines (deleted)"]
    assert shared == 8 * MIB
    if names_anonymous_memory():
        assert account["anonymous", "[anon:truth]"] == 16 * MIB
        assert account.get(("anonymous", None), 0) < MIB
    assert 16 * MIB <= of_kind(account, "anonymous") < 17 * MIB
    assert 4 * MIB <= account["stack", "other threads"] < 4 * MIB + 4 * 8 * PAGE
    assert 0 < account["stack", "main thread"] < MIB
    assert any(kind == "code" and name.endswith("/memory_program") for kind, name in account)
    assert any(kind == "code" and re.search(r"/libc[.-]", name) for kind, name in account) and account["data", None] > 0
    # Nothing changes: RSS is the same at each sample.
    rss = {row["pResidentSetSize"] for row in done.run.table("processes") if (row["pResidentSetSize"] or 0) > 60 * MIB}
    assert min(abs(sum(account.values()) - size) for size in rss) < MIB, (account, rss)
    assert abs(account.get(("unexplained", None), 0)) < MIB
    quality = {(row["kind"], row["name"]): row["quality"] for row in done.run.table("memory_account")}
    assert quality["stack", "other threads"] == "estimated" and quality["mapped file", str(weights)] == "measured"

    found = report(infprof, run_dir)
    (first, *_) = found["memory_accounts"]
    of_rss = [row for row in first["rows"] if row["of"] == "rss"]
    assert first["name"] == "memory_program" and first["rss_bytes"] == sum(row["bytes"] for row in of_rss)
    assert sum(row["share_percent"] for row in of_rss) == pytest.approx(100)
    assert first["gpu_bytes"] is None and first["heap"] is None
    if pathlib.Path("/proc/swaps").read_text().count("\n") == 1:  # nothing can be swapped out, and that is known
        assert first["swap_bytes"] == 0 and [(row["kind"], row["bytes"]) for row in first["rows"] if row["of"] == "swap"] == [("swap", 0)]
    # It had its last account a second after its begin, and lived for four more: what it held at its end is not known.
    assert 2 < first["last_account_age_s"] < 6, first["last_account_age_s"]
    text = run([infprof, "report", "-r", run_dir, "memory"]).stdout
    assert re.search(r"^Memory of memory_program \(\d+\) in its largest account, after .*: \d+\.?\d* MiB in RAM$", text, re.M), text
    assert re.search(r"^  f mapped file +model weights.gguf +32\.?0* MiB +\d+\.\d %  measured$", text, re.M), text
    bar = re.search(r"^  ([fshatcdvk?]{60})$", text, re.M)[1]
    whole = sum(account.values())
    assert abs(bar.count("f") - 60 * 32 * MIB / whole) <= 1 and abs(bar.count("s") - 60 * 8 * MIB / whole) <= 1, bar
    assert re.search(r"its last account is of \d\.\d+ s before it was looked at last; then its RSS was \d+\.\d+ MiB", " ".join(text.split())), text
    assert re.search(r"^  s shared memory +memfd:truth of\\nlines \(deleted\) ", text, re.M), text

    page = run_dir / "page.html"
    assert run([infprof, "report", "-r", run_dir, "--html", "-o", page]).returncode == 0
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)[1])
    (panel,) = [panel for panel in data["panels"] if panel["id"] == "memory-account"]
    last = {series["name"]: [v for v in series.get("v", series.get("mean")) if v is not None][-1] for series in panel["series"]}
    stacks = next(series for series in panel["series"] if series["name"] == "stack")
    assert stacks["quality"] == "estimated"
    # It lives for 4 s after its account, and the grid is 0.2 s.
    assert 12 < sum(v is not None for v in stacks.get("v", stacks.get("mean"))) < 26, stacks
    assert panel["kind"] == "stack" and last["mapped file"] == pytest.approx(32 * MIB, rel=0.01)
    assert sum(last.values()) == pytest.approx(whole, rel=0.02)


def test_a_process_that_ends_at_once_has_none(record):
    done = record("--memory", "--no-snapshots", command=["true"])
    assert done.returncode == 0 and done.run.table("memory_account") == []


def test_without_the_option(infprof, record, run_dir):
    done = record("--no-snapshots", "--duration", 2, command=["sleep", "2"])
    assert done.run.table("memory_account") == [] and report(infprof, run_dir)["memory_accounts"] == []
    done = run([infprof, "record", "-o", run_dir / "x", "--memory", "--duration", "1"])
    assert done.returncode == 125 and "--memory needs a target" in done.stderr


def test_a_stack_with_data_right_above(record, program):
    """Before Linux 6.7 the kernel makes one mapping of both: what of it is the stack is known by its usual length and by the page on its top."""
    limit = resource.getrlimit(resource.RLIMIT_STACK)
    done = record("--memory", "-t", 200, "--no-snapshots", command=[program, "-", "joined", 3],
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (8 * MIB, limit[1])))
    account = accounts(done.run)[-1]
    assert account["stack", "other threads"] == MIB and 16 * MIB <= of_kind(account, "anonymous") < 17 * MIB, account


def test_growth(record, program):
    """An account when the memory has changed by a tenth, not each second."""
    done = record("--memory", "-t", 200, "--no-snapshots", command=[program, "-", "grow", 20])
    found = [of_kind(account, "anonymous") for account in accounts(done.run)]
    assert len(found) >= 4 and found == sorted(found) and found[-1] > 2 * found[0] and found[-1] > 100 * MIB, found
    done = record("--memory", "-t", 200, "--no-snapshots", command=["sleep", "5"])
    assert len(accounts(done.run, "sleep")) == 1


@needs_root
def test_process_of_another_user(infprof, run_dir, program):
    number = str(20000 + os.getpid() % 20000)
    run_dir.mkdir()
    os.chown(run_dir, int(number), int(number))
    for parent in run_dir.parents:
        if parent != pathlib.Path("/tmp") and str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    with subprocess.Popen([program, "-", "blocks", "4", "60"], stdout=subprocess.PIPE) as target:
        try:
            target.stdout.readline()
            done = run(["setpriv", "--reuid", number, "--regid", number, "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
                        "env", "-u", "XDG_RUNTIME_DIR", "HOME=/nowhere", infprof, "record", "-o", run_dir, "--memory",
                        "--no-finish", "--duration", "4", "--pid", target.pid])
        finally:
            target.kill()
    assert done.returncode == 0, done.stderr
    assert run_dir.run().table("memory_account") == []
    (said,) = [row for row in run_dir.run().table("sources") if row["table_name"] == "memory_account" and row["state"] == "denied"]
    assert "smaps of other users' processes" in said["reason"] and said["fix"]
    text = run([infprof, "report", "-r", run_dir, "memory"]).stdout
    assert "no account" in text and "smaps of other users' processes" in " ".join(text.split())


def smaps_cpu_s(pid):
    """What reading it once costs in Python, which hardly does more than the kernel's part."""
    begin = time.thread_time()
    with open(f"/proc/{pid}/smaps", "rb", buffering=0) as file:
        while file.read(1 << 16):
            pass
    return time.thread_time() - begin


def test_many_mappings_are_bounded(infprof, run_dir, program):
    """It grows by more than a tenth each second, but an account of 30,000 mappings is expensive: there are as many as 0.5 % of a CPU gives."""
    seconds = 12
    with subprocess.Popen([program, "-", "many", "30000", "10"], stdout=subprocess.PIPE) as target:
        try:
            target.stdout.readline()
            once = min(smaps_cpu_s(target.pid) for _ in range(5))
            done = run([infprof, "record", "-o", run_dir, "--memory", "--no-snapshots", "--duration", seconds, "--pid", target.pid])
        finally:
            target.kill()
    assert done.returncode == 0, done.stderr
    found = accounts(run_dir.run())
    assert found and all(of_kind(account, "anonymous") > 30000 * PAGE for account in found)
    assert len(found) <= 2 + (0.05 + seconds / 200) / once, (len(found), once)


def test_blocks_of_the_heap(infprof, record, run_dir, program):
    """With --heap the account comes by itself, and says how much of the anonymous memory is in blocks that were in use."""
    done = record("--heap", "-t", 200, "--no-snapshots", command=[program, "-", "blocks", 24, 5])
    assert done.returncode == 0, done.stderr
    (first, *_) = report(infprof, run_dir)["memory_accounts"]
    heap = first["heap"]
    assert heap["quality"] == "estimated" and heap["in_use_bytes"] + heap["rest_bytes"] == pytest.approx(heap["anonymous_bytes"])
    # 384 blocks of 64 KiB, of which one in e is missed: 5.5 standard deviations.
    error = 5.5 * 65536 * (384 * 0.58) ** 0.5
    assert abs(heap["blocks_in_use_bytes"] - 24 * MIB) < error
    assert 0.1 * error < heap["blocks_in_use_error_bytes"] < error
    assert of_kind({(row["kind"], row["name"]): row["bytes"] for row in first["rows"]}, "heap") >= 24 * MIB
    text = " ".join(run([infprof, "report", "-r", run_dir, "memory"]).stdout.split())
    assert "blocks in use then: 2" in text and "what the allocator keeps" in text, text


def test_memory_of_a_gpu_is_a_total_of_its_own(infprof, run_dir, program, machine):  # noqa: F811
    with subprocess.Popen([program, "-", "blocks", "4", "60"], stdout=subprocess.PIPE) as target:
        try:
            target.stdout.readline()
            box = machine("0 profile h100", f"0 process {target.pid} type=C memory=2147483648 sm=33")
            done = run([infprof, "record", "-o", run_dir, "--memory", "-t", "200", "--no-snapshots", "--duration", "4", "--pid", target.pid],
                       env=box.env)
        finally:
            target.kill()
    assert done.returncode == 0, done.stderr
    rows = [row for row in run_dir.run().table("memory_account") if row["of"] == "gpu"]
    assert rows and {(row["kind"], row["bytes"], row["quality"]) for row in rows} == {("gpu", 2147483648, "measured")}
    (first,) = report(infprof, run_dir)["memory_accounts"]
    assert first["gpu_bytes"] == 2147483648 and first["rss_bytes"] == sum(row["bytes"] for row in first["rows"] if row["of"] == "rss")
    assert re.search(r"^  g memory of GPU +GPU-[-0-9a-f.]+ +2\.?0* GiB +100\.0 %  measured$",
                     run([infprof, "report", "-r", run_dir, "memory"]).stdout, re.M)
