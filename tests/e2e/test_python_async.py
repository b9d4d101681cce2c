"""What the tasks of asyncio wait for: record --async."""
import gzip
import json
import os
import re
import subprocess

import pytest

import waits
from program import query, run
from pythons import PYTHONS

ONE = "system" if "system" in PYTHONS else next(iter(PYTHONS), None)
pytestmark = pytest.mark.skipif(not PYTHONS, reason="no Python to record")

# Clients that ask a slow engine on this machine, and nap between; each says how long it waited for what, by its own clock.
CLIENT = '''\
import asyncio, json, sys, time

if "python" in sys.argv:
    asyncio.Task = asyncio.tasks.Task = asyncio.tasks._PyTask
if "uvloop" in sys.argv:
    import uvloop
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
said = {"wall": 0, "asked": 0, "napped": 0, "begun": [], "ended": []}

async def engine(reader, writer):
    while await reader.readline():
        await asyncio.sleep(0.2)
        writer.write(b"done\\n")

async def ask(reader, writer):
    writer.write(b"go\\n")
    return await reader.readline()  # the answer

def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

async def request(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    begun = time.perf_counter()
    said["begun"].append(begun)
    while time.perf_counter() < begun + float(sys.argv[1]):
        t = time.perf_counter()
        await ask(reader, writer)
        said["asked"] += time.perf_counter() - t
        t = time.perf_counter()
        await asyncio.sleep(0.05)  # the nap
        said["napped"] += time.perf_counter() - t
        if "busy" in sys.argv:
            burn(0.06)
    said["ended"].append(time.perf_counter())
    said["wall"] += said["ended"][-1] - begun
    writer.close()

async def main():
    server = await asyncio.start_server(engine, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    tasks = [asyncio.ensure_future(request(port)) for i in range(3)]
    for i, task in enumerate(tasks):
        task.set_name(f"request {i}")
    await asyncio.gather(*tasks)
    server.close()

asyncio.get_event_loop_policy().new_event_loop().run_until_complete(main())
print(json.dumps(said))
'''
LINES = {name: 1 + CLIENT.splitlines().index(next(line for line in CLIENT.splitlines() if line.endswith(comment)))
         for name, comment in (("answer", "# the answer"), ("nap", "# the nap"))}


@pytest.fixture
def client(record, tmp_path):
    """client(words..., name=, options=): the recording, and what the program says of itself."""
    program = tmp_path / "client.py"
    program.write_text(CLIENT)

    def call(*arguments, name=ONE, options=("--async",), seconds=3, **more):
        words, environment = PYTHONS[name]
        done = record(*options, "--no-snapshots", command=[*words, "-W", "ignore", program, seconds, *arguments],
                      env={**os.environ, **environment}, **more)
        assert done.returncode == 0, done.stderr
        return done, json.loads(done.stdout)

    return call


def requests(recorded):
    rows = [row for row in waits.rows(recorded, "async") if "request" in [frame.name for frame in row.frames]]
    total = sum(row.weight for row in rows)

    def share(test):
        return sum(row.weight for row in rows if test(row)) / total

    return rows, total, share


def has_line(row, line):
    return any(frame.line == line and frame.object.endswith("client.py") for frame in row.frames)


def check(done, said):
    """Where requests wait, and for how long, is what they say by their own clock. Three things take away of it on a busy machine: tasks are
    found some time after asyncio is there, rounds come too late for a CPU, and looks at tasks take too long of it. The last two are counted
    and may have been of one kind all."""
    rows, total, share = requests(done.run)
    rounds, looks = ([row for row in done.run.table("sampler") if row["mode"] == mode][-1] for mode in ("wall", "async"))
    late = (len(said["begun"]) * rounds["lost"] + looks["lost"]) / rounds["rate_hz"]  # of one thread; of all tasks
    seen = sum(said["ended"]) - sum(max(begun, min(row.t_ns for row in rows) / 1e9) for begun in said["begun"])
    assert seen - late < total + 0.05 * said["wall"] + 0.3 and total < seen + 0.05 * said["wall"] + 0.3, (total, seen, late, said)
    assert seen > 0.2 * said["wall"], (seen, said)
    asked, napped, error = said["asked"] / said["wall"], said["napped"] / said["wall"], 0.08 * said["wall"] / seen + late / seen
    assert abs(share(lambda row: has_line(row, LINES["answer"])) - asked) < error, (error, said)
    assert abs(share(lambda row: has_line(row, LINES["nap"])) - napped) < error, (error, said)
    return rows, share, error


