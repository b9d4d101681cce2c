"""Where infprof's files are: the program, and the library for ctypes."""
import os
import shutil

HERE = os.path.dirname(os.path.abspath(__file__))
LEVELS = 6  # from PREFIX/lib/x86_64-linux-gnu/infprof/python/infprof up to PREFIX; a venv is nearer to its site-packages


def above():
    """The folders in which this package lies, the nearest first."""
    folder = HERE
    for _ in range(LEVELS):
        yield folder
        folder = os.path.dirname(folder)


def program():
    """The path of `infprof`: $INFPROF, what belongs to this package, else what PATH has."""
    named = os.environ.get("INFPROF")
    if named:
        return named
    for folder in above():
        for path in (os.path.join(folder, "bin", "infprof"), os.path.join(folder, "infprof")):
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    found = shutil.which("infprof")
    if not found:
        raise FileNotFoundError("the program infprof is neither beside this package nor in PATH; INFPROF names it")
    return found


def libraries():
    """Paths at which libinfprof may be, best first; the last one is the loader's to find."""
    for folder in above():
        for name in ("libinfprof.so.1", "libinfprof.so"):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                yield path
    yield "libinfprof.so.1"
