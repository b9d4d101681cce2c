"""The command line itself: help at any width, formats by extension, slips of the finger, the list of runs."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

import proc

VERBS = "backtrace bottlenecks compare config doctor export finish flamegraph heap import load mark metrics plot profile-report query record recover report runs snapshot symbolize tables top".split()


def call(infprof, *words, **options):
    return subprocess.run([infprof, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, **options)


def on_terminal(infprof, width, *words):
    """What it prints on a terminal of that width."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen([infprof, *map(str, words)], stdout=slave, stderr=subprocess.PIPE, env=environment)
    os.close(slave)
    shown = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(master)
    assert process.wait(timeout=60) == 0, process.stderr.read()
    return shown.decode().replace("\r", "")


@pytest.fixture(scope="module")
def runs(infprof, tmp_path_factory):
    """Two finished runs of one directory."""
    directory = tmp_path_factory.mktemp("cli") / "out"
    for command in (["true"], ["sleep", "0.3"]):
        done = call(infprof, "record", "-t", "100ms", "-o", directory, "--", *command)
        assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture
def recorded(infprof):
    """A program that records itself."""
    text = "import ctypes, sys, time; ctypes.CDLL(sys.argv[1]).infp_enable(); print(flush=True); time.sleep(1000)"
    library = pathlib.Path(infprof).parent / "libinfprof.so"
    with subprocess.Popen([sys.executable, "-c", text, str(library)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def words_of(text):
    return text.split()


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_the_terminal(infprof, verb):
    wide = on_terminal(infprof, 300, verb, "-h")
    for width in (60, 80):
        shown = on_terminal(infprof, width, verb, "-h")
        long = [line for line in shown.splitlines() if len(line) > width and " " in line.strip()]
        assert not long, long
        assert words_of(shown) == words_of(wide)
    assert max(map(len, wide.splitlines())) <= 120
    assert re.search(r"^  -h, --help +print this help$", shown, re.M)


def test_help_behind_the_option_column(infprof):
    shown = call(infprof, "record", "-h", env={**os.environ, "COLUMNS": "50"}).stdout
    at = shown.index("--duration TIME")
    first, second = shown[at:].splitlines()[:2]
    assert second.startswith(" " * 29) and second[29] != " " and len(second) <= 50
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    for words in (["help"], ["record", "-h"]):
        assert max(map(len, call(infprof, *words, env=environment).stdout.splitlines())) <= 80


def test_overview_lists_every_verb(infprof):
    shown = on_terminal(infprof, 80, "help")
    assert re.findall(r"^  ([a-z-]+) ", shown[shown.index("verbs:"):shown.index("examples:")], re.M) == VERBS
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("width", [70, 80, 100, 200])
def test_listings_show_the_whole_help(infprof, runs, width):
    rows = json.loads(call(infprof, "tables", "-r", runs, "cpu", "--json").stdout)
    shown = on_terminal(infprof, width, "tables", "-r", runs, "cpu")
    assert "null" not in shown and "\u2026" not in shown
    assert all(len(line) <= width for line in shown.splitlines())
    flat = " ".join(shown.split())
    for row in rows:
        assert row["column_name"] in flat
        if width == 70:  # below its row
            assert row["help"] in flat
    if width == 200:
        assert all(row["help"] in shown for row in rows)
    metrics = on_terminal(infprof, width, "metrics", "-t", "mem")
    assert "null" not in metrics and "\u2026" not in metrics


def test_extension_is_the_format(infprof, runs, tmp_path):
    def bytes_of(name, *words):
        path = tmp_path / name
        done = call(infprof, *words, "-r", runs, "-o", path)
        assert done.returncode == 0, done.stderr
        return path.read_bytes()

    sql = "SELECT 1 AS a"
    assert bytes_of("a.csv", "query", sql) == b"a\n1\n"
    assert bytes_of("a.tsv", "export", "ticks").startswith(b"t_ns\t")
    assert json.loads(bytes_of("a.json", "query", sql)) == [{"a": 1}]
    assert json.loads(bytes_of("a.jsonl", "query", sql)) == {"a": 1}
    assert bytes_of("a.parquet", "query", sql)[:4] == b"PAR1"
    assert bytes_of("a.arrow", "query", sql) == bytes_of("a.arrows", "query", sql) == bytes_of("b", "query", sql, "-f", "arrow")
    assert bytes_of("a.txt", "query", sql) == b"a\n-\n1\n"
    assert b"# TYPE" in bytes_of("a.prom", "export")
    assert bytes_of("a.xlsx", "query", sql, "-f", "csv") == b"a\n1\n"
    assert bytes_of("plain", "query", sql) == bytes_of(".hidden", "query", sql) == b"a\n1\n"


@pytest.fixture(scope="module")
def stacks(infprof, tmp_path_factory):
    directory = tmp_path_factory.mktemp("stacks")
    (directory / "a.folded").write_text("main;work 3\n")
    done = call(infprof, "import", directory / "a.folded", "-o", directory / "out", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["samples"] == 3, done.stderr
    return directory / "out"


@pytest.fixture(scope="module")
def heaps(infprof, tmp_path_factory):
    directory = tmp_path_factory.mktemp("heaps")
    done = call(infprof, "record", "--heap=4K", "--no-snapshots", "-o", directory / "out", "--", sys.executable, "-c", "pass")
    assert done.returncode == 0, done.stderr
    return directory / "out"


# -o of record, load and import is the run's directory, and what record writes on standard output is the command's.
OUTPUT_IS_A_RUN = ["import", "load", "record", "top"]


@pytest.mark.parametrize("verb", VERBS)
def test_options_of_every_verb(infprof, verb):
    shown = call(infprof, verb, "-h").stdout
    assert f"-o, --output {'DIR' if verb in OUTPUT_IS_A_RUN else 'FILE'} " in shown
    assert verb == "record" or re.search("^ +--json ", shown, re.M)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in OUTPUT_IS_A_RUN])
def test_json_and_output_of_every_verb(infprof, request, tmp_path, verb):
    """What --json writes on standard output is the same in a file; where the extension decides, .json is JSON without --json."""
    words = {"plot": ["vCpuTime"], "query": ["SELECT 1 AS a"], "export": ["ticks"], "tables": ["cpu"], "mark": ["here"]}.get(verb, [])
    if verb == "mark":
        request.getfixturevalue("live")
    elif verb in ("flamegraph", "symbolize"):
        words = ["-r", request.getfixturevalue("stacks")]
    elif verb == "heap":
        words = ["-r", request.getfixturevalue("heaps")]
    elif verb == "compare":
        words = [request.getfixturevalue("runs"), request.getfixturevalue("runs")]
    elif verb == "config":
        words = [request.getfixturevalue("recorded").pid]
    elif verb == "backtrace":
        words = [request.getfixturevalue("sleeper").pid]
    elif verb not in ("doctor", "metrics", "snapshot"):
        words += ["-r", request.getfixturevalue("runs")]

    def shape(text):
        value = json.loads(text)
        return sorted(value if isinstance(value, dict) else value[0])

    printed = call(infprof, verb, *words, "--json")
    assert printed.returncode == 0 or verb == "doctor", printed.stderr
    dashed = call(infprof, verb, *words, "--json", "-o", "-")
    assert shape(printed.stdout) == shape(dashed.stdout)
    for name, options in (("a", ["--json"]), ("a.json", [])):
        if verb == "flamegraph" and not options:  # several of its formats are JSON
            continue
        done = call(infprof, verb, *words, *options, "-o", tmp_path / name)
        assert done.returncode == printed.returncode and done.stdout == "", done.stderr
        assert shape((tmp_path / name).read_text()) == shape(printed.stdout)


@pytest.mark.parametrize("verb", ["doctor", "recover", "symbolize", "metrics", "snapshot"])
def test_words_in_a_file(infprof, runs, tmp_path, verb):
    words = ["-r", runs] if verb in ("recover", "symbolize") else []
    printed = call(infprof, verb, *words).stdout
    done = call(infprof, verb, *words, "-o", tmp_path / "words")
    assert done.stdout == "" and (tmp_path / "words").read_text()[:12] == printed[:12] != "", done.stderr


@pytest.mark.parametrize("words", [("query", "SELECT 1"), ("export",)])
def test_unknown_extension(infprof, runs, tmp_path, words):
    path = tmp_path / "c.xlsx"
    done = call(infprof, *words, "-r", runs, "-o", path)
    assert done.returncode == 2 and not path.exists() and done.stdout == ""
    assert all(known in done.stderr for known in (".xlsx", ".csv", ".parquet", ".jsonl", ".txt"))


@pytest.mark.parametrize("typed, meant", [("recrod", "record"), ("reprot", "report"), ("exprot", "export"), ("metrcs", "metrics"), ("tabels", "tables"),
                                          ("ls", None), ("xyzzy", None), ("python3", None)])
def test_did_you_mean(infprof, typed, meant):
    for words in ((typed,), ("help", typed)):
        done = call(infprof, *words)
        assert done.returncode == 2 and "there is no verb" in done.stderr
        assert (f"did you mean `infprof {meant}`" in done.stderr) if meant else ("did you mean" not in done.stderr)


def test_did_you_mean_a_table(infprof, runs):
    done = call(infprof, "tables", "-r", runs, "cpuu")
    assert done.returncode == 1 and "did you mean cpu?" in done.stderr


def test_runs_are_listed(infprof, runs):
    done = call(infprof, "runs", runs, "--json", env={**os.environ, "TZ": "UTC-2"})
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    infos = [json.loads(path.read_text()) for path in sorted(runs.glob("*.infprof/run.json"))]
    for row, info in zip((first, second), infos):
        assert row["uuid"] == info["uuid"] and row["mode"] == "run" and row["state"] == "finished"
        local = time.strftime("%Y-%m-%dT%H:%M:%S+02:00", time.gmtime(info["started"] // 1000 + 7200))
        assert row["started"] == local
        assert row["duration_s"] == (int(info["ended_t_ns"]) - int(info["started_t_ns"])) // 1_000_000 / 1000
    assert (first["command"], second["command"]) == ("true", "sleep 0.3") and second["duration_s"] >= 0.3
    text = call(infprof, "runs", "-r", runs).stdout.splitlines()
    assert text[0].split("\t") == ["uuid", "started", "duration_s", "state", "mode", "pin", "command"]
    assert [line.split("\t")[0] for line in text[1:]] == [first["uuid"], second["uuid"]]
    shown = on_terminal(infprof, 80, "runs", runs)
    assert first["uuid"][:13] in shown and "sleep 0.3" in shown and max(map(len, shown.splitlines())) <= 80
    assert second["uuid"] in on_terminal(infprof, 120, "runs", runs)


def test_runs_tell_what_was_attached_to(infprof, record):
    target = subprocess.Popen(["sleep", "62"])
    try:
        done = record("--pid", target.pid, "--duration", "0.5", "-t", "100", "--no-finish")
        assert done.returncode == 0, done.stderr
    finally:
        target.kill()
        target.wait()
    (found,) = json.loads(call(infprof, "runs", done.run.output, "--json").stdout)
    assert (found["mode"], found["command"], found["state"]) == ("pid", "sleep 62", "ended")
    shown = call(infprof, "runs", done.run.output, "-f", "table").stdout
    assert "sleep 62" in shown


@pytest.mark.parametrize("words", [["-h"], ["--version"], ["help", "record"], ["record", "-h"]])
def test_what_cannot_be_written_is_a_failure(infprof, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([infprof, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "cannot write to standard output" in done.stderr


def test_runs_of_no_directory(infprof, runs, tmp_path):
    assert call(infprof, "runs", tmp_path / "none").returncode == 1
    done = call(infprof, "runs", tmp_path)
    assert done.returncode == 0 and "no run" in done.stderr
    done = call(infprof, "report", "-r", "0", cwd=runs.parent)
    assert done.returncode == 1
    (runs.parent / "profiler-output").symlink_to(runs)
    done = call(infprof, "report", "-r", "0", cwd=runs.parent)
    assert done.returncode == 1 and "infprof runs" in done.stderr


def test_finish_and_recover_take_a_directory(infprof, record, run_dir):
    assert record("--no-finish", "-t", "100", command=["true"]).returncode == 0
    done = call(infprof, "finish", run_dir, "--json")
    assert done.returncode == 0, done.stderr
    finished = json.loads(done.stdout)
    assert finished["samples"] > 0 and (run_dir / finished["series"]).is_file() and finished["segments"] > 0
    assert json.loads(call(infprof, "runs", run_dir, "--json").stdout)[0]["state"] == "finished"
    assert call(infprof, "finish", run_dir, "-r", run_dir).returncode == 2
    for words in ((run_dir,), ("-r", run_dir)):
        done = call(infprof, "recover", *words)
        assert done.returncode == 0 and "nothing to recover" in done.stdout


@pytest.mark.parametrize("text, period", [("150", 150), ("150ms", 150), ("0.5s", 500), ("1s", 1000)])
def test_interval(record, text, period):
    done = record("-t", text, "--no-finish", command=["true"])
    assert done.returncode == 0, done.stderr
    assert done.run.info["period_ms"] == period


@pytest.mark.parametrize("text", ["", "1.5", "10.5ms", "s", "ms", "1x", "-1s"])
def test_bad_interval(record, text):
    done = record("-t", text, command=["true"])
    assert done.returncode == 125 and "500ms" in done.stderr and "milliseconds" in done.stderr


def test_baseline_longer_than_the_recording(infprof, run_dir):
    """It would never end, and the idle power never be known."""
    done = call(infprof, "record", "-o", run_dir, "--energy-baseline", "2s", "--duration", "1s")
    assert done.returncode == 125 and "--energy-baseline 2s takes the whole of --duration 1s" in done.stderr
    assert call(infprof, "record", "-o", run_dir, "--energy-baseline", "1s", "--duration", "100ms", "--", "true").returncode == 0


def test_mark_says_which_run(infprof, run_dir, tmp_path):
    recorder = subprocess.Popen([infprof, "record", "-o", run_dir, "-t", "100", "--no-finish", "--", "sleep", "61"], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not list(run_dir.glob("*.infprof/columns/*.arrows")):
            assert time.monotonic() < end
            time.sleep(0.05)  # sleep: between two looks
        uuid = run_dir.run().uuid
        for words in (("tag",), ("-r", run_dir, "tag"), ("-r", run_dir / f"{uuid}.infprof", "tag"), ("-r", uuid[:20], "tag")):
            done = call(infprof, "mark", *words)
            assert done.returncode == 0 and done.stdout == ""
            assert done.stderr == f"infprof: marked run {uuid}: sleep 61\n"
        (row,) = json.loads(call(infprof, "runs", run_dir, "--json").stdout)
        assert row["state"] == "recording" and 0 < row["duration_s"] < 60
        recorder.kill()
        recorder.wait(timeout=60)
        for words in (("-r", run_dir), ("-r", uuid)):
            os.makedirs(tmp_path / "cwd", exist_ok=True)
            link = tmp_path / "cwd" / "profiler-output"
            if not link.is_symlink():
                link.symlink_to(run_dir)
            done = call(infprof, "mark", *words, "tag", cwd=tmp_path / "cwd")
            assert done.returncode == 1
            assert uuid in done.stderr and "recorder is gone" in done.stderr and "recover" in done.stderr
        (row,) = json.loads(call(infprof, "runs", run_dir, "--json").stdout)
        assert row["state"] == "interrupted" and row["duration_s"] is None
    finally:
        recorder.kill()
        recorder.wait(timeout=60)
        for pid, words in proc.texts("/proc", "cmdline").items():  # the command outlives its recorder
            if words == "sleep\x0061\x00":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("words, expected", [
    (["record", "--intervall", "5"], "unknown option --intervall; did you mean --interval?"),
    (["report", "--lables"], "unknown option --lables; did you mean --labels?"),
    (["record", "--s", "1"], "--s could be --"),
    (["report", "--nothing-like-it"], "unknown option --nothing-like-it; see"),
    (["query", "-x"], "unknown option -x; see"),
    (["record", "--cpu", "99"], "--cpu=99"),
    (["record", "--wall", "20", "--", "true"], "--wall=20"),
    (["record", "--cpu=", "--", "true"], "--cpu= has no value"),
    (["metrics", "--table", "cpu_cor"], "did you mean cpu_core?"),
    (["record", "--header", "none", "--", "true"], '--header must be one line "Name: value"'),
])
def test_what_was_meant(infprof, tmp_path, words, expected):
    """A slip is an error that names what was probably meant; nothing is recorded."""
    done = call(infprof, *words, cwd=tmp_path)
    assert done.returncode != 0 and expected in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--token-file", "--engine-token"])
def test_a_token_file_that_is_not_there(infprof, tmp_path, option):
    """Named at the start, not after hours of recording without the engine; it may come later."""
    done = call(infprof, "record", "--no-finish", option, tmp_path / "none", "--", "true", cwd=tmp_path)
    assert done.returncode == 0 and f"--engine-token: {tmp_path}/none cannot be read: No such file or directory; " in done.stderr


@pytest.mark.parametrize("verb, option", [("record", "--token-file"), ("record", "--engine-token"), ("load", "--token-file"), ("load", "--engine-token")])
def test_an_option_has_one_name_everywhere(infprof, tmp_path, verb, option):
    """Each verb takes the other's name, and refuses both at once."""
    done = call(infprof, verb, option, "x", "--token-file", "x", "--", "true", cwd=tmp_path)
    assert done.returncode != 0 and "is given twice" in done.stderr, done.stderr