@pytest.mark.parametrize("kind", ["c", "python"])
@pytest.mark.parametrize("name", PYTHONS)
def test_line_of_the_await(client, name, kind):
    if kind == "python" and name != ONE:
        pytest.skip("tasks of Python: one version stands for all here, test_backtrace_async.py has them all")
    done, said = client(kind, name=name, options=("--async", "--wall=100"))
    rows, share, _ = check(done, said)
    for row in rows:
        if row.state is None:
            continue
        names = [frame.name.rsplit(".", 1)[-1] for frame in row.frames]
        assert {frame.kind for frame in row.frames} == {"python"} and "request" in names, row
        assert not {"run_forever", "_run_once", "<module>"} & set(names), names
    tasks = query_tasks(done)
    assert {task for task in tasks if task.startswith("request")} == {"request 0", "request 1", "request 2"}, tasks
    assert share(lambda row: row.state and row.state.startswith("waiting for ")) > 0.9


def query_tasks(done):
    return {row["task"] for row in done.run.table("stack_samples") if row["mode"] == "async"}


def test_a_loop_that_is_busy(client):
    """Tasks are read while their loop runs, too."""
    done, said = client("busy", options=("--async", "--wall=100"), seconds=4)
    rows, share, error = check(done, said)
    burned = share(lambda row: row.state is None and "burn" in [frame.name for frame in row.frames])
    alone = 1 - (said["asked"] + said["napped"]) / said["wall"]
    assert abs(burned - alone) < error, (burned, said)


def test_uvloop(infprof, client, uvloop):
    done, said = client("uvloop", name=uvloop, options=("--async", "--wall=100"))
    check(done, said)
    lag = reported_lag(infprof, done)
    assert lag["threads"] == [] and "as uvloop does" in lag["not_known"], lag
    counted = [row for row in done.run.table("sampler") if row["mode"] == "lag"][-1]
    assert counted["taken"] == 0 and counted["lost"] > 0, counted


