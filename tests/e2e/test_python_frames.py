"""Frames of Python read from outside, compared with what faulthandler writes of the same moment, for every interpreter there is."""
import errno
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import pytest

import proc
from namespaces import unshare
from pythons import FREE, PYTHONS, WHY_NOT_FREE, with_gil
from refuse import PROCESS_VM_READV, refused
from waiting import wait_for

PROGRAM = '''\
import asyncio, faulthandler, signal, sys, threading
stop = threading.Event()

def wait():
    stop.wait()

class Modèl:
    def forward(self, n):
        if n:
            return self.forward(
                n - 1)
        return [self.leaf(x)
                for x in (1,)]
    def leaf(self, x):
        return sorted([x], key=lambda y: größe(y))
    @classmethod
    def make(cls):
        return cls().forward(3)

def größe(y):
    return next(gen(y))

def gen(y):
    yield from inner(y)

def inner(y):
    yield asyncio.run(日本())

async def 日本():
    async for x in numbers():
        return x

async def numbers():
    yield await deeper()

async def deeper():
    def inside(*arguments):
        class Body:
            exec("wait()", {"wait": wait})
    return list(map(inside, {1: 2}))

for function in (wait, Modèl.make):
    threading.Thread(target=function, daemon=True).start()
faulthandler.register(signal.SIGUSR1, all_threads=True)
print("ready", flush=True)
Modèl.make()
'''
WAIT = "import threading\ndef wait(): threading.Event().wait()\nprint('ready', flush=True); wait()"


@pytest.fixture(scope="module")
def tool(infprof):
    path = pathlib.Path(infprof).parent / "tests" / "unit" / "python_tool"
    if not path.exists():
        pytest.skip(f"{path} is not built: configure with -Dtests=true")
    return str(path)


