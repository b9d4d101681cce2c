"""What the sampler opens, and what it does where that is gone, has no table, or is not to be trusted."""
import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from stacks import Profile

HERE = pathlib.Path(__file__).resolve().parent
HZ = 1000
MS = 250


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """cpu_objects, and a library of cpu_library.c."""
    made = tmp_path_factory.mktemp("objects")
    flags = ["-O2", "-g", "-fomit-frame-pointer", "-D_GNU_SOURCE", "-Wall", "-Wextra"]
    subprocess.run(["gcc", *flags, HERE / "cpu_objects.c", "-o", made / "cpu_objects", "-ldl"], check=True)
    for kind in ("a", "b"):
        subprocess.run(["gcc", *flags, "-fPIC", "-shared", f"-DKIND={kind}", "-DROOM=3", HERE / "cpu_library.c", "-o",
                        made / f"lib{kind}.so"], check=True)
    for parent in made.parents:  # others may run it
        if parent != pathlib.Path("/tmp") and str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    made.chmod(0o755)
    return made


@pytest.fixture
def binaries(folder):
    return {"cpu_objects": folder / "cpu_objects", "liba.so": folder / "liba.so"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Unwind tables of one test are not those of another, nor the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "infprof" / "unwind"


def check(done, binaries, name, is_whole=True):
    """Nearly all samples of a function were unwound to main, and beyond it. Returns them."""
    assert done.returncode == 0, done.stderr
    profile = Profile(done.run, binaries)
    found = [sample for sample in profile.samples if name in sample.names]
    assert len(found) > 0.8 * HZ * MS / 1000, (len(found), len(profile.samples))
    whole = [sample for sample in found if "main" in sample.names and not (is_whole and sample.is_truncated)]
    assert len(whole) >= 0.97 * len(found), (len(whole), len(found), found[0])
    return profile, whole


@pytest.mark.parametrize("flags", [["-static-pie"], ["-static"], ["-static", "-Wl,--no-eh-frame-hdr"], ["-Wl,--build-id=none"]],
                         ids=["static-pie", "static", "no header", "no build id"])
def test_kinds_of_programs(record, tmp_path, flags):
    """No loader, no dynamic symbols, no PT_GNU_EH_FRAME, no build id."""
    path = tmp_path / "cpu_objects"
    pie = ["-fPIE"] if "-static-pie" in flags else []
    words = ["-DSTATIC"] if any("static" in flag for flag in flags) else []
    subprocess.run(["gcc", "-O2", "-D_GNU_SOURCE", "-fomit-frame-pointer", *words, *pie, *flags, HERE / "cpu_objects.c", "-o", path,
                    *([] if words else ["-ldl"])], check=True)
    done = record(f"--cpu={HZ}", "--no-snapshots", command=[path, "static", MS])
    profile, _ = check(done, {"cpu_objects": path}, "burn_main")
    assert profile.counter("incomplete") <= 0.02 * len(profile.samples) + 3


@pytest.mark.skipif(not shutil.which("musl-gcc"), reason="musl-gcc is not installed")
@pytest.mark.parametrize("flags", [[], ["-static"]], ids=["musl", "static musl"])
def test_musl(record, tmp_path, flags):
    """Debian's musl has no tables of its own: as a library it is where stacks begin, in a static program the entry point does."""
    path = tmp_path / "cpu_objects"
    subprocess.run(["musl-gcc", "-O2", "-D_GNU_SOURCE", "-fomit-frame-pointer", "-DSTATIC", *flags, HERE / "cpu_objects.c", "-o", path],
                   check=True)
    done = record(f"--cpu={HZ}", "--no-snapshots", command=[path, "static", MS])
    _, whole = check(done, {"cpu_objects": path}, "burn_main")
    assert not flags or {sample.names[0] for sample in whole} == {"_start"}


@pytest.mark.parametrize("who", ["root", "a normal user"])
@pytest.mark.parametrize("is_replaced", [False, True], ids=["removed", "replaced"])
def test_libraries_that_are_gone(infprof, run_dir, folder, binaries, tmp_path, is_replaced, who):
    """Root finds them in map_files, others in the memory of the process."""
    if os.geteuid() != 0 and who == "root":
        pytest.skip("needs root")
    place = tmp_path / "place"
    place.mkdir()
    run_dir.mkdir()
    shutil.copy(folder / "liba.so", place / "liba.so")
    shutil.copy(folder / "libb.so", place / "other")
    words = []
    if who != "root" and os.geteuid() == 0:
        number = str(20000 + os.getpid() % 20000)
        for path in (place, run_dir, tmp_path):
            os.chown(path, int(number), int(number))
        for parent in run_dir.parents:
            if parent != pathlib.Path("/tmp") and str(parent).startswith("/tmp/"):
                parent.chmod(parent.stat().st_mode | 0o055)
        words = ["setpriv", "--reuid", number, "--regid", number, "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
                 "env", "-u", "XDG_RUNTIME_DIR"]
    done = subprocess.run([*words, infprof, "record", f"--cpu={HZ}", "--no-snapshots", "-o", run_dir, "--", folder / "cpu_objects",
                           "library", str(MS), place / "liba.so", *([place / "other"] if is_replaced else [])],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    done.run = run_dir.run()
    profile, _ = check(done, binaries, "burn_a")
    gone = [row for row in profile.mappings if row["mPath"].endswith("liba.so")]
    assert gone and all(row["mIsDeleted"] and row["mBuildId"] for row in gone), profile.mappings


@pytest.mark.parametrize("mode", ["made", "bare"])
def test_code_without_tables(record, folder, binaries, mode):
    """Code that is made at run time is bridged; what lies above it is marked as guessed, and counted."""
    done = record(f"--cpu={HZ}", "--no-snapshots", command=[folder / "cpu_objects", mode, MS])
    profile, whole = check(done, binaries, "burn_called")
    for sample in whole:
        assert sample.is_guessed, sample
        names = [name for name in sample.names if name in ("main", "burn_called", "[anon]+")]
        assert names == ["main", "[anon]+", "burn_called"], sample
    assert profile.counter("guessed_frames") >= len(whole)
    kinds = {frame["fKind"] for frame in profile.frames.values() if frame["fObject"] == "[anon]"}
    assert kinds == {"jit"}, kinds


def entries(cache):
    return sorted(path for path in cache.iterdir() if not path.name.startswith("."))


def test_tables_are_kept(record, folder, binaries, cache):
    """Privately, by build id; rubbish in their place changes nothing."""
    words = [f"--cpu={HZ}", "--no-snapshots"]
    command = [folder / "cpu_objects", "static", MS]
    check(record(*words, command=command), binaries, "burn_main")
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    files = entries(cache)
    assert files and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files), files
    times = [path.stat().st_mtime_ns for path in files]
    check(record(*words, command=command), binaries, "burn_main")
    assert [path.stat().st_mtime_ns for path in entries(cache) if path in files] == times  # nothing was written again
    sizes = {path: path.stat().st_size for path in files}
    for path in files:
        path.write_bytes(b"\xff" * 777)
    profile, _ = check(record(*words, command=command), binaries, "burn_main")
    # They are made anew when a sample needs them: the program's and libc's each time, the loader's if a sample met it.
    needed = {row["mBuildId"] for row in profile.mappings if os.path.basename(row["mPath"]) in ("cpu_objects", "libc.so.6")}
    assert len(needed) == 2, profile.mappings
    for path, size in sizes.items():
        is_needed = any(path.name.startswith(build_id) for build_id in needed)
        assert path.stat().st_size in ((size,) if is_needed else (size, 777)), path
    assert sum(path.name.startswith(tuple(needed)) for path in files) == 2, files


@pytest.mark.parametrize("fault", ["open to others", "a file", "full"])
def test_no_place_for_tables(record, folder, binaries, cache, fault):
    cache.parent.mkdir(parents=True)
    if fault == "a file":
        cache.write_text("")
    else:
        cache.mkdir()
        cache.chmod(0o777 if fault == "open to others" else 0o500)
    check(record(f"--cpu={HZ}", "--no-snapshots", command=[folder / "cpu_objects", "static", MS]), binaries, "burn_main")
    if fault == "open to others":
        assert not list(cache.iterdir())
