"""The sdist: what is in it, and what pip and a person are told where something is missing. tests/bench/bench_sdist.py builds and installs it."""
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

from conftest import TOP

WHEEL = TOP / "tools" / "wheel"
LIBRARIES = ("jansson", "libxxhash", "zlib", "libcurl", "libdw", "libelf", "liblzma")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The archive, and the folder that it unpacks to, where no git and no checkout is."""
    top = tmp_path_factory.mktemp("sdist")
    done = subprocess.run([sys.executable, WHEEL, "--sdist", top], stdout=subprocess.PIPE, text=True, check=True)
    (path,) = done.stdout.split()
    with tarfile.open(path) as archive:
        archive.extractall(top / "any-place")
    (folder,) = (top / "any-place").iterdir()
    return path, folder


def hook(folder, call, path=None):
    """What pip does: a process in the unpacked folder, which imports the backend that pyproject.toml names."""
    return subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, 'tools/pip'); import infprof_build as backend; print(backend.{call})"],
                          cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **({} if path is None else {"PATH": str(path)})})


def test_what_is_in_it(sdist, tmp_path):
    path, folder = sdist
    version = re.search(r"version: '(.*?)'", (TOP / "meson.build").read_text())[1]
    assert os.path.basename(path) == f"infprof-{version}.tar.gz" and folder.name == f"infprof-{version}"
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    assert all(member.isfile() and member.mtime == 0 and member.uname == "root" for member in members)
    names = {member.name.split("/", 1)[1] for member in members}
    # Every source that git knows, all that the build files name, and nothing of the machine it was made on.
    known = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "src", "python", "include", "web"], cwd=TOP, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert len(known) > 500 and set(known) <= names
    assert {"pyproject.toml", "meson.build", "meson_options.txt", "PKG-INFO", "LICENSE", "NOTICE", "tools/embed", "subprojects/flatcc.wrap"} <= names
    assert not [name for name in names if name.startswith("tests/") or name.endswith((".pyc", ".so", ".o"))]
    assert (folder / "tools" / "embed").stat().st_mode & 0o111
    assert f"Version: {version}\n" in (folder / "PKG-INFO").read_text()
    again = subprocess.run([sys.executable, WHEEL, "--sdist", tmp_path], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with open(path, "rb") as one, open(again, "rb") as other:
        assert one.read() == other.read()


def test_it_makes_itself_again(sdist, tmp_path):
    """An sdist of an unpacked one is the same: nothing was left in the checkout."""
    path, folder = sdist
    done = hook(folder, f"build_sdist({str(tmp_path)!r})")
    assert done.returncode == 0, done.stderr
    with open(path, "rb") as one, open(tmp_path / done.stdout.strip(), "rb") as other:
        assert one.read() == other.read()


def programs(folder, *names):
    """A PATH with these alone."""
    folder.mkdir()
    for name in names:
        os.symlink(shutil.which(name, path="/usr/bin:/bin"), folder / name)
    return folder


def test_without_a_compiler(sdist, tmp_path):
    done = hook(sdist[1], f"build_wheel({str(tmp_path)!r})", programs(tmp_path / "bin"))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == ("infprof cannot be built here without cc, c++, pkg-config: `apt-get install gcc g++ pkg-config` (Debian, Ubuntu) or "
                           "`dnf install gcc gcc-c++ pkgconf-pkg-config` (Fedora, RHEL) brings what is missing.\n")


@pytest.mark.parametrize("missing", [LIBRARIES[:1], LIBRARIES], ids=["one", "all"])
def test_without_a_library(sdist, tmp_path, missing):
    path = programs(tmp_path / "bin", "cc", "c++", "ld", "as")
    (path / "pkg-config").write_text(f'#!/bin/sh\nfor one in {" ".join(missing)}; do [ "$2" != $one ] || exit 1; done\n')
    (path / "pkg-config").chmod(0o755)
    done = hook(sdist[1], f"build_wheel({str(tmp_path)!r})", path)
    assert done.returncode == 1 and done.stderr.startswith(f"infprof cannot be built here without {', '.join(missing)}: `apt-get install libjansson-dev")
    assert done.stderr.count("\n") == 1 and "dnf install jansson-devel" in done.stderr


def test_what_pip_fetches(sdist, tmp_path):
    """Meson and Ninja, where they are missing or too old; nothing else ever."""
    path = programs(tmp_path / "bin")
    for meson, wanted in ((None, "['meson>=1.3', 'ninja']"), ("1.0.1", "['meson>=1.3', 'ninja']"), ("1.3.0", "['ninja']"), ("2.0", "['ninja']")):
        if meson:
            (path / "meson").write_text(f"#!/bin/sh\necho {meson}\n")
            (path / "meson").chmod(0o755)
        assert hook(sdist[1], "get_requires_for_build_wheel()", path).stdout.strip() == wanted, meson
    (path / "ninja").write_text("#!/bin/sh\n")
    (path / "ninja").chmod(0o755)
    assert hook(sdist[1], "get_requires_for_build_wheel()", path).stdout.strip() == "[]"
    assert hook(sdist[1], "get_requires_for_build_sdist()", path).stdout.strip() == "[]"


def test_without_what_set_up_lays(sdist, tmp_path):
    shutil.copytree(sdist[1], tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "subprojects" / "arrow-nanoarrow")
    done = hook(tmp_path / "copy", f"build_sdist({str(tmp_path)!r})")
    assert done.returncode == 1 and done.stderr == "infprof's sdist needs subprojects/arrow-nanoarrow, which `tools/setup build` lays there.\n"
