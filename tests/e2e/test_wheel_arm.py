"""The wheel for 64-bit Arm: what its files need of a machine, and, where QEMU is, what it does there. tests/bench/run.py builds it."""
import os
import pathlib
import re
import shutil
import subprocess
import zipfile

import pytest

from conftest import TOP
from namespaces import unshare
from test_wheel import objects, output, pack

QEMU = TOP / ".deps" / "qemu" / "qemu-aarch64-static"
ROOT = TOP / ".deps" / "roots" / "arm64"
pytestmark = pytest.mark.skipif(not (TOP / "build-wheel-aarch64" / "infprof").exists(), reason="there is no build for 64-bit Arm: make wheel ARCH=aarch64")
emulated = pytest.mark.skipif(not QEMU.exists(), reason="QEMU is not here: tools/setup arm")

NEEDED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-aarch64.so.1"}
SPAN = "import infprof, sys\nwith infprof.span('step', batch=8): pass\nprint(infprof.is_recording(), 'infprof._native' in sys.modules)"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    return pack(tmp_path_factory.mktemp("dist"), "--arch", "aarch64")


@pytest.fixture(scope="module")
def prefix(wheels, tmp_path_factory):
    """As pip lays it on a machine of that kind: bin, lib, share; packages in lib/site-packages."""
    top = tmp_path_factory.mktemp("prefix")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                to = re.sub(r"^[^/]*\.data/(scripts/|data/)", lambda found: "bin/" if found[1] == "scripts/" else "", entry.filename)
                path = top / (to if to != entry.filename else f"lib/site-packages/{to}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(entry))
                path.chmod(entry.external_attr >> 16 & 0o777)
    return top


@pytest.fixture
def call(prefix, tmp_path):
    """call(program, words...): by QEMU, with Debian 12 for that machine as the root; the wheel is in /opt, tmp_path is /tmp."""
    inside = ('mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --bind "$2" "$1/opt" && mount --bind "$3" "$1/tmp" && '
              'mount -t tmpfs tmpfs "$1/dev" && : > "$1/dev/null" && mount --bind /dev/null "$1/dev/null" && root=$1 && shift 3 && '
              'exec chroot "$root" /opt/bin/qemu-aarch64-static "$@"')
    if not (prefix / "bin" / QEMU.name).exists():
        shutil.copy(QEMU, prefix / "bin")
    words = unshare("--pid", "--fork", "--kill-child", *([] if os.geteuid() == 0 else ["--map-root-user"]))
    environment = {"PATH": os.environ["PATH"], "HOME": "/tmp", "PYTHONPATH": "/opt/lib/site-packages", "PYTHONDONTWRITEBYTECODE": "1", "INFPROF_RING": "/tmp/rings"}
    return lambda *more: subprocess.run([*words, "sh", "-c", inside, "sh", ROOT, prefix, tmp_path, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, timeout=170, env=environment)


def test_what_it_needs_of_the_machine(wheels, tmp_path):
    """64-bit Arm, of its C library nothing newer than 2.28, no other library; and no agent, which cannot work there."""
    assert [re.sub(r"-[0-9.]+-.*_", " ", path.name) for path in wheels] == ["infprof_duckdb aarch64.whl", "infprof aarch64.whl"]
    found = dict(objects(wheels, tmp_path))
    assert {name.rsplit("/", 1)[-1] for name in found} == {"infprof", "libinfprof.so.1", "_native.abi3.so"}
    for name, path in found.items():
        told = output("readelf", "--wide", "--file-header", "--program-headers", "--dynamic", "--dyn-syms", "--version-info", path)
        assert "AArch64" in told and "DYN (" in told and "GNU_RELRO" in told and re.search(r"FLAGS.*(BIND_NOW|NOW)", told), name
        versions = [tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", told)]
        assert versions and max(versions) <= (2, 28), (name, max(versions))
        assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", told)) <= NEEDED and "RPATH" not in told and "RUNPATH" not in told, name
        assert str(TOP).encode() not in pathlib.Path(path).read_bytes(), name
    with zipfile.ZipFile(wheels[-1]) as archive:
        names = {name.rsplit("/", 1)[-1] for name in archive.namelist()}
    assert {"infprof-record.1", "_infprof", "infprof.fish", "infprof.h", "libinfprof.a"} <= names


def flat(text):
    return " ".join(text.split())


@emulated
def test_it_says_what_is_absent_there(call):
    told = flat(call("/opt/bin/infprof", "doctor", "--engine", "off").stdout)
    assert "stacks are sampled on x86-64 only" in told
    assert "agents, which take stacks and blocks of the heap inside programs, are there for x86-64 only" in told


@emulated
def test_it_records_and_reads(call):
    """The machine, for a second; the report, and SQL by DuckDB's library of that machine, which lies in the wheel beside it."""
    done = call("/opt/bin/infprof", "record", "-o", "/tmp/out", "-t", "200", "--duration", "1", "--engine", "off")
    assert done.returncode == 0, done.stderr
    assert "What it used" in call("/opt/bin/infprof", "report", "-r", "/tmp/out").stdout
    asked = call("/opt/bin/infprof", "query", "-r", "/tmp/out", "-f", "csv", "SELECT count(*) >= 4 AND min(vMemoryTotal) > 1e8 AS a FROM mem")
    assert asked.stdout.splitlines() == ["a", "true"], asked.stderr


@emulated
def test_its_heap_is_not_recorded(call):
    """QEMU 7 has no reapers of other processes, so that the command does not run."""
    done = call("/opt/bin/infprof", "record", "-o", "/tmp/out", "--no-snapshots", "--heap", "--", "/opt/bin/infprof", "--version")
    assert "the heap is not recorded: agents, which take stacks and blocks of the heap inside programs, are there for x86-64 only" in flat(done.stderr)


@emulated
def test_the_python_package(call):
    done = call("/usr/bin/python3.11", "-c", SPAN)
    assert done.stdout == "True True\n", done.stderr
