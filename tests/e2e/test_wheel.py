"""What pip installs: a wheel that runs with the C library of older distributions, and the same as a directory."""
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

from conftest import TOP
from namespaces import unshare

BUILD = TOP / "build-wheel-x86_64"
OLD_ROOT = TOP / ".deps" / "roots" / "bullseye"
OWN = {name: value for name, value in os.environ.items() if name != "INFPROF_LIBDUCKDB"}  # else it finds that of this checkout
pytestmark = pytest.mark.skipif(not (BUILD / "infprof").exists(), reason="there is no build of the wheel: tools/build build-wheel-x86_64")

NEEDED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}  # all of them are the C library's
CANARY = re.compile(rb"\x64[\x48\x4c]..\x25\x28\x00\x00\x00", re.DOTALL)  # an instruction that reads %fs:0x28, of -fstack-protector
BUSY = "import time\nend = time.time() + 0.5\nwhile time.time() < end: pass\n"
SPAN = "import infprof\nwith infprof.span('step', batch=8):\n    " + "\n    ".join(BUSY.splitlines())


def output(*words, env=OWN):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=170, env=env)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def pack(directory, *words):
    return [pathlib.Path(path) for path in output(TOP / "tools" / "wheel", *words, directory).splitlines()]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    return pack(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def prefix(wheels, tmp_path_factory):
    """Where pip has installed it, with SQL: bin, lib, share."""
    path = tmp_path_factory.mktemp("prefix")
    output(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--ignore-installed", "--no-warn-script-location",
           "--root-user-action", "ignore", "--prefix", path, "--find-links", wheels[0].parent, "infprof[sql]")
    return path


def objects(wheels, directory):
    """(name, path) of each ELF file in the wheels, but for DuckDB's library, which others built."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if archive.read(name)[:4] == b"\x7fELF" and "libduckdb" not in name:
                    yield name, archive.extract(name, directory)


def test_what_it_needs_of_the_machine(wheels, tmp_path):
    """Of the C library nothing newer than 2.28, and no other library."""
    found = dict(objects(wheels, tmp_path))
    assert {"infprof", "libinfprof-agent.so", "libinfprof-preload.so", "libinfprof-preload-heap.so", "libinfprof.so.1", "_native.abi3.so"} <= \
        {name.rsplit("/", 1)[-1] for name in found}
    for name, path in found.items():
        told = output("readelf", "--wide", "--dynamic", "--dyn-syms", "--version-info", path)
        versions = [tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", told)]
        assert not versions or max(versions) <= (2, 28), name
        assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", told)) <= NEEDED, name
        assert "RPATH" not in told and "RUNPATH" not in told, name


def test_hardened(wheels, tmp_path):
    for name, path in objects(wheels, tmp_path):
        told = output("readelf", "--wide", "--file-header", "--program-headers", "--dynamic", "--dyn-syms", path)
        assert "DYN (" in told and "GNU_RELRO" in told and re.search(r"FLAGS.*(BIND_NOW|NOW)", told), name
        assert re.search(r"GNU_STACK.* RW ", told), name  # no code on the stack
        content = pathlib.Path(path).read_bytes()
        assert "preload" in name or CANARY.search(content), name
        assert str(TOP).encode() not in content, name


def test_the_same_bytes_twice(wheels, tmp_path):
    again = pack(tmp_path)
    assert [path.name for path in again] == [path.name for path in wheels]
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in wheels]


def check(infprof, run_dir, python, call=output):
    """Records, reads and asks, with what belongs to it: agents, the Python package, DuckDB."""
    call(infprof, "record", "-o", run_dir, "--no-snapshots", "--cpu", "--heap", "--python", "--", python, "-c", SPAN)
    assert "What it used" in call(infprof, "report", "-r", run_dir)
    asked = call(infprof, "query", "-r", run_dir, "-f", "csv", "SELECT name, attributes, duration_ns > 4e8 FROM spans")
    assert asked.splitlines()[1:] == ['step,"{""batch"":8}",true'], asked
    assert "<module>" in call(infprof, "flamegraph", "--top", "-r", run_dir)  # a function of Python
    assert "malloc" in call(infprof, "query", "-r", run_dir, "-f", "csv", "SELECT DISTINCT allocator FROM heap_samples")
    assert "infprof" in call(infprof, "doctor", "--engine", "off")


def test_installed_by_pip(prefix, run_dir, tmp_path):
    check(prefix / "bin" / "infprof", run_dir, "/usr/bin/python3")
    package, = prefix.glob("lib/python3*/site-packages")
    assert output("/usr/bin/python3", "-c", "import infprof; infprof.mark('a'); print(infprof.is_recording())",
                  env={**OWN, "PYTHONPATH": str(package), "INFPROF_RING": str(tmp_path / "rings")}) == "True\n"
    assert output("/usr/bin/python3", "-m", "infprof", "-h", env={**OWN, "PYTHONPATH": str(package)}).startswith("usage: ")


def test_a_directory_at_any_place(run_dir, tmp_path):
    path, = pack(tmp_path, "--tarball")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "any-place")
    top, = (tmp_path / "any-place").iterdir()
    check(top / "bin" / "infprof", run_dir, "/usr/bin/python3")


@pytest.mark.skipif(not (OLD_ROOT / "usr").exists(), reason="Debian 11 could not be fetched")
def test_debian_11(prefix):
    """Its C library, Python and libcurl, and nothing else: no shell, no libbpf, nothing that can be written to but /tmp."""
    words = unshare("--pid", "--fork", *([] if os.geteuid() == 0 else ["--map-root-user"]))
    inside = ('mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/tmp" && mount --bind "$2" "$1/opt" && mount -o remount,ro,bind "$1/opt" && '
              'mount -t tmpfs tmpfs "$1/dev" && : > "$1/dev/null" && mount --bind /dev/null "$1/dev/null" && cp "$3" "$1/tmp/check.py" && '
              'exec chroot "$1" /usr/bin/python3.9 /tmp/check.py')
    program = pathlib.Path(prefix) / "check.py"
    program.write_text(f"""\
import http.server, os, subprocess, sys, threading
SPAN = {SPAN!r}
OWN = {{"HOME": "/tmp"}}
{inspect.getsource(output).replace("text=True", "universal_newlines=True")}
{inspect.getsource(check).replace("=output", "=None")}
check("/opt/bin/infprof", "/tmp/out", sys.executable, output)
sys.path.append("/opt/lib/{next(prefix.glob('lib/python3*')).name}/site-packages")
import infprof
infprof.mark("here")
class Engine(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        page = b'vllm:num_requests_running{{model_name="tiny"}} 3\\n'
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
threading.Thread(target=server.serve_forever, daemon=True).start()
output("/opt/bin/infprof", "record", "-o", "/tmp/engine", "-t", "200", "--duration", "1", "--engine", "http://127.0.0.1:%d/metrics" % server.server_port)
asked = "SELECT bool_and(ok AND scrape_ms > 0 AND scrape_ms < 1000), count(*) > 1 FROM engine_scrapes"
print(output("/opt/bin/infprof", "query", "-r", "/tmp/engine", "-f", "csv", asked).splitlines()[-1])
""")
    assert output(*words, "sh", "-c", inside, "sh", OLD_ROOT, prefix, program).splitlines()[-1] == "true,true"
