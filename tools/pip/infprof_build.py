"""Wheels and the sdist of infprof. What tools/wheel packs with, and what pip builds a checkout or an sdist by (PEP 517, pyproject.toml).

pip needs no package for that but Meson and Ninja, and those only where the machine has none.
"""
import base64
import glob
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DUCKDB = "lib/infprof/libduckdb.so"
# The oldest time that a zip file can hold: the same bytes at any time, at any place.
WHEN = (1980, 1, 1, 0, 0, 0)
MESON = (1, 3)
# What a build needs of the machine: (program, or what pkg-config or the linker calls the library; Debian's package, Fedora's).
PROGRAMS = [("cc", "gcc", "gcc"), ("c++", "g++", "gcc-c++"), ("pkg-config", "pkg-config", "pkgconf-pkg-config")]
LIBRARIES = [("jansson", "libjansson-dev", "jansson-devel"), ("libxxhash", "libxxhash-dev", "xxhash-devel"), ("zlib", "zlib1g-dev", "zlib-devel"),
             ("libcurl", "libcurl4-openssl-dev", "libcurl-devel"), ("libdw", "libdw-dev", "elfutils-devel"),
             ("libelf", "libelf-dev", "elfutils-libelf-devel"), ("liblzma", "liblzma-dev", "xz-devel")]
IBERTY = ("libiberty", "libiberty-dev", "binutils-devel")
# What the sdist has of the checkout, and of what tools/setup lays into it: Arrow's C sources, and DuckDB's header.
SOURCES = ["LICENSE", "NOTICE", "README.md", "include", "meson.build", "meson_options.txt", "pyproject.toml", "python", "src", "tools/docs", "tools/embed",
           "tools/embed-object", "tools/manual", "tools/meson.build", "tools/pip", "tools/syscall-names", "web"]
LAID = ["subprojects/arrow-nanoarrow", "subprojects/flatcc.wrap", "subprojects/flatcc-*/include", "subprojects/flatcc-*/src", "subprojects/flatcc-*/LICENSE",
        "subprojects/flatcc-*/NOTICE", "subprojects/flatcc-*/meson.build", "subprojects/flatcc-*/.meson-subproject-wrap-hash.txt", ".deps/duckdb/duckdb.h",
        ".deps/duckdb/LICENSE"]


def files_below(directory):
    for root, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            yield os.path.relpath(os.path.join(root, name), directory)


def version():
    with open(os.path.join(TOP, "meson.build"), encoding="utf-8") as build_file:
        return re.search(r"version: '([^']*)'", build_file.read()).group(1)


def content_of(path):
    with open(path, "rb") as file:
        return file.read()


def metadata(name, its_version, summary, more="", text=""):
    return (f"Metadata-Version: 2.1\nName: {name}\nVersion: {its_version}\nSummary: {summary}\nRequires-Python: >=3.8\n{more}\n{text}").encode()


def own_metadata(more=""):
    about = "Description-Content-Type: text/markdown\nLicense: Apache-2.0\nProvides-Extra: http\nRequires-Dist: pycurl; extra == 'http'\n"
    return metadata("infprof", version(), "A profiler of machine-learning inference on Linux", about + more,
                    content_of(os.path.join(TOP, "README.md")).decode())


def own_files(tree):
    """(name in the wheel, bytes, mode) of each file: the program goes where pip puts scripts, the rest below its prefix. The Python package lies
    there too, for other Pythons that `record --python` starts."""
    data, package = f"infprof-{version()}.data", "lib/infprof/python/"
    for name in files_below(tree):
        if name.startswith((f"{package}infprof/", f"{package}infprof.pth")):
            yield name[len(package):], content_of(os.path.join(tree, name)), 0o644
        if name.startswith("bin/"):
            to = f"{data}/scripts/{name[len('bin/'):]}"
        elif name == DUCKDB or re.match(r"lib/(pkgconfig/|libinfprof\.so(\.1\.0\.0)?$)", name):
            continue  # a wheel holds no links: of three names of a library one is enough, that which the loader looks for
        else:
            to = f"{data}/data/{name}"
        yield to, content_of(os.path.join(tree, name)), os.stat(os.path.join(tree, name)).st_mode & 0o777
    for name in ("LICENSE", "NOTICE"):
        yield f"infprof-{version()}.dist-info/{name}", content_of(os.path.join(TOP, name)), 0o644


def write_wheel(directory, name, its_version, tag, description, files):
    path = os.path.join(directory, f"{name}-{its_version}-{tag}.whl")
    info, record = f"{name}-{its_version}.dist-info", []
    files = [*files, (f"{info}/METADATA", description, 0o644),
             (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: tools/wheel\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644)]

    def add(archive, member, content, mode):
        entry = zipfile.ZipInfo(member, WHEN)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, content)

    with zipfile.ZipFile(path + ".part", "w") as archive:
        for member, content, mode in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{member},sha256={digest},{len(content)}\n")
            add(archive, member, content, mode)
        record.append(f"{info}/RECORD,,\n")
        add(archive, f"{info}/RECORD", "".join(record).encode(), 0o644)
    os.rename(path + ".part", path)
    return path