def test_views(infprof, client, tmp_path):
    done, said = client()
    path = done.run.path
    text = run([infprof, "report", "functions", "-r", path]).stdout
    assert "Functions by time of all tasks of asyncio" in text and re.search(r" s  request  client.py:\d+$", text, re.M), text
    assert "reads of tasks, torn since it changed meanwhile" in re.sub(r"\s+", " ", text), text
    folded = run([infprof, "flamegraph", "-r", path, "--mode", "async", "--folded"])
    assert folded.returncode == 0 and "request" in folded.stdout, folded
    states = {row["state"] for row in query(infprof, path, "SELECT DISTINCT state FROM stack_samples WHERE mode = 'async'")}
    assert "waiting for _asyncio.Future" in states and "waiting for 3 tasks" in states, states
    rows = [row for row in waits.rows(done.run, "async") if row.task == "request 0"]
    tasks = {task["name"]: task for task in json.loads(run([infprof, "report", "--json", "-r", path]).stdout)["tasks"]["names"]}
    assert {f"request {i}" for i in range(3)} | {"main()", "engine()"} <= set(tasks), tasks
    one, place = tasks["request 0"], tasks["request 0"]["places"][0]
    asked = sum(row.weight for row in rows if has_line(row, LINES["answer"]) and row.state not in (None, "waiting for the loop"))
    assert one["total_s"] == pytest.approx(sum(row.weight for row in rows)) and place["total_s"] == pytest.approx(asked), (one, asked)
    assert place["function"] == "ask" and place["line"] == LINES["answer"] and place["file"].endswith("client.py"), place
    assert one["total_s"] == pytest.approx(one["awaits_s"] + one["ready_s"] + one["runs_s"]), one
    share = f"{100 * asked / one['total_s']:.1f} %"
    tasks = run([infprof, "report", "tasks", "-r", path]).stdout
    assert re.search(rf"^  request 0  .*\n +{share}  ask  client.py:{place['line']}$", tasks, re.M), tasks
    page = run([infprof, "report", "--html", "-o", "-", "-r", path]).stdout.split('<section id="tasks"')[1].split("</section>")[0]
    assert f"<td>ask  client.py:{place['line']}, {share}<br>" in page and ">request 0</th>" in page, page
    by_task = run([infprof, "flamegraph", "-r", path, "--by", "task", "--folded"]).stdout
    seconds = {}
    for row in done.run.table("stack_samples"):
        if row["mode"] == "async":
            seconds[row["task"]] = seconds.get(row["task"], 0) + row["samples"]
    counted = {}
    for line in by_task.splitlines():
        name = line.split(";")[0].replace("_", " ")  # as folded stacks are written
        counted[name] = counted.get(name, 0) + int(line.rsplit(" ", 1)[1])
    assert {name: counted[name] for name in counted if name.startswith("request ")} == {f"request {i}": seconds[f"request {i}"] for i in range(3)}, by_task
    assert {"main()", "engine()"} <= set(counted) and not [name for name in counted if name.startswith("Task-")], by_task
    assert sum(counted.values()) == sum(seconds.values()), (counted, seconds)
    speedscope = json.loads(run([infprof, "flamegraph", "-r", path, "--by", "task", "--speedscope"]).stdout)
    assert {"request 0", "main()"} <= {profile["name"] for profile in speedscope["profiles"]}, speedscope
    assert run([infprof, "flamegraph", "-r", path, "--mode", "async", "-o", tmp_path / "out.pb.gz"]).returncode == 0
    assert {b"task", b"request 0", b"main()"} <= set(re.findall(rb"task|request 0|main\(\)", gzip.decompress((tmp_path / "out.pb.gz").read_bytes())))
    refused = run([infprof, "flamegraph", "-r", path, "--by", "task", "--mode", "wall"])
    assert refused.returncode == 2 and "--by task is for --mode async" in refused.stderr, refused
    chrome = run([infprof, "flamegraph", "-r", path, "--mode", "async", "--chrome"])
    assert chrome.returncode == 1 and "tasks of asyncio overlap" in chrome.stderr, chrome


def test_not_asked_for(client):
    done, said = client(options=("--wall",), seconds=0.5)
    assert query_tasks(done) == set()


# Requests await a task each, which awaits the engine; one task awaits the next, more than are followed; two have more coroutines than are
# kept; gather awaits many, and others await one more by a future that this one sets as it ends.
CHAINED = '''\
import asyncio, sys, time

if "python" in sys.argv:
    asyncio.Task = asyncio.tasks.Task = asyncio.tasks._PyTask

async def engine():
    await asyncio.sleep(0.3)

async def work():
    await engine()

async def request():
    while time.perf_counter() < end:
        task = asyncio.ensure_future(work())
        task.set_name("work")
        await task

async def link(n):
    if n:
        await asyncio.ensure_future(link(n - 1))
    else:
        await asyncio.sleep(end - time.perf_counter())

async def deep(n, inner=None):
    await (deep(n - 1, inner) if n else inner or last())

async def last():
    await asyncio.sleep(end - time.perf_counter())

async def gathered():
    begun = time.perf_counter()
    while time.perf_counter() < begun + 0.03:  # a look that began before may find it waiting, and not what it waits for
        pass
    await asyncio.gather(asyncio.sleep(0.1), last())

async def limited():
    await asyncio.wait_for(asyncio.gather(asyncio.sleep(0.1), last()), 100)

async def shielded():
    await asyncio.shield(last())

async def waiting():
    await asyncio.wait([start("last", last()), start("short", asyncio.sleep(0.1))])

async def grouped():
    async with asyncio.TaskGroup() as group:
        group.create_task(last())
        group.create_task(asyncio.sleep(0.1))

def start(name, coroutine):
    task = asyncio.ensure_future(coroutine)
    task.set_name(name)
    return task

async def main():
    tasks = [start("request", request()) for i in range(2)]
    longest = start("longest", link(40))
    others = [start("deep", deep(200, start("inner", deep(200))))]
    others += [start(each.__name__, each()) for each in (gathered, limited, shielded, waiting, grouped)]
    while "busy" in sys.argv and time.perf_counter() < end:
        begun = time.perf_counter()
        while time.perf_counter() < begun + 0.003:
            pass
        await asyncio.sleep(0.001)
    await asyncio.gather(*tasks, longest, *others)

end = time.perf_counter() + 2.5
asyncio.get_event_loop_policy().new_event_loop().run_until_complete(main())
'''


