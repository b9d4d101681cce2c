"""The interpreters that this machine has: pyenv's, the system's, those of newer Debians that set-up unpacked with their libc, and those
that set-up of bench compiled without a GIL."""
import os
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
# A folder for each, with what `dpkg-deb -x` gives of python3.X-minimal, its libraries and libc6; or what was compiled here.
UNPACKED = pathlib.Path(os.environ.get("INFPROF_PYTHONS", TOP / ".deps" / "pythons"))

WITH_DEBUG = "INFPROF_DEBUG_PYTHONS" in os.environ  # the debug builds instead, which `bench_sampler.py debug` tests


def unpacked(folder, name):
    loader = next((folder / directory / "ld-linux-x86-64.so.2" for directory in ("usr/lib64", "lib64")
                   if (folder / directory / "ld-linux-x86-64.so.2").exists()), None)
    libraries = ":".join(str(folder / directory / "x86_64-linux-gnu") for directory in ("usr/lib", "lib"))
    return [str(loader), "--library-path", libraries, str(folder / "usr" / "bin" / name)] if loader else None


def debug_build(path):
    """Debian's build with --with-pydebug of the same version stands beside it, with a "d" after its name."""
    return pathlib.Path(f"{os.path.realpath(path)}d")


def find_pythons():
    """{name: (words that start it, what its environment needs)}"""
    found = {}
    for path in sorted(pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3")):
        if int(path.parts[-3].split(".")[1]) >= 8:
            found[path.parts[-3]] = ([str(path)], {})
    for name, path in (("system", pathlib.Path("/usr/bin/python3")), ("system-debug", debug_build("/usr/bin/python3"))):
        if os.access(path, os.X_OK):
            found[name] = ([str(path)], {})
    for path in sorted(UNPACKED.glob("*/usr/bin/python3.*")):
        folder = path.parents[2]
        if re.fullmatch(r"python3\.\d+t?d?", path.name):
            words = unpacked(folder, path.name)
            if words:
                found[f"{folder.name}-{path.name}"] = (words, {"PYTHONHOME": str(folder / "usr")})
            elif "t" in path.suffix:  # compiled for this machine's libc
                found[path.name] = ([str(path)], {})
    is_debug = {name: words[-1].endswith("d") for name, (words, _) in found.items()}
    return {name: python for name, python in found.items() if is_debug[name] == WITH_DEBUG and starts(*python)}


def starts(words, environment):
    try:
        return subprocess.run([*words, "-c", "import faulthandler, threading"], env={**os.environ, **environment},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


PYTHONS = find_pythons()

# Those without a GIL, and one of them for tests that need no other.
FREE = [name for name in PYTHONS if re.search(r"3\.\d+td?$", name)]
WHY_NOT_FREE = "no free-threaded Python: `tools/setup bench` compiles one, where Debian's mirror has the source"


def with_gil(name):
    """As PYTHONS[name], with a GIL: free-threaded builds switch it on."""
    words, environment = PYTHONS[name]
    return words, {**environment, "PYTHON_GIL": "1"} if name in FREE else environment