def write_tar(path, files):
    """A .tar.gz of (name, bytes, mode): the same bytes at any time. A text in place of bytes is where a link goes."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content, mode in files:
            member = tarfile.TarInfo(name)
            member.mode, member.uname, member.gname = mode, "root", "root"
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            archive.addfile(member, None if isinstance(content, str) else io.BytesIO(content))
    with open(path + ".part", "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
        packed.write(data.getvalue())
    os.rename(path + ".part", path)
    return path


def sources():
    """Paths below TOP. Of a checkout those that git knows; an sdist has nothing else."""
    known = None
    if shutil.which("git") and os.path.exists(os.path.join(TOP, ".git")):  # also where it belongs to another user
        done = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--", *SOURCES], cwd=TOP, stdout=subprocess.PIPE)
        if done.returncode:
            sys.exit(f"infprof's sdist needs the list of files of {TOP}, which `git ls-files` does not give.")
        known = {name.decode() for name in done.stdout.split(b"\0") if name}
    for pattern in [*SOURCES, *LAID]:
        found = sorted(glob.glob(os.path.join(TOP, pattern)))
        if not found and pattern.startswith("subprojects/"):
            sys.exit(f"infprof's sdist needs {pattern}, which `tools/setup build` lays there.")
        for path in found:
            for name in [os.path.relpath(path, TOP)] if os.path.isfile(path) else [os.path.join(os.path.relpath(path, TOP), below) for below in files_below(path)]:
                if known is None or name in known or pattern in LAID:
                    yield name


def has_library(name):
    if name != IBERTY[0]:
        return subprocess.run(["pkg-config", "--exists", name]).returncode == 0
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run([os.environ.get("CC", "cc"), "-x", "c", "-", "-o", os.path.join(directory, "a"), "-liberty"], input=b"int main(void) { return 0; }",
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode == 0


def check_needs():
    """Ends with one sentence that names what the machine lacks."""
    missing = [need for need in PROGRAMS if not shutil.which(os.environ.get({"cc": "CC", "c++": "CXX"}.get(need[0], ""), need[0]))]
    names = {need[0] for need in missing}
    if "pkg-config" not in names:
        missing += [need for need in LIBRARIES if not has_library(need[0])]
    if "cc" not in names and not has_library(IBERTY[0]):
        missing.append(IBERTY)
    if missing:
        what = ", ".join(need[0] for need in missing)
        sys.exit(f"infprof cannot be built here without {what}: `apt-get install {' '.join(need[1] for need in missing)}` (Debian, Ubuntu) or "
                 f"`dnf install {' '.join(need[2] for need in missing)}` (Fedora, RHEL) brings what is missing.")


def has_meson():
    try:
        told = subprocess.run(["meson", "--version"], stdout=subprocess.PIPE, text=True).stdout
        return tuple(int(part) for part in told.split(".")[:2]) >= MESON
    except (OSError, ValueError):
        return False


def get_requires_for_build_wheel(config_settings=None):
    return [*([] if has_meson() else [f"meson>={'.'.join(map(str, MESON))}"]), *([] if shutil.which("ninja") else ["ninja"])]


def get_requires_for_build_sdist(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    check_needs()
    tag = f"py3-none-{re.sub('[-.]', '_', sysconfig.get_platform())}"
    with tempfile.TemporaryDirectory() as directory:
        build, tree = os.path.join(directory, "build"), os.path.join(directory, "tree")
        subprocess.run(["meson", "setup", build, TOP, "--buildtype=release", "--prefix=/usr", "--libdir=lib", "--wrap-mode=nodownload"], check=True)
        subprocess.run(["ninja", "-C", build, "--quiet"], check=True)
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--skip-subprojects", "--destdir", tree], check=True)
        return os.path.basename(write_wheel(wheel_directory, "infprof", version(), tag, own_metadata(), own_files(os.path.join(tree, "usr"))))


def build_sdist(sdist_directory, config_settings=None):
    top = f"infprof-{version()}"
    files = ((name, content_of(os.path.join(TOP, name)), 0o755 if os.access(os.path.join(TOP, name), os.X_OK) else 0o644) for name in sources())
    path = write_tar(os.path.join(sdist_directory, f"{top}.tar.gz"),
                     ((f"{top}/{name}", content, mode) for name, content, mode in [*files, ("PKG-INFO", own_metadata(), 0o644)]))
    return os.path.basename(path)