@pytest.mark.parametrize("words", [[], ["python"], ["busy"]])
def test_tasks_that_await_tasks(infprof, record, tmp_path, words):
    """The stack of one goes on into the other's, as it would had it been called."""
    program = tmp_path / "chained.py"
    program.write_text(CHAINED)
    python, environment = PYTHONS[ONE]
    done = record("--async", "--wall=50", "--no-snapshots", command=[*python, "-W", "ignore", program, *words], env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    by_future = ["gathered", "limited", "shielded", "waiting", "grouped"]
    names = {name: {} for name in ["request", "work", "longest", "deep", *by_future]}
    for row in waits.rows(done.run, "async"):
        path = tuple(frame.name for frame in row.frames if frame.name != "Future.__await__")  # of tasks of Python
        if row.task in names and row.state and row.state != "waiting for the loop":
            names[row.task][path] = names[row.task].get(path, 0) + row.weight
    whole = {task: sum(names[task].values()) for task in names}
    assert whole["request"] > 1 and whole["longest"] > 0.5, names
    assert names["request"].get(("request", "work", "engine", "sleep"), 0) > 0.9 * whole["request"], names
    assert names["work"].get(("work", "engine", "sleep"), 0) > 0.9 * whole["work"], names
    assert names["longest"].get(("link",) * 17, 0) > 0.9 * whole["longest"], names["longest"]  # less as they are made
    for name in by_future:
        to_the_end = sum(weight for path, weight in names[name].items() if path[0] == name and path[-2:] == ("last", "sleep"))
        assert to_the_end > 0.7 * whole[name] > 1, (name, names[name])
    assert names["deep"].get(("deep",) * 201, 0) > 0.9 * whole["deep"], names["deep"]
    assert all(row.is_truncated for row in waits.rows(done.run, "async") if len(row.frames) == {"deep": 201, "longest": 17}.get(row.task))
    tasks = {task["name"]: task for task in json.loads(run([infprof, "report", "--json", "-r", done.run.path]).stdout)["tasks"]["names"]}
    assert tasks["request"]["places"][0]["function"] == "engine", tasks["request"]
    gathers = [row for row in waits.rows(done.run, "async") if row.state == "waiting for 9 tasks"]
    assert gathers or "busy" in words  # that one asks them when they have ended
    assert {tuple(frame.name for frame in row.frames) for row in gathers} <= {("main",)}


# Each callback is timed by the program's own clock, and those that take long are told. Loops that are busy or idle for long, and short-lived
# ones, one in the place of the other, are held by none.
LAGGARD = '''\
import asyncio, json, sys, time

LONG, held = 90_000_000, []
original = asyncio.events.Handle._run

def _run(self):
    begun = time.monotonic_ns()
    original(self)
    ended = time.monotonic_ns()
    if ended - begun > LONG:
        held.append([begun, ended])

asyncio.events.Handle._run = _run

def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

async def computes():
    burn(0.5)  # it computes

async def blocks():
    time.sleep(0.5)  # it blocks

async def is_short():
    burn(0.03)

async def lags():
    for i in range(3):
        await computes()
        await asyncio.sleep(0.05)
        await asyncio.gather(blocks(), asyncio.sleep(0.01))
        asyncio.get_running_loop().call_soon(time.sleep, 0.3)
        await asyncio.sleep(0.05)

async def is_fine():
    await asyncio.sleep(1)
    begun = time.perf_counter()
    while time.perf_counter() < begun + 1:
        await asyncio.gather(*[is_short() for i in range(5)])

asyncio.run(lags() if sys.argv[1] == "lags" else is_fine())
begun = time.perf_counter()
while sys.argv[1] == "fine" and time.perf_counter() < begun + 2:
    asyncio.run(is_short())
print(json.dumps(held))
'''


@pytest.fixture
def laggard(record, tmp_path):
    """laggard(words..., name=): the recording, and [begin, end) of each long callback."""
    program = tmp_path / "laggard.py"
    program.write_text(LAGGARD)

    def call(*arguments, name=ONE):
        words, environment = PYTHONS[name]
        done = record("--async", "--wall=100", "--no-snapshots", command=[*words, program, *arguments], env={**os.environ, **environment})
        assert done.returncode == 0, done.stderr
        return done, json.loads(done.stdout)

    return call


def reported_lag(infprof, done):
    return json.loads(run([infprof, "report", "--json", "-r", done.run.path]).stdout)["lag"]


def within(row, held, slack_ns=20_000_000):
    """The callback that it is of, by its number: the program's clock starts just after it was called."""
    end_ns = row.t_ns + row.weight * 1e9
    return next((i for i, (begun, ended) in enumerate(held) if begun - slack_ns < row.t_ns and end_ns < ended + slack_ns), None)


def looked_at(looks, begun, ended):
    """From the first look in that time to the last, in seconds: on a busy machine there may be few."""
    rows = [row for row in looks if begun <= row.t_ns < ended]
    last = max((min(row.t_ns + (row.samples - 1) * 10_000_000, ended) for row in rows), default=0)
    return (last - min(row.t_ns for row in rows)) / 1e9 if rows else 0


@pytest.mark.parametrize("name", PYTHONS)
def test_callback_that_holds_the_loop(infprof, laggard, name):
    done, held = laggard("lags", name=name)
    rows = waits.rows(done.run, "lag")
    known_ns = min(row.t_ns for row in waits.rows(done.run, "async"))  # from when on tasks are read
    held = [[begun, ended] for begun, ended in held if ended > known_ns]
    looks = waits.rows(done.run, "wall")
    looked = [looked_at(looks, begun, ended) if begun > known_ns else 0 for begun, ended in held]
    found, whole = {within(row, held) for row in rows}, {i for i, seconds in enumerate(looked) if seconds > 0.15}
    assert None not in found and found >= whole and len(found) > 2, (found, looked, held, [(row.t_ns, row.weight) for row in rows])
    most = sum(ended - begun for begun, ended in held) / 1e9
    assert 0.8 * sum(looked[i] for i in whole) < sum(row.weight for row in rows) < most + 0.02 * len(held), (looked, rows, held)
    for row in rows:
        names = [frame.name.rsplit(".", 1)[-1] for frame in row.frames if frame.kind == "python"]
        assert names[0] == "_run" and {"lags", "blocks"} & set(names) or names == ["_run", "_run"], row
    lag = reported_lag(infprof, done)
    [thread] = lag["threads"]
    assert lag["not_known"] is None and len(whole) <= thread["n"] <= 2 * len(held), (lag, held)
    assert 0.1 <= thread["max_s"] < max(ended - begun for begun, ended in held) / 1e9 + 0.02, (thread, held)
    assert thread["total_s"] == pytest.approx(sum(row.weight for row in rows)), thread
    places = {(place["function"].rsplit(".", 1)[-1], place["line"]): place["total_s"] for place in thread["places"]}
    blocked, called = (1 + LAGGARD.splitlines().index(line) for line in ("    time.sleep(0.5)  # it blocks", "    original(self)"))
    assert places["blocks", blocked] == pytest.approx(waits.seconds(rows, function="blocks")) and ("_run", called) in places, places


def test_loops_that_nothing_holds(infprof, laggard):
    done, held = laggard("fine")
    rows = waits.rows(done.run, "lag")
    assert None not in [within(row, held) for row in rows], (rows, held)  # none, but where the machine was that busy
    if not held:
        assert reported_lag(infprof, done)["threads"] == []
        assert "no callback was seen to hold" in run([infprof, "report", "lag", "-r", done.run.path]).stdout


def test_views_of_lag(infprof, laggard):
    done, held = laggard("lags")
    text = re.sub(r"\s+", " ", run([infprof, "report", "lag", "-r", done.run.path]).stdout)
    assert re.search(r" python\S* +\d+ .* blocks laggard.py:\d+ ", text) and "each took about 10.0 ms longer" in text, text
    short = re.sub(r"\s+", " ", run([infprof, "report", "-r", done.run.path]).stdout)
    assert re.search(r"was held \d+ times for 100 ms or more by one callback, .* most by \w+ laggard.py:\d+:", short), short
    counted = [row for row in done.run.table("sampler") if row["mode"] == "lag"][-1]
    taken = sum(row.samples for row in waits.rows(done.run, "lag"))
    assert counted["taken"] == taken > 0 and counted["lost"] == 0 and counted["own_cpu_ns"] > 0, counted
    functions = re.sub(r"\s+", " ", run([infprof, "report", "functions", "-r", done.run.path]).stdout)
    assert f"Taken: {taken} samples at 100 Hz by what event loops take from their queues" in functions, functions
    thread, = reported_lag(infprof, done)["threads"]
    page = run([infprof, "report", "--html", "-o", "-", "-r", done.run.path]).stdout.split('<section id="lag"')[1].split("</section>")[0]
    assert f'>{thread["name"]} ({thread["tid"]})</th>' in page and f'>{thread["n"]}</td>' in page, page
    assert re.search(r"<td>\w+  laggard.py:\d+, .*<br>", page) and "each took about 10.0 ms longer" in page, page
    folded = run([infprof, "flamegraph", "-r", done.run.path, "--mode", "lag", "--folded"])
    assert folded.returncode == 0 and "blocks" in folded.stdout and "computes" in folded.stdout, folded
    chrome = run([infprof, "flamegraph", "-r", done.run.path, "--mode", "lag", "--chrome"])
    assert chrome.returncode == 0, chrome
    times = sorted(row.t_ns for row in waits.rows(done.run, "lag"))
    begins, end = [], 0  # of outermost slices, in us
    for event in json.loads(chrome.stdout)["traceEvents"]:
        if event["ph"] == "X" and event["ts"] >= end:
            begins.append(event["ts"])
            end = event["ts"] + event["dur"]
    assert len(begins) > 1, begins
    for begin in begins:  # what a row stands for begins at its moment
        assert min(abs((begin - begins[0]) * 1000 - (t - times[0])) for t in times) < 2000, (begins, times)


STUCK = '''\
import asyncio, time

async def main():
    print("ready", flush=True)
    time.sleep(1000)

asyncio.run(main())
'''


def test_callback_that_does_not_end(record, infprof, tmp_path):
    program = tmp_path / "stuck.py"
    program.write_text(STUCK)
    words, environment = PYTHONS[ONE]
    with subprocess.Popen([*words, program], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            done = record("--async", "--no-snapshots", "--pid", process.pid, "--duration", "2")
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr
    [thread] = reported_lag(infprof, done)["threads"]
    assert thread["n"] == 1 and 1 < thread["max_s"] < 2.5 and thread["places"][0]["function"] == "main", thread


def test_python_off(record):
    done = record("--async", "--python=off", command=["true"])
    assert done.returncode == 125 and "--async reads Python" in done.stderr, done


PARKED = '''\
import asyncio, sys

async def park():
    await asyncio.Event().wait()

async def main():
    tasks = [asyncio.ensure_future(park()) for i in range(int(sys.argv[1]))]
    await asyncio.sleep(0.1)
    print("ready", flush=True)
    await asyncio.gather(*tasks)

asyncio.run(main())
'''


@pytest.mark.parametrize("n", [3, 2000])
def test_a_loop_that_sleeps_already(record, tmp_path, n):
    """Nothing of the process runs while it is recorded. Of many tasks those beyond the bound are counted."""
    program = tmp_path / "parked.py"
    program.write_text(PARKED)
    words, environment = PYTHONS[ONE]
    with subprocess.Popen([*words, program, str(n)], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            done = record("--async", "--no-snapshots", "--pid", process.pid, "--duration", "2")
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr
    parked = [row for row in waits.rows(done.run, "async") if "park" in [frame.name for frame in row.frames]]
    seen = sum(row.weight for row in parked)
    last = [row for row in done.run.table("sampler") if row["mode"] == "async"][-1]
    assert last["python_torn"] == 0 and (last["lost"] > 0) == (n > 1024), last
    n_read = min(n, 1024)
    whole = waits.seconds(waits.rows(done.run, "wall"), tid=process.pid)  # of the thread of their loop, by the same rounds
    assert 0.3 * n_read * whole < seen < 1.1 * n_read * whole, (seen, whole)
    assert {row.state for row in parked} == {"waiting for _asyncio.Future"}
