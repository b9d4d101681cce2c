"""Fixtures of all end-to-end tests: the binary (INFPROF, else build/infprof), a registry of live runs of the test's own, and
readers of a run's files that do not use infprof."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile

import pytest

from waiting import wait_for

TOP = pathlib.Path(__file__).resolve().parents[2]
DUCKDB = TOP / ".deps" / "duckdb" / "libduckdb.so"
# Builds in other folders than build/ have no library beside the binary.
if DUCKDB.exists():
    os.environ.setdefault("INFPROF_LIBDUCKDB", str(DUCKDB))
# Under nohup, or in the background of a script, programs would inherit that these are ignored, and tests of them would wait for ever.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc):
    """`tools/check --repeat` runs each test in so many rounds."""
    rounds = int(os.environ.get("INFPROF_TEST_ROUNDS", 1))
    if rounds > 1:
        metafunc.fixturenames.append("test_round")
        metafunc.parametrize("test_round", [f"round{number}" for number in range(1, rounds + 1)])


@pytest.fixture(scope="session")
def infprof():
    """The path of the binary under test."""
    path = pathlib.Path(os.environ.get("INFPROF", TOP / "build" / "infprof")).resolve()
    if not path.exists():
        pytest.fail(f"{path} is not there: build it (make build), or set INFPROF")
    return str(path)


@pytest.fixture(autouse=True)
def own_registry(tmp_path_factory, monkeypatch):
    """Live runs of one test are not seen by another, nor by the user's own infprof."""
    directory = tmp_path_factory.mktemp("registry", numbered=True)
    directory.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
    monkeypatch.delenv("INFPROF_RUN", raising=False)
    return directory


@pytest.fixture(autouse=True)
def rings(monkeypatch):
    """Ring files of one test are in a directory of its own: recordings of the machine by others would take them from the default one.
    In memory, as they are meant to be: on a busy disk a program's first records are lost while its file is made."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="infprof-test-", dir=memory, ignore_cleanup_errors=True) as directory:
        monkeypatch.setenv("INFPROF_RING", directory)
        yield pathlib.Path(directory)


@pytest.fixture
def stolen():
    """stolen(): CPU seconds, at most, that the host took from this virtual machine since the test began, or since an earlier
    stolen.now(): timers of samples and a program's own clock count them differently. The kernel tells whole hundredths of a second."""
    unit = 1 / os.sysconf("SC_CLK_TCK")

    def now():
        with open("/proc/stat") as file:
            return int(file.readline().split()[8]) * unit

    def call(since=now()):
        at = now()
        return at - since + (unit if at else 0)

    call.now = now
    return call


class Run:
    """A run on disk, read by pyarrow and json alone."""

    def __init__(self, output):
        self.output = pathlib.Path(output)
        found = sorted(self.output.glob("*.infprof"))
        assert found, f"no run in {output}: {sorted(path.name for path in self.output.iterdir())}"
        self.path = found[-1]
        self.uuid = self.path.name[:-len(".infprof")]

    @property
    def info(self):
        return json.loads((self.path / "run.json").read_text())

    def segments(self, table):
        """Files of a table in order; where a finished Parquet file stands beside its segment, only that."""
        files = {}
        for path in sorted((self.path / table).glob("*.*")):
            if path.suffix == ".parquet" or (path.suffix == ".arrows" and path.stem not in files):
                files[path.stem] = path
        return [files[stem] for stem in sorted(files)]

    def table(self, name):
        """All rows of a table as a list of dictionaries; [] when it was never written."""
        rows = []
        for path in self.segments(name):
            rows += read_file(path)
        return rows

    def snapshots(self):
        return sorted(self.output.glob(f"{self.uuid}-*.json"))


def read_file(path):
    import pyarrow
    import pyarrow.parquet

    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    rows = []
    with pyarrow.OSFile(str(path)) as file:
        reader = pyarrow.ipc.open_stream(file)
        while True:
            try:
                rows += reader.read_next_batch().to_pylist()
            except StopIteration:
                return rows
            except (pyarrow.ArrowInvalid, OSError):  # a torn tail: its recorder was killed, or writes just now
                return rows


@pytest.fixture
def run_dir(tmp_path):
    """An output directory, and `run_dir.run()` for the newest run in it."""
    class Directory(type(tmp_path)):
        def run(self):
            return Run(self)

    return Directory(tmp_path / "out")


@pytest.fixture
def record(infprof, run_dir):
    """record(options..., command=[...]): runs `infprof record` to its end; the result has .run, the run on disk."""
    def call(*options, command=(), **arguments):
        arguments.setdefault("timeout", 120)
        words = [infprof, "record", "-o", str(run_dir), *map(str, options), *(["--", *map(str, command)] if command else [])]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **arguments)
        done.run = run_dir.run() if list(run_dir.glob("*.infprof")) else None
        return done

    return call


@pytest.fixture
def spawn():
    """spawn(words...): a process with pipes to its standard input and output, killed at the test's end."""
    processes = []

    def begin(*words, **arguments):
        processes.append(subprocess.Popen([*map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **arguments))
        return processes[-1]

    yield begin
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def live(infprof, run_dir):
    """A recording of a `sleep` that lives, once a row of it is on disk."""
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "200", "--no-finish", "--", "sleep", "100"],
                               stderr=subprocess.DEVNULL)
    wait_for(lambda: list(run_dir.glob("*.infprof/columns/*.arrows")), "a row")
    yield run_dir.run()
    process.terminate()
    process.wait(timeout=60)


@pytest.fixture
def uvloop(monkeypatch):
    """The name of a Python that has uvloop: the system's, with the packages of the tests themselves."""
    from pythons import PYTHONS  # finding them takes a second

    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(pytest.__file__).parents[1]))
    words, environment = PYTHONS.get("system", (["false"], {}))
    if subprocess.run([*words, "-c", "import uvloop"], env={**os.environ, **environment}, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("the system's Python has no uvloop")
    return "system"
