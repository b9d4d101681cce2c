"""infprof backtrace --async: the tasks of asyncio as Python itself says them, on each version that is here."""
import collections
import json
import os
import pathlib
import re
import subprocess
import time

import pytest

import proc
from program import run
from pythons import PYTHONS
from waiting import wait_for

PROGRAM = pathlib.Path(__file__).resolve().parent / "python_tasks.py"


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(name, *words, program=PROGRAM):
        command, environment = PYTHONS[name]
        process = subprocess.Popen([*command, str(program), str(tmp_path / "said"), *map(str, words)], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, **environment})
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        process.said = json.loads((tmp_path / "said").read_text()) if (tmp_path / "said").exists() else None
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


def tasks_of(infprof, process, *options):
    done = run([infprof, "backtrace", "--async", "--json", *options, process.pid])
    assert done.returncode == 0, done.stderr
    return [task for task in json.loads(done.stdout) if "task" in task]


def text_of(name):
    """As infprof writes it: bytes that Python could not decode are no text."""
    return re.sub("[\udc80-\udcff]", lambda match: f"\\x{ord(match[0]) - 0xdc00:02x}", name)


def wanted(said):
    return collections.Counter((text_of(task["name"]), task["state"], task["tid"], *(tuple(frame) for frame in task["frames"]))
                               for task in said if task["state"] != "running")


def found(tasks):
    return collections.Counter((task["name"], task["state"], task["loop"]["tid"],
                                *((frame["func"].rsplit(".", 1)[-1], frame["file"], frame["lineno"]) for frame in task["frames"]))
                               for task in tasks if task["state"] != "running")


def is_newer_than_3_13(name):
    return re.search(r"3\.1[4-9]", name)


def without_ended(tasks):
    return collections.Counter({key: n for key, n in tasks.items() if key[1] == "waiting"})


@pytest.mark.parametrize("options", [[], ["--no-block"]], ids=["stopped", "running"])
@pytest.mark.parametrize("kind", ["c", "python"])
@pytest.mark.parametrize("name", PYTHONS)
def test_tasks_are_those_of_asyncio(infprof, start, name, kind, options):
    process = start(name, 0, *(["python"] if kind == "python" else []))
    tasks = tasks_of(infprof, process, *options)
    ours, theirs = found(tasks), wanted(process.said)
    if is_newer_than_3_13(name):  # a task leaves the lists when it ends
        ours, theirs = without_ended(ours), without_ended(theirs)
    if is_newer_than_3_13(name) and kind == "python":  # all_tasks() of C knows none of these, and the program not all of them
        assert theirs and not theirs - ours
    else:
        assert ours == theirs
    assert not any(task["why"] or task["incomplete"] for task in tasks)
    running = [task for task in tasks if task["state"] == "running"]
    assert [task["frames"][0]["func"] for task in running] == ["main", "main"]
    assert sorted(task["tid"] for task in running) == sorted({task["tid"] for task in process.said})


def test_tasks_of_uvloop(infprof, start, uvloop):
    process = start(uvloop, 0, "uvloop")
    tasks = tasks_of(infprof, process)
    assert found(tasks) == wanted(process.said)
    assert {task["loop"]["type"] for task in tasks} == {"Loop"}


@pytest.mark.parametrize("name", PYTHONS)
def test_who_awaits_a_task(infprof, start, name):
    """Both loops have tasks of the same names, which their addresses tell apart."""
    tasks = tasks_of(infprof, start(name))
    addresses = {task["task"]: task for task in tasks}
    pairs = collections.Counter((task["name"].replace("second ", ""), awaiter["name"].replace("second ", ""))
                                for task in tasks for awaiter in task["awaited_by"])
    unnamed = collections.Counter(pair[1] for pair in pairs.elements() if pair[0].startswith("Task-"))
    by_name = {pair: n for pair, n in pairs.items() if not pair[0].startswith("Task-")}
    expected = [("inner", "outer"), ("inner", "outer two"), ("child one", "gather"), ("shielded", "shield"), ("waited one", "wait"),
                ("waited two", "wait")]
    if any(task["name"] == "group" for task in tasks):
        expected += [("member one", "group"), ("member two", "group")]
    assert by_name == {pair: 2 for pair in expected}
    assert unnamed["gather"] == 4 and unnamed["wait_for"] in (0, 2)  # from 3.12 on, wait_for makes no task
    assert all(addresses[awaiter["task"]]["loop"] == task["loop"] for task in tasks for awaiter in task["awaited_by"])
    outer = [task for task in tasks if task["name"].endswith("outer")]
    assert len(outer) == 2 and all(addresses[task["waits_for_task"]]["name"].endswith("inner") for task in outer)