@pytest.fixture
def start(tmp_path):
    """start(words, environment): a process that has said "ready"; all are killed at the end."""
    processes = []

    def begin(words, environment=()):
        with open(tmp_path / "stderr", "w") as errors:
            process = subprocess.Popen(words, env={**os.environ, "PYTHONIOENCODING": "utf-8", **dict(environment)}, stdout=subprocess.PIPE,
                                       stderr=errors, text=True)
        processes.append(process)
        assert process.stdout.readline() == "ready\n", (tmp_path / "stderr").read_text()
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def look(tool, pid):
    """What the tool says: its words of `python`, [size of a range], [{pthread, id, holds, end, frames: [[function, file, line, first]]}]."""
    done = subprocess.run([tool, str(pid)], stdout=subprocess.PIPE, text=True, timeout=60)
    lines = [line.strip().split("\t") for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout
    threads = []
    for words in lines:
        if words[0] == "thread":
            threads.append({"pthread": int(words[1], 16), "tid": int(words[2]), "interpreter": int(words[3]), "holds": words[4] == "1",
                            "end": int(words[5]), "frames": []})
        elif words[0] == "frame":
            threads[-1]["frames"].append((words[1], words[2], int(words[3]), int(words[4])))
        elif words[0] == "error":  # a thread that runs has left this frame meanwhile
            threads[-1]["frames"].append(("", "", 0, 0))
        else:
            assert words[0] in ("python", "range", "shim", "whole"), done.stdout
    return next(words for words in lines if words[0] == "python"), [int(words[2]) for words in lines if words[0] == "range"], threads


def refusal(tool, pid):
    done = subprocess.run([tool, str(pid)], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    kind, number, text = done.stdout.rstrip("\n").split("\t")
    assert kind == "error"
    return -int(number), text


def waits(tool, pid, n_threads):
    """When each thread is at its last line."""
    def are_there():
        _, _, threads = look(tool, pid)
        return len(threads) == n_threads and all(thread["end"] == 0 and any(frame[0] == "wait" for frame in thread["frames"])
                                                 and thread["frames"][0][0].endswith("wait") for thread in threads) and threads

    return wait_for(are_there, f"{n_threads} threads that wait")


def dump(process, path, n_threads):
    """faulthandler's {pthread: [(function, file, line)]}"""
    process.send_signal(signal.SIGUSR1)
    wait_for(lambda: len(re.findall(r"^(?:Thread|Current thread) .*\n(?:  File.*\n)+", path.read_text(), re.M)) == n_threads and
             path.read_text().rstrip().endswith("in <module>"), "faulthandler's dump")
    threads = {}
    for line in path.read_text().splitlines():
        head = re.match(r"(?:Current t|T)hread (0x[0-9a-f]+)", line)
        frame = re.match(r'  File "(.*)", line (\d+) in (.*)', line)
        if head:
            now = threads.setdefault(int(head[1], 16), [])
        elif frame:
            now.append((frame[3].encode().decode("unicode_escape"), frame[1].encode().decode("unicode_escape"), int(frame[2])))
    return threads


@pytest.mark.parametrize("name", PYTHONS)
def test_equal_to_faulthandler(tool, start, tmp_path, name):
    words, environment = PYTHONS[name]
    (tmp_path / "prögram.py").write_text(PROGRAM)
    process = start([*words, str(tmp_path / "prögram.py")], environment)
    threads = waits(tool, process.pid, 3)
    theirs = dump(process, tmp_path / "stderr", 3)
    python, ranges, again = look(tool, process.pid)
    assert again == threads
    for thread in threads:
        ours = [(function.rsplit(".", 1)[-1], file, line) for function, file, line, _ in thread["frames"]]
        assert ours == theirs[thread["pthread"]]
        assert not thread["holds"]
    version = int(python[1], 16)
    assert sum(ranges) > 20000  # the loop, also where nearly all of it is outside of its symbol
    if version >= 0x30B0000:
        assert {thread["tid"] for thread in threads} == set(proc.threads(process.pid))
        names = {frame[0] for thread in threads for frame in thread["frames"]}
        assert {"Modèl.leaf.<locals>.<lambda>", "Modèl.make", "deeper.<locals>.inside.<locals>.Body", "日本"} <= names


@pytest.mark.parametrize("name", PYTHONS)
def test_subinterpreter_and_gil(tool, start, name):
    words, environment = with_gil(name)
    program = """
import threading, time
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
def sub():
    interpreters.run_string(interpreters.create(), "def inside():\\n    import time\\n    while True: time.sleep(1000)\\ninside()")
threading.Thread(target=sub, daemon=True).start()
def busy():
    print("ready", flush=True)
    while True:  # before 3.12 a thread that never waits lets no other interpreter run
        sum(range(20000))
        time.sleep(0.001)
busy()
"""
    process = start([*words, "-c", program], environment)

    def is_told():
        threads = look(tool, process.pid)[2]
        by_id = {thread["interpreter"]: thread for thread in threads if thread["frames"] and (thread["interpreter"] or thread["frames"][0][0] == "busy")}
        return len(by_id) == 2 and by_id[0]["holds"] and by_id[1]["frames"][0][0] == "inside" and by_id

    by_id = wait_for(is_told, "a thread that holds the GIL, and one of a subinterpreter")
    assert not by_id[1]["holds"]
    assert by_id[1]["frames"][0][1:3] in (("<string>", 3), ("<script>", 3))


@pytest.mark.parametrize("name", FREE or [pytest.param(None, marks=pytest.mark.skip(WHY_NOT_FREE))])
def test_free_threaded(tool, start, name):
    """It is known as such, and nobody holds its GIL unless that is on."""
    code = "import sys, threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()\n" + WAIT
    for switch, holders in (("0", {False}), ("1", {False, True})):
        words, environment = PYTHONS[name]
        process = start([*words, "-c", code], {**environment, "PYTHON_GIL": switch})
        looks = [look(tool, process.pid) for _ in range(20)]
        assert {python[3] for python, _, _ in looks} == {"1"}
        assert {thread["holds"] for _, _, threads in looks for thread in threads} == holders


def test_deep(tool, start):
    """Thousands of frames, over several chunks."""
    for name, (words, environment) in PYTHONS.items():
        program = ("import sys, threading; sys.setrecursionlimit(10000); threading.stack_size(512 << 20)\n"
                   "def f(n):\n    if n: return f(n - 1)\n    print('ready', flush=True); threading.Event().wait()\n"
                   "threading.Thread(target=f, args=(3000,)).start()")
        process = start([*words, "-c", program], environment)

        def is_deep():
            return any(sum(frame[0] == "f" for frame in thread["frames"]) == 3001 and thread["end"] == 0
                       for thread in look(tool, process.pid)[2])

        wait_for(is_deep, f"3001 frames of {name}")


def test_deleted_and_renamed(tool, start, tmp_path):
    """A program whose name says nothing, and whose file is gone."""
    if "system" not in PYTHONS:
        pytest.skip("no /usr/bin/python3")
    shutil.copy(os.path.realpath("/usr/bin/python3"), tmp_path / "server")
    process = start([str(tmp_path / "server"), "-c", WAIT],
                    {"PYTHONHOME": "/usr"})
    os.unlink(tmp_path / "server")
    assert waits(tool, process.pid, 1)
    assert look(tool, process.pid)[0][2] == str(tmp_path / "server")


def test_deleted_library(tool, start, tmp_path):
    """Of 3.8 to 3.10 the version is found in memory."""
    name = next((name for name in PYTHONS if re.match(r"3\.(8|9|10)\.", name)), None)
    if not name:
        pytest.skip("no pyenv with Python 3.8 to 3.10")
    folder = pathlib.Path(PYTHONS[name][0][0]).parents[1]
    library = next(folder.glob("lib/libpython3.*.so.1.0"))
    shutil.copy(library, tmp_path / library.name)
    process = start([*PYTHONS[name][0], "-c", WAIT],
                    {"LD_LIBRARY_PATH": str(tmp_path)})
    os.unlink(tmp_path / library.name)
    assert waits(tool, process.pid, 1)
    assert f"{int(look(tool, process.pid)[0][1], 16) >> 8:x}" == "3{:02x}{:02x}".format(*map(int, name.split(".")[1:]))


def test_embedded(tool, start, tmp_path):
    """A program at a fixed address that has Python in a library: data of the library lie in the program (copy relocations)."""
    name = next((name for name in reversed(PYTHONS) if ".pyenv" in PYTHONS[name][0][0]), None)
    if not name:
        pytest.skip("no pyenv with a shared library")
    folder = pathlib.Path(PYTHONS[name][0][0]).parents[1]
    (tmp_path / "server.c").write_text("#include <Python.h>\nint main(int argc, char **argv) { (void) argc; Py_Initialize(); "
                                       "return PyCode_Check(Py_None) + PyRun_SimpleString(argv[1]); }\n")
    short = "python" + ".".join(name.split(".")[:2])
    subprocess.run(["gcc", "-no-pie", "-fno-pie", "-o", "server", "server.c", f"-I{folder}/include/{short}", f"-L{folder}/lib", f"-Wl,-rpath,{folder}/lib",
                    f"-l{short}"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["readelf", "-rW", "server"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert re.search(r"R_X86_64_COPY.*PyCode_Type", symbols)
    process = start([str(tmp_path / "server"), WAIT], {"PYTHONHOME": str(folder)})
    assert waits(tool, process.pid, 1)
    python, ranges, _ = look(tool, process.pid)
    assert "libpython" in python[2] and sum(ranges) > 20000


def test_live_pid_namespace(tool, start):
    """A process of another pid namespace: our number of it, and its own numbers of threads."""
    words = unshare("--pid", "--fork", "--kill-child", "--mount-proc")
    name = next(reversed(PYTHONS))
    python, environment = PYTHONS[name]
    process = start([*words, *python, "-c", WAIT], environment)
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        child = int(file.read().split()[0])
    threads = waits(tool, child, 1)
    assert threads[0]["tid"] in (0, 1)  # not told before 3.11


def newest_program():
    """The newest interpreter that is one program, without a library of its own: its file, the words before it, its environment."""
    for words, environment in reversed(PYTHONS.values()):
        path = os.path.realpath(words[-1])
        if b"_PyRuntime\0" in pathlib.Path(path).read_bytes():
            return path, words[:-1], environment if environment else {"PYTHONHOME": "/usr"}
    pytest.skip("no interpreter in one file")


def change(path, *changes, without_sections=False):
    """Writes another text in place of each; all of its places in the file."""
    data = bytearray(path.read_bytes())
    for before, after in changes:
        assert len(before) == len(after) and before in data
        data = data.replace(before, after)
    if without_sections:
        data[40:48] = bytes(8)  # e_shoff
        data[60:64] = bytes(4)  # e_shnum, e_shstrndx
    path.write_bytes(data)
    path.chmod(0o755)


@pytest.mark.parametrize("without_sections", [False, True])
def test_without_symbols(tool, start, tmp_path, without_sections):
    """By the section of its name, or by what it begins with; its loop is not known then."""
    source, loader, environment = newest_program()
    path = tmp_path / "server"
    shutil.copy(source, path)
    names = [b"_PyRuntime", b"PyCode_Type", b"_PyEval_EvalFrameDefault"]
    change(path, *((b"\0" + name + b"\0", b"\0" + name[:-1] + b"~\0") for name in names), without_sections=without_sections)
    process = start([*loader, str(path), "-S", "-c", WAIT], environment)
    if loader:
        assert refusal(tool, process.pid)[0] == 2  # a loader's, and the file's name says nothing
        os.link(path, tmp_path / "python")
        process = start([*loader, str(tmp_path / "python"), "-S", "-c", WAIT], environment)
    if without_sections and not loader:
        assert refusal(tool, process.pid)[0] == 95  # before 3.13 nothing says where
        return
    assert waits(tool, process.pid, 1)
    assert look(tool, process.pid)[1] == []


def fake_version(tool, start, path, version):
    """What is said of the system's interpreter when it claims another version."""
    shutil.copy(os.path.realpath("/usr/bin/python3"), path)
    real = subprocess.run(["/usr/bin/python3", "-c", "import sys; print(sys.hexversion)"], stdout=subprocess.PIPE, text=True, check=True)
    change(path, (struct.pack("<Q", int(real.stdout)), struct.pack("<Q", version)))
    return refusal(tool, start([str(path), "-c", WAIT], {"PYTHONHOME": "/usr"}).pid)


def test_fake_versions(tool, start, tmp_path):
    """A version that is not known is refused, and so is one whose frames are elsewhere."""
    if "system" not in PYTHONS or not os.path.realpath("/usr/bin/python3").endswith("3.11"):
        pytest.skip("/usr/bin/python3 is not Python 3.11")
    path = tmp_path / "server"
    assert fake_version(tool, start, path, 0x031000F0) == (95, f"{path} is Python 3.16, which is newer than this infprof, and frames are read of 3.8 to 3.15")
    path.unlink()
    assert fake_version(tool, start, path, 0x020712F0) == (95, f"{path} is Python 2.7, and frames are read of 3.8 to 3.15")
    for version in (0x030802F0, 0x030A02F0, 0x030C02F0):
        path.unlink()
        number, text = fake_version(tool, start, path, version)
        assert number == 95
        assert text == (f"{path} is Python 3.{version >> 16 & 255}.2, and does not keep its frames where that version does: it was built "
                        "another way, and they are not read")


def test_live_mount_namespace(tool, start):
    """A container's: its file has another path, or none, for us."""
    words = unshare("--pid", "--fork", "--kill-child")
    if "system" not in PYTHONS:
        pytest.skip("no /usr/bin/python3")
    script = f"mount -t tmpfs tmpfs /mnt && cp {os.path.realpath('/usr/bin/python3')} /mnt/server && exec /mnt/server -c \"$1\""
    process = start([*words, "sh", "-c", script, "_", WAIT], {"PYTHONHOME": "/usr"})
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        child = int(file.read().split()[0])
    assert waits(tool, child, 1)
    python, ranges, _ = look(tool, child)
    assert python[2] == "/mnt/server" and sum(ranges) > 20000


def test_live_chroot(tool, start):
    """A root directory with another C library."""
    name, (words, _) = next(((name, python) for name, python in PYTHONS.items() if name.startswith("sid-")), (None, ((), {})))
    if not name or os.geteuid() != 0:
        pytest.skip("no Python of Debian sid (tools/setup check), or no root")
    folder = words[-1].removesuffix("/usr/bin/" + pathlib.Path(words[-1]).name)
    inside = [word.replace(folder, "") for word in words]
    process = start(["chroot", folder, *inside, "-c", WAIT])
    assert waits(tool, process.pid, 1)


def test_refusals(tool, start, tmp_path):
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        wait_for(lambda: os.readlink(f"/proc/{sleeper.pid}/exe").endswith("sleep"), "sleep")
        number, text = refusal(tool, sleeper.pid)
        assert number == 2 and text.startswith(f"process {sleeper.pid} runs no Python: neither its program /")
    finally:
        sleeper.kill()
        sleeper.wait()
    number, text = refusal(tool, sleeper.pid)
    assert (number, text) == (3, f"there is no process {sleeper.pid}")


def test_old_python(tool, start):
    old = next(iter(pathlib.Path.home().glob(".pyenv/versions/3.7.*/bin/python3")), None)
    if not old:
        pytest.skip("no pyenv with Python 3.7")
    process = start([str(old), "-c", "import time; print('ready', flush=True); time.sleep(1000)"])
    number, text = refusal(tool, process.pid)
    assert number == 95
    assert re.fullmatch(r"/.*/libpython3\.7m?\.so\.1\.0 is Python 3\.7, and frames are read of 3\.8 to 3\.15", text)


def test_filter(tool, start):
    """A container whose filter refuses to read memory of another process."""
    if "system" not in PYTHONS:
        pytest.skip("no /usr/bin/python3")
    process = start(["/usr/bin/python3", "-c", WAIT])
    done = subprocess.run([tool, str(process.pid)], stdout=subprocess.PIPE, text=True, preexec_fn=refused([PROCESS_VM_READV], errno.EPERM))
    assert done.returncode == 1
    assert done.stdout.startswith(f"error\t-1\tcannot read the memory of process {process.pid}: Operation not permitted; "), done.stdout


def test_no_right(tool, start):
    """A process of root's, looked at by somebody else."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    if "system" not in PYTHONS:
        pytest.skip("no /usr/bin/python3")
    process = start(["/usr/bin/python3", "-c", "import time; print('ready', flush=True); time.sleep(1000)"])
    done = subprocess.run([tool, str(process.pid)], stdout=subprocess.PIPE, text=True, user=65534, group=65534, extra_groups=[])
    assert done.returncode == 1
    assert re.fullmatch(rf"error\t-(1|13)\tcannot read .*\b{process.pid}\b.*: (Permission denied|Operation not permitted); run infprof as "
                        r"the user of that process or as root, .*\n", done.stdout), done.stdout