@pytest.mark.parametrize("name", [name for name in PYTHONS if "3.14" in name])
def test_the_same_as_asyncio_ps(infprof, start, name):
    """Python's own reader shows fewer frames where coroutines await by __await__: its chains are the outer ends of ours."""
    process = start(name)
    command, environment = PYTHONS[name]
    done = subprocess.run([*command, "-m", "asyncio", "ps", str(process.pid)], capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        pytest.skip(f"python -m asyncio ps: {done.stderr[-200:]}")
    ours = {task["task"]: task for task in tasks_of(infprof, process)}
    theirs = collections.defaultdict(set)
    for line in done.stdout.splitlines():
        if not re.match(r"\d+ +0x", line):
            continue
        address, *awaiters = re.findall(r"\b0x[0-9a-f]+", line)
        functions = [frame["func"] for frame in ours[address]["frames"]]
        assert any(f' {" -> ".join(functions[at:])} ' in line for at in range(len(functions))), (functions, line)
        theirs[address].update(set(awaiters) - {"0x0"})
    assert theirs == {address: {awaiter["task"] for awaiter in ours[address]["awaited_by"]} for address in theirs}
    assert len(theirs) >= len(ours) / 2 - 2  # it may show one loop alone


def test_text(infprof, start):
    process = start("system")
    done = run([infprof, "backtrace", "--async", process.pid])
    assert done.returncode == 0 and done.stderr == ""
    assert re.search(r"^  asyncio: \d+ tasks, read while all threads were stopped for [\d.]+ (us|ms|s)$", done.stdout, re.M)
    assert re.search(rf"^Event loop  _UnixSelectorEventLoop in thread {process.pid}: \d+ tasks$", done.stdout, re.M)
    assert re.search(r'^Task "inner"  waiting for _asyncio.Future, awaited by "outer", "outer two"\n    0  Python  park  .*python_tasks.py:\d+$',
                     done.stdout, re.M)
    assert re.search(r'^Task "outer"  waiting for task "inner"$', done.stdout, re.M)
    assert not re.search("[\x1b\u202e]", done.stdout)  # hostile names are escaped


def test_many_tasks(infprof, start):
    tasks = tasks_of(infprof, start("system", 5000))
    extra = [task for task in tasks if task["name"].startswith("extra")]
    assert len(extra) == 10000
    assert all([frame["func"] for frame in task["frames"]] == ["park", "nested", "nested", "nested", "nested"] for task in extra)


@pytest.mark.parametrize("name", PYTHONS)
def test_tasks_that_come_and_go(infprof, start, tmp_path, name):
    """A busy loop: chains are those that the program has, and what changed while it was read is said."""
    program = tmp_path / "busy.py"
    program.write_text("import asyncio\nasync def leaf():\n    await asyncio.sleep(0)\nasync def middle():\n    await leaf()\n"
                       "async def work():\n    for _ in range(5):\n        await middle()\nasync def main():\n    print('ready', flush=True)\n"
                       "    while True:\n        await asyncio.gather(*(asyncio.create_task(work()) for _ in range(50)))\nasyncio.run(main())\n")
    chain = ["sleep", "leaf", "middle", "work"]
    process = start(name, program=program)
    seen = 0
    for options in (["--python-only"], ["--no-block"]) * 2:
        for task in tasks_of(infprof, process, *options):
            functions = [frame["func"] for frame in task["frames"] if frame["func"] != "__sleep0"]
            if task["why"]:  # also of a stopped loop: it stands between a task that it has entered and the task's coroutine
                assert options == ["--no-block"] or task["state"] == "running" and task["why"].startswith("it runs, and no"), task
            elif functions and functions[-1] == "work" and task["state"] != "running":
                seen += 1
                assert functions == chain[-len(functions):], task
    assert seen


def test_kill_of_infprof(infprof, start):
    """All threads go on, whenever it is killed while they stand."""
    process = start("system", 2000)
    for i in range(30):
        taking = subprocess.Popen([infprof, "backtrace", "--async", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(i * 0.005)  # sleep: each moment of it is tried
        taking.kill()
        taking.wait()
    def statuses():
        return proc.thread_texts(process.pid, "status").values()

    wait_for(lambda: all("TracerPid:\t0\n" in status for status in statuses()), "the end of the trace")
    assert not [status for status in statuses() if re.search(r"State:\s+[tT]", status)]
    assert tasks_of(infprof, process)


def test_without_asyncio(infprof):
    process = subprocess.Popen(["/usr/bin/python3", "-c", "print(flush=True)\nimport time\ntime.sleep(1000)"], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        done = run([infprof, "backtrace", "--async", process.pid])
        assert done.returncode == 0 and "no tasks: asyncio is not imported" in done.stderr
        assert "asyncio:" not in done.stdout
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("words, message", [(["--native-only", "1"], "--async reads Python frames"), (["1", "1"], "of a whole process, not of a thread")])
def test_bad_options(infprof, words, message):
    done = run([infprof, "backtrace", "--async", *words])
    assert done.returncode == 2 and message in done.stderr
