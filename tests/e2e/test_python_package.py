"""The Python package: spans, marks, counters and tables from inside, its start in programs that `record --python` runs, in venvs and
in children of all kinds, and the entry of the mission's profiler."""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from program import run
from pythons import FREE, PYTHONS

TOP = pathlib.Path(__file__).resolve().parents[2]
ALL = [name for name in PYTHONS if not name.endswith("d")]
ONE = "system" if "system" in PYTHONS else next(iter(PYTHONS), None)
OLD = [str(path) for path in sorted(pathlib.Path.home().glob(".pyenv/versions/[23].[67]*/bin/python"))]
pytestmark = pytest.mark.skipif(not PYTHONS, reason="no Python to record")


@pytest.fixture(scope="session")
def package(infprof):
    """The folder that has the package of the build."""
    folder = pathlib.Path(infprof).parent / "python"
    assert (folder / "infprof" / "__init__.py").exists()
    return folder


@pytest.fixture
def python(package, tmp_path):
    """python(name, text, *words, environment...): a program that ends well, with the package in PYTHONPATH."""
    def call(name, text, *words, **environment):
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(text))
        own, needed = PYTHONS[name]
        done = run([*own, program, *words], env={"PYTHONPATH": str(package), **needed, **environment})
        assert done.returncode == 0, done.stderr
        return done

    return call


@pytest.fixture
def loaded(record, tmp_path):
    """loaded(name, text, *options): what a program prints that `record --python` runs, and its run."""
    def call(name, text, *options, environment=None, words=(), before=()):
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(text))
        own, needed = PYTHONS[name] if name in PYTHONS else ([name], {})
        done = record("-t", "100", "--no-finish", *(options or ["--python"]), command=[*before, *own, *words, program],
                      env={**os.environ, **needed, **(environment or {})})
        assert done.returncode == 0, done.stderr
        return done

    return call


def tree(rows):
    """{name: names of its parents} of spans."""
    names = {row["span"]: row["name"] for row in rows}
    parents = collections.defaultdict(set)
    for row in rows:
        parents[row["name"]].add(names.get(row["parent"]))
    return dict(parents)


# ---- what a program says ----

SPANS = '''\
    import asyncio, infprof, threading

    assert infprof.current_span_id() == 0
    with infprof.span("outer", batch=8, share=0.5, ok=True, name="text", none=None, big=1 << 80, of=[1]) as outer:
        with infprof.span("inner"):
            infprof.mark("inside")
        outer.set(more=-1)
        assert infprof.current_span_id() == outer.id > 0

    @infprof.span("task", kind="async")
    async def task(number):
        """Doc."""
        await asyncio.sleep(0.01 * (3 - number))  # the one that begins first ends last
        with infprof.span(f"part {number}"):
            await asyncio.sleep(0.01)

    @infprof.span("generator")
    def generate():
        with infprof.span("in the generator"):
            got = yield 1
        try:
            yield got
        except KeyError:
            yield "caught"
        return "end"

    @infprof.span("async generator")
    async def stream():
        for i in range(2):
            with infprof.span("in the stream"):
                await asyncio.sleep(0)
            yield i

    async def main():
        with infprof.span("main"):
            await asyncio.gather(*(task(number) for number in range(3)))
            async for _ in stream():
                with infprof.span("user of the stream"): pass
        task_without = asyncio.create_task(task(3))
        with infprof.span("beside"): await task_without

    asyncio.run(main())
    assert task.__name__ == "task" and task.__doc__ == "Doc."
    generator = generate()
    assert next(generator) == 1
    with infprof.span("user of the generator"):
        assert generator.send("sent") == "sent"
    assert generator.throw(KeyError("k")) == "caught"
    try: next(generator)
    except StopIteration as end: assert end.value == "end"
    left = generate(); next(left); left.close()

    @infprof.span("function")
    def fail(): raise ValueError("x")
    try: fail()
    except ValueError: pass
    again = infprof.span("again")
    for _ in range(2):
        with again:
            with again: pass
    with infprof.span("after"): pass  # nothing is left open
    with infprof.span("with threads"):
        thread = threading.Thread(target=infprof.span("in a thread")(lambda: infprof.thread_name("worker")))
        thread.start(); thread.join()
    tokens = infprof.counter("tokens", "tokens", help="made")
    for _ in range(3): tokens.add(8)
    infprof.counter("tokens").add(1.5)
    infprof.gauge("queue").set(3)
    print(infprof.step(), infprof.step(), infprof.is_recording(), infprof.span.__module__)
'''
PARENTS = {
    "outer": {None}, "inner": {"outer"}, "main": {None}, "task": {"main", None}, "part 0": {"task"}, "part 1": {"task"}, "part 2": {"task"},
    "part 3": {"task"}, "async generator": {"main"}, "in the stream": {"async generator"}, "user of the stream": {"main"}, "beside": {None},
    "generator": {None}, "in the generator": {"generator"}, "user of the generator": {None}, "function": {None}, "again": {None},
    "after": {None}, "with threads": {None}, "in a thread": {None},
}


@pytest.mark.parametrize("name", ALL)
def test_spans_nest(loaded, name):
    done = loaded(name, SPANS)
    form = done.stdout.split()[-1]
    assert done.stdout.startswith("1 2 True ") and (form == "infprof._by_ctypes") == (name in FREE), done.stdout
    spans = done.run.table("spans")
    assert tree(spans) == PARENTS
    counts = collections.Counter(row["name"] for row in spans)
    assert counts["again"] == 2 and counts["generator"] == 2 and counts["task"] == 4
    by_name = {row["name"]: row for row in spans}
    assert json.loads(by_name["outer"]["attributes"]) == {"batch": 8, "share": 0.5, "ok": True, "name": "text", "big": str(1 << 80),
                                                          "of": "[1]", "more": -1}
    assert {row["name"]: row["status"] for row in spans if row["status"] != "ok"} == {"function": "error"}
    assert json.loads(by_name["function"]["attributes"]) == {"error.type": "ValueError"}
    assert by_name["in a thread"]["thread"] == "worker" and by_name["in a thread"]["tid"] != by_name["after"]["tid"]
    assert [row["tag"] for row in done.run.table("marks")] == ["inside"]
    last = {row["name"]: row["value"] for row in done.run.table("counters")}
    assert last == {"tokens": 25.5, "queue": 3.0, "step": 2.0}


def test_tasks_of_uvloop(loaded, uvloop):
    done = loaded(uvloop, SPANS.replace("import asyncio,", "import asyncio, uvloop,").replace("asyncio.run(main())", "uvloop.run(main())"))
    assert tree(done.run.table("spans")) == PARENTS


def test_text_of_the_page(loaded):
    done = loaded(ONE, re.search(r"```python\n(.*?)```", (TOP / "docs" / "python.md").read_text(), re.DOTALL)[1])
    spans = done.run.table("spans")
    assert tree(spans) == {"request": {None}, "decode": {"request"}}
    assert json.loads(next(row["attributes"] for row in spans if row["name"] == "request")) == {"number": 7, "finished": True}
    last = {row["name"]: row["value"] for row in done.run.table("counters")}
    assert last == {"tokens": 8.0, "step": 8.0, "queue": 2.0}


def test_generators_leave_no_span(loaded):
    """One that is never finished, ones that are used in turns, and one that another thread resumes."""
    done = loaded(ONE, '''\
        import gc, infprof, threading

        @infprof.span("g")
        def g(n):
            with infprof.span(f"in {n}"):
                yield
                with infprof.span(f"deep {n}"): yield
        a, b = g("a"), g("b")
        for one in (a, b, a, b): next(one)
        thread = threading.Thread(target=lambda: next(a, None)); thread.start(); thread.join()
        with infprof.span("between"): next(b, None)
        left = g("left"); next(left); next(left); del left; gc.collect()
        with infprof.span("after"): pass
    ''')
    spans = done.run.table("spans")
    assert tree(spans) == {"g": {None}, "between": {None}, "after": {None}, **{f"in {n}": {"g"} for n in ("a", "b", "left")},
                           **{f"deep {n}": {f"in {n}"} for n in ("a", "b", "left")}}
    assert {row["status"] for row in spans} == {"ok"}


@pytest.mark.parametrize("name", [ONE, *FREE[:1]])
def test_wrong_use_is_refused_alike(python, name):
    """What is wrong raises, whether the process records or not; values that cannot be written never do."""
    python(name, '''\
        import infprof

        class Bad:
            def __str__(self): raise RuntimeError("never seen")
        for on in (False, True):
            if on: infprof.enable()
            assert infprof.is_recording() == on
            for wrong in (lambda: infprof.span(), lambda: infprof.span(1), lambda: infprof.span("a", "b"), lambda: infprof.mark(None),
                          lambda: infprof.counter(3), lambda: infprof.counter("c").add("x"), lambda: infprof.span("a")(3),
                          lambda: infprof.thread_name(b"x")):
                try: wrong()
                except TypeError: pass
                else: raise SystemExit("no TypeError")
            infprof.mark("lone \\udcff surrogate")
            with infprof.span("s", bad=Bad(), self=1) as span:
                span.set(bad=Bad(), **{"\\udcff": "\\udcff"})
                span.text(Bad(), Bad())
                span.fail(Bad())
            infprof.counter("c").add(-1)
            infprof.gauge("c").set(float("nan"))
        infprof.disable()
        assert not infprof.is_recording()
        try: infprof.nothing
        except AttributeError as error: assert "nothing" in str(error)
        assert "span" in dir(infprof)
    ''', INFPROF_RING="0")


def test_nothing_leaks(python):
    """20,000 spans of all kinds, and 1,000 times on and off, take no more memory than the first ones."""
    python(ONE, '''\
        import infprof, gc, resource, sys

        @infprof.span("g")
        def g():
            with infprof.span("in"): yield 1
        def work(n):
            for _ in range(n):
                with infprof.span("a", x=1, text="y"):
                    for _ in g(): pass
                    next(g())
                infprof.counter("c").add(1)
            gc.collect()
        infprof.enable()
        work(1000)
        blocks = sys.getallocatedblocks()
        for _ in range(1000): infprof.disable(); infprof.enable()
        work(5000)
        more = sys.getallocatedblocks() - blocks
        assert more < 200, more
    ''')


def test_after_fork(loaded):
    done = loaded(ONE, '''\
        import infprof, os

        with infprof.span("parent"):
            if os.fork() == 0:
                with infprof.span("child"): infprof.counter("c").add(1)
                os._exit(0)
            os.wait()
            infprof.counter("c").add(5)
    ''')
    spans = done.run.table("spans")
    assert tree(spans) == {"parent": {None}, "child": {"parent"}}
    assert len({row["process"] for row in spans}) == 2
    assert sorted(row["value"] for row in done.run.table("counters")) == [1.0, 5.0]


# ---- tables from inside ----

def test_tables(python):
    done = python(ONE, '''\
        import infprof, json, sys

        infprof.enable()
        for i in range(3):
            with infprof.span("step", number=i): pass
        table = infprof.table("spans")
        rows = table.to_dicts()
        try: infprof.query("SELECT * FROM nothing").to_dicts()
        except RuntimeError as error: print(error, file=sys.stderr)
        print(json.dumps([row["name"] for row in rows]))
        print(infprof.query("SELECT name, count(*) AS n FROM spans GROUP BY ALL").to_bytes()[:4].hex())
    ''')
    names, begin = done.stdout.splitlines()
    assert json.loads(names) == ["step"] * 3 and begin == "ffffffff"  # of an Arrow IPC message
    assert "nothing does not exist" in done.stderr


def test_arrow_libraries_take_tables(package, tmp_path):
    """With the packages of the tests: pyarrow, polars, pandas, duckdb by Arrow's C stream."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent('''\
        import infprof, pandas, polars, pyarrow

        infprof.enable()
        for i in range(3):
            with infprof.span("step"): pass
        table = infprof.query("SELECT name, duration_ns FROM spans ORDER BY t_ns")
        assert pyarrow.table(table).column("name").to_pylist() == ["step"] * 3
        assert polars.DataFrame(table)["duration_ns"].min() >= 0
        assert list(table.to_pandas()["name"]) == list(table.to_polars()["name"]) == ["step"] * 3
        assert isinstance(table.to_pandas(), pandas.DataFrame)
        with infprof.span("later"): pass
        assert table.to_pyarrow().num_rows == 3 and infprof.table("spans").to_pyarrow().num_rows == 4
    '''))
    done = run([sys.executable, program], env={"PYTHONPATH": str(package)})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ALL)
def test_backtrace(python, name):
    done = python(name, '''\
        import infprof, json, threading

        def inner(): return infprof.backtrace()
        def waits(): event.wait()
        event = threading.Event()
        thread = threading.Thread(target=waits, name="waiter"); thread.start()
        while not any(row["func"] == "waits" for row in infprof.backtrace()): pass
        rows = inner()
        event.set()
        print(json.dumps(rows))
    ''')
    rows = json.loads(done.stdout)
    main = [row for row in rows if row["thread"] == "MainThread"]
    assert [(row["func"], row["depth"], row["lineno"]) for row in main] == [("inner", 0, 3), ("<module>", 1, 8)]
    assert {row["frame_type"] for row in rows} == {"Python"} and main[0]["file"].endswith("program.py")
    waiter = {row["func"]: row for row in rows if row["thread"] == "waiter"}
    assert waiter["waits"]["tid"] not in (None, main[0]["tid"])


ROWS = '''\
    from infprof import _core

    rows = _core.open_table("torch_trace", "step module stage duration no_such_column allocated")
    begin = _core.now_ns()
    rows.write(begin, 1, "layers.0", "forward", 0.25, "left out", None)
    rows.write(0, True, "with \\udcff", None, 2)
    rows.write(0, 1 << 70, "", "forward", float("nan"))
    for wrong in ((), ("x",), (0, [1]), (0, *range(33))):
        try: rows.write(*wrong)
        except TypeError: pass
        else: raise SystemExit(f"no TypeError: {wrong}")
    import infprof
    print([[row[name] for name in ("step", "module", "stage", "duration", "allocated")] for row in infprof.table("torch_trace").to_dicts()])
    print(begin)
'''


@pytest.mark.parametrize("name", [ONE, *FREE[:1]])
def test_rows(loaded, name):
    done = loaded(name, ROWS)
    shown, begin = done.stdout.splitlines()
    rows = done.run.table("torch_trace")
    assert [(row["step"], row["module"], row["stage"], row["duration"]) for row in rows[:2]] == [
        (1, "layers.0", "forward", 0.25), (1, "with ?", None, 2.0)]
    assert len(rows) == 3 and rows[2]["step"] is None and rows[2]["module"] == ""
    assert rows[0]["t_ns"] == int(begin) and shown.startswith("[[1, 'layers.0', 'forward', 0.25, None], [1, 'with ?', None, 2.0, None], [None, ")


# ---- started by the recording, with no change of code ----

SHOW = '''\
    import json, sys
    print(json.dumps({"path": [p for p in sys.path if "infprof" in p], "loaded": "infprof" in sys.modules,
                      "site": getattr(sys.modules.get("sitecustomize"), "__file__", None)}))
    import infprof
    infprof.mark("from " + ".".join(map(str, sys.version_info[:2])))
'''


@pytest.mark.parametrize("name", ALL)
def test_start(loaded, name):
    """The program sees neither our folder in sys.path nor our sitecustomize."""
    done = loaded(name, SHOW)
    shown = json.loads(done.stdout)
    assert shown["path"] == [] and shown["loaded"]
    assert not shown["site"] or "infprof" not in shown["site"]
    assert len(done.run.table("marks")) == 1 and not re.search("Error|Warning|not profiled", done.stderr), done.stderr


@pytest.mark.parametrize("path", OLD or [pytest.param(None, marks=pytest.mark.skip(reason="no Python before 3.8 here"))])
def test_old_pythons_run_as_ever(loaded, tmp_path, path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys\nsys.own = 7\n")
    text = "import sys\nassert not [p for p in sys.path if 'infprof' in p], sys.path\nprint(sys.own)\n"
    done = loaded(path, text, environment={"PYTHONPATH": str(tmp_path / "own")})
    assert done.stdout == "7\n"


@pytest.mark.parametrize("name", ALL)
def test_the_users_own_sitecustomize(loaded, tmp_path, name):
    (tmp_path / "own").mkdir()
    own = tmp_path / "own" / "sitecustomize.py"
    own.write_text("import sys\nsys.own = 7\n")
    text = "import sitecustomize, sys\nprint(sys.own, sitecustomize.__file__, 'infprof' in sys.modules)\n"
    done = loaded(name, text, environment={"PYTHONPATH": str(tmp_path / "own")})
    assert done.stdout.split() == ["7", str(own), "True"]


def test_beside_another_tool(loaded, tmp_path):
    """One that starts by a sitecustomize of its own, in front of ours, and runs the next one as ours does."""
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "sitecustomize.py").write_text(textwrap.dedent('''\
        import os, sys
        path, own = sys.path, sys.modules.pop("sitecustomize")
        sys.path = [folder for folder in path if folder != os.path.dirname(__file__)]
        try: import sitecustomize
        except ImportError: sys.modules["sitecustomize"] = own
        finally: sys.path = path
        sys.tool = 7
    '''))
    text = f"PYTHONPATH={tmp_path}/tool:$PYTHONPATH exec {' '.join(PYTHONS[ONE][0])} -c 'import sys; print(sys.tool, \"infprof\" in sys.modules)'\n"
    assert loaded("sh", text).stdout == "7 True\n"


def test_a_sitecustomize_that_fails(loaded, tmp_path):
    """Its error is site.py's to report, as without us; ImportError too."""
    (tmp_path / "own").mkdir()
    for text in ("raise ValueError('of mine')", "import missing_module"):
        (tmp_path / "own" / "sitecustomize.py").write_text(text)
        done = loaded(ONE, "print('runs')", environment={"PYTHONPATH": str(tmp_path / "own")})
        assert done.stdout == "runs\n" and "Error in sitecustomize" in done.stderr


@pytest.mark.parametrize("words, letter", [(["-I"], "I"), (["-E"], "E"), (["-S"], "S"), (["-sE"], "E"), (["-X", "dev", "-I"], "I")])
def test_options_that_refuse(loaded, words, letter):
    done = loaded(ONE, "import sys; print('infprof' in sys.modules)", words=words)
    assert done.stdout == "False\n" and f"with -{letter} " in done.stderr


@pytest.mark.san
def test_sources_name_children_that_are_not_reached(loaded):
    """Where an option is the program's own, or its text's, nothing is said."""
    python = " ".join(PYTHONS[ONE][0])
    done = loaded("sh", f"sleep 0.4; {python} -sI -c 'import time; time.sleep(2)'; {python} -c 'import time; time.sleep(0.3)' -I; "
                        f"{python} -W ignore -c 'import time; time.sleep(0.3)' -S\n")
    (row,) = [row for row in done.run.table("sources") if row["collector"] == "python" and row["instance"]]
    assert row["instance"].endswith(" -I") and row["state"] == "absent" and "was started with -I: it does not load" in row["reason"]


@pytest.mark.parametrize("words", [["-s"], ["-X", "dev"], ["-u", "-B"], ["-OO"]])
def test_options_that_do_not(loaded, words):
    done = loaded(ONE, "import sys; print('infprof' in sys.modules)", words=words)
    assert done.stdout == "True\n" and "does not load" not in done.stderr


CHILDREN = '''\
    import concurrent.futures, multiprocessing, os, subprocess, sys
    import infprof

    def work(name):
        with infprof.span(name): return "infprof" in sys.modules

    if __name__ == "__main__":
        for way in ("spawn", "fork", "forkserver"):
            with multiprocessing.get_context(way).Pool(2) as pool:
                assert all(pool.map(work, [f"pool by {way}"] * 2))
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            assert pool.submit(work, "executor").result()
        text = "import sys; assert 'infprof' in sys.modules; import infprof; infprof.mark({!r})"
        subprocess.run([sys.executable, "-c", text.format("subprocess")], check=True)
        subprocess.run(["sh", "-c", f"{sys.executable} -c \\"{text.format('shell').replace(chr(34), chr(39))}\\""], check=True)
        bare = subprocess.run([sys.executable, "-c", "import sys; print('infprof' in sys.modules)"], env={}, stdout=subprocess.PIPE)
        assert bare.stdout == b"False\\n"
        os.execv(sys.executable, [sys.executable, "-c", text.format("exec")])
'''


# Those of sid start by their loader: sys.executable is None. Of 3.13 without a GIL, which is an experiment, one of some 130 recordings on a
# busy machine had a child that did not end, for a reason that is not known.
@pytest.mark.parametrize("name", [name for name in ALL if "sid" not in name and name not in FREE])
def test_children(loaded, name):
    done = loaded(name, CHILDREN)
    counts = collections.Counter(row["name"] for row in done.run.table("spans"))
    assert counts == {"pool by spawn": 2, "pool by fork": 2, "pool by forkserver": 2, "executor": 1}
    assert sorted(row["tag"] for row in done.run.table("marks")) == ["exec", "shell", "subprocess"]


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    folder = tmp_path_factory.mktemp("venv") / "venv"
    subprocess.run([PYTHONS[ONE][0][0], "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    return folder


def test_in_a_venv(loaded, venv):
    assert json.loads(loaded(str(venv / "bin" / "python"), SHOW).stdout)["loaded"]


def site_packages(venv):
    return next((venv / "lib").glob("python3*/site-packages"))


@pytest.fixture
def installed(package, venv):
    """A venv with the package in it, as pip would leave it: infprof.pth in site-packages, and what it names."""
    folder = site_packages(venv)
    shutil.copy(package / "infprof.pth", folder)
    (folder / "infprof").symlink_to(package / "infprof")
    yield str(venv / "bin" / "python")
    (folder / "infprof").unlink()
    (folder / "infprof.pth").unlink()


def test_the_programs_own_package_goes_first(loaded, installed, package):
    """infprof.pth and the recording both start it: once."""
    done = loaded(installed, "import infprof, sys, probing; print(infprof.__file__, sum(type(f).__name__ == 'AfterImport' for f in sys.meta_path))",
                  "--torch")
    path, n = done.stdout.split()
    assert "site-packages" in path and n == "1"


def test_a_start_imports_nothing(installed):
    """infprof.pth is read by each Python that starts."""
    text = "import sys; print([name for name in sys.modules if 'infprof' in name]); import probing; print(probing.mark)"
    shown = run([installed, "-c", text]).stdout
    assert shown.startswith("[]\n<built-in") or shown.startswith("[]\n<function"), shown


def fake(folder, name, text):
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(textwrap.dedent(text))
    return folder


@pytest.mark.parametrize("variables, is_on", [({"INFPROF_TORCH": "on"}, True), ({"PROBING_TORCH_PROFILING": "0.5"}, True), ({}, False),
                                              ({"INFPROF_TORCH": "off"}, False), ({"INFPROF_TORCH": "0", "PROBING_TORCH_PROFILING": "on"}, False)])
def test_variables_arm_it(installed, variables, is_on):
    text = "import sys; print([f.name for f in sys.meta_path if type(f).__name__ == 'AfterImport'])"
    shown = run([installed, "-c", text], env=variables).stdout
    assert shown == ("['torch']\n" if is_on else "[]\n")
    for words in (["-I"], ["-E"]):
        assert run([installed, *words, "-c", text], env=variables).stdout == "[]\n"


AFTER = '''\
    import importlib.util, sys, traceback
    from infprof._start import AfterImport

    seen = []
    def call():
        seen.append(sys.modules["late"].whole)
    finder = AfterImport("late", call)
    sys.meta_path.insert(0, finder)
    assert importlib.util.find_spec("late").name == "late" and not seen  # as programs ask whether torch is there
    try: import late
    except RuntimeError: pass  # its first import fails
    assert not seen and finder in sys.meta_path
    import late
    assert seen == [True] and finder not in sys.meta_path
    assert late.__spec__.loader is late.__loader__ and "exec_module" not in vars(late.__loader__)
    assert late.__loader__.get_source("late").startswith("import")
    import late.part
    assert late.part.x == 1 and importlib.reload(late) is late and seen == [True]
    missing = AfterImport("missing_one", call)
    sys.meta_path.insert(0, missing)
    try: import missing_one
    except ModuleNotFoundError: pass
    assert importlib.util.find_spec("missing_one") is None
'''


@pytest.mark.parametrize("name", ALL)
def test_after_the_program_imported_it(python, tmp_path, package, name):
    late = fake(tmp_path / "lib", "late", "import sys\nsys.tries = getattr(sys, 'tries', 0) + 1\n"
                                          "if sys.tries == 1: raise RuntimeError('the first time')\nwhole = True\n")
    (late / "late" / "part.py").write_text("x = 1\n")
    python(name, AFTER, PYTHONPATH=f"{package}:{late}")


def test_probing_is_an_alias(loaded, tmp_path):
    done = loaded(ONE, '''\
        import importlib.util, probing, infprof
        assert probing.span is infprof.span and probing.enable_torch_profiling is infprof.enable_torch_profiling
        assert importlib.util.find_spec("probing") and "mark" in dir(probing)
        try: import probing.core
        except ModuleNotFoundError: print("no part of it")
        try: probing.nothing
        except AttributeError: print("no name of it")
    ''')
    assert done.stdout == "no part of it\nno name of it\n"


def test_a_real_probing_goes_first(loaded, tmp_path):
    real = fake(tmp_path / "lib", "probing", "real = True\n")
    assert loaded(ONE, "import probing; print(probing.real)", environment={"PYTHONPATH": str(real)}).stdout == "True\n"


@pytest.mark.san
@pytest.mark.parametrize("words, said", [
    (["--python"], "--python needs a command after --"),
    (["--torch", "--pid", str(os.getpid())], "--torch needs a command after --"),
    (["--python", "inside", "--", "true"], "--python takes its value after an equals sign: --python=inside"),
    (["--torch", "0.5", "--", "true"], "--torch takes its value after an equals sign"),
    (["--torch-budget", "a lot", "--", "true"], "--torch-budget a lot: a percentage as 1%, or a share as 0.01"),
    (["--torch-budget", "120%", "--", "true"], "--torch-budget 120%: a percentage as 1%"),
    (["--python", "--python=maybe", "--", "true"], "--python=maybe: auto, outside, inside or off"),
])
def test_bad_options(record, words, said):
    done = record(*words)
    assert done.returncode == 125 and said in done.stderr and done.run is None


@pytest.mark.san
def test_both_ways_of_the_option(loaded):
    done = loaded(ONE, "import sys; print('infprof' in sys.modules)", "--python", "--cpu", "--python=off")
    assert done.stdout == "True\n"


def test_torch_sets_its_variable(loaded):
    text = "import os, sys; print(os.environ['INFPROF_TORCH'], any(type(f).__name__ == 'AfterImport' for f in sys.meta_path))"
    assert loaded(ONE, text, "--torch").stdout == "on True\n"
    assert loaded(ONE, text, "--torch-budget", "2%").stdout == "on,budget=2% True\n"
    assert loaded(ONE, text, "--torch=0.5", "--torch-budget=0.01").stdout == "0.5,budget=0.01 True\n"
    assert loaded(ONE, text, "--torch=rate0.5", environment={"INFPROF_TORCH": "off"}).stdout == "rate0.5 True\n"


def test_without_the_extension(infprof, package, tmp_path, run_dir):
    """As built where Python.h is missing: by ctypes, and doctor says so."""
    (tmp_path / "build").mkdir()
    build = pathlib.Path(infprof).parent
    for name in ("infprof", "libinfprof.so"):
        shutil.copy(build / name, tmp_path / "build")
    shutil.copytree(package, tmp_path / "build" / "python", ignore=shutil.ignore_patterns("_native*", "__pycache__"))
    text = "import infprof; infprof.mark('by ctypes'); print(infprof.span.__module__, infprof.counter('c').add(1))"
    done = run([tmp_path / "build" / "infprof", "record", "--no-finish", "--python", "-o", run_dir, "--", *PYTHONS[ONE][0], "-c", text])
    assert done.stdout == "infprof._by_ctypes None\n", done.stderr
    assert [row["tag"] for row in run_dir.run().table("marks")] == ["by ctypes"]
    shown = re.sub(r"\s+", " ", run([tmp_path / "build" / "infprof", "doctor"]).stdout)
    assert "it has no extension in C" in shown and "python3-dev" in shown


def test_without_the_package(infprof, tmp_path, run_dir):
    """A program that was copied alone says what is missing, and runs the command all the same."""
    (tmp_path / "bin").mkdir()
    shutil.copy(infprof, tmp_path / "bin")
    done = run([tmp_path / "bin" / "infprof", "record", "--no-finish", "--python", "-o", run_dir, "--", "echo", "runs"])
    assert done.returncode == 0 and done.stdout == "runs\n"
    assert "sitecustomize.py is missing: install infprof again" in done.stderr
    assert "sitecustomize.py is missing" in re.sub(r"\s+", " ", run([tmp_path / "bin" / "infprof", "doctor"]).stdout)


# ---- into a running Python ----

REMOTE = [name for name in ALL if re.search(r"3\.1[4-9]", name)]


@pytest.fixture
def running(tmp_path, spawn):
    """running(name, text): a program that has written "ready"; killed at the end."""
    def call(name, text, **environment):
        program = tmp_path / "running.py"
        program.write_text(textwrap.dedent(text))
        own, needed = PYTHONS[name]
        process = spawn(*own, program, env={**os.environ, **needed, **environment})
        assert process.stdout.readline() == "ready\n"
        return process

    return call


LOOPS = '''\
    import sys, time
    print("ready", flush=True)
    while "infprof" not in sys.modules: time.sleep(0.01)
    infprof = sys.modules["infprof"]
    infprof.mark("attached")
    print(infprof.is_recording(), [p for p in sys.path if p.endswith("/python")], flush=True)
    while True: time.sleep(0.01)
'''


def attach(name, package, *words, **environment):
    own, needed = PYTHONS[name]
    return run([*own, "-m", "infprof", *words], env={"PYTHONPATH": str(package), **needed, **environment})


@pytest.mark.skipif(not REMOTE, reason="no Python 3.14 or later")
def test_attach(running, package, infprof):
    process = running(REMOTE[0], LOOPS, INFPROF_RING="0")
    done = attach(REMOTE[0], package, "--attach", process.pid)
    assert (done.returncode, done.stderr) == (0, "")
    assert process.stdout.readline() == "True []\n"
    shown = run([infprof, "query", "--pid", process.pid, "--json", "SELECT tag FROM marks"])
    assert json.loads(shown.stdout) == [{"tag": "attached"}], shown.stderr
    again = attach(REMOTE[0], package, "--attach", process.pid, "--torch")
    assert (again.returncode, again.stderr) == (0, "")


@pytest.mark.skipif(not REMOTE, reason="no Python 3.14 or later")
def test_attach_says_why_not(running, package, tmp_path):
    """A process that refuses, a main thread that runs no Python, a package that fails there, a process that is not there."""
    environment = {"TMPDIR": str(tmp_path)}
    process = running(REMOTE[0], LOOPS, INFPROF_RING="0", PYTHON_DISABLE_REMOTE_DEBUG="1")
    done = attach(REMOTE[0], package, "--attach", process.pid, **environment)
    assert done.returncode == 1 and done.stderr.startswith("infprof: ") and "Traceback" not in done.stderr, done.stderr
    assert not list(tmp_path.glob("infprof-attach-*"))
    process = running(REMOTE[0], "import sys\nprint('ready', flush=True)\nsys.stdin.read()\n", INFPROF_RING="0")
    text = f"import infprof\ntry: infprof.attach({process.pid}, seconds=0.3)\nexcept TimeoutError as error: print(error)\n"
    own, needed = PYTHONS[REMOTE[0]]
    done = run([*own, "-c", text], env={"PYTHONPATH": str(package), **needed, **environment})
    assert "has run no Python for 0.3 s" in done.stdout, done.stderr
    process = running(REMOTE[0], LOOPS, INFPROF_RING="0", INFPROF_RING_BYTES="4M")
    broken = tmp_path / "broken"
    shutil.copytree(package, broken, ignore=shutil.ignore_patterns("*.so.p", "__pycache__"))
    (broken / "infprof" / "_attached.py").write_text("def begin(torch): raise ValueError('broken here')\n")
    done = attach(REMOTE[0], broken, "--attach", process.pid, **environment)
    assert done.returncode == 1 and "says: ValueError: broken here" in done.stderr
    assert process.poll() is None
    done = attach(REMOTE[0], package, "--attach", 2**22 + 1, **environment)
    assert done.returncode == 1 and "there is no process 4194305" in done.stderr


def test_older_ones_are_refused(package):
    name = next(name for name in ALL if name not in REMOTE)
    done = attach(name, package, "--attach", os.getpid())
    assert done.returncode == 1 and "takes 3.14 or later; start the program by" in done.stderr and done.stderr.count("\n") == 1


# ---- the mission's entry ----

@pytest.mark.parametrize("words", [
    "python3 -m src.main --file_to_run test_cases.projects.general.0.sleep --is_module --script_args 0.3",
    "python3 -m src.main --file_to_run test_cases/projects/general/0/sleep.py --language python --script_args 0.3",
    "python3 -m infprof --file_to_run test_cases/projects/general/0/sleep.py --script_args 0.3",
])
def test_lines_of_the_document(package, run_dir, tmp_path, words):
    """As they are written there, in examples/."""
    shutil.copytree(TOP / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("profiler-output"))
    done = run(["sh", "-c", words], cwd=tmp_path / "examples", env={"PYTHONPATH": str(package)})
    assert done.returncode == 0, done.stderr
    labels = re.findall(r"measure_label-(\w+): ", done.stdout)
    assert labels == ["begin", "sleep", "end"]
    output = tmp_path / "examples" / "profiler-output"
    (info,) = [json.loads(path.read_text()) for path in output.glob("*.infprof/run.json")]
    assert info["period_ms"] == 50, info
    assert next(output.glob("*_output.txt")).read_text() == done.stdout


def test_the_line_without_arguments(package, tmp_path):
    """The first example, word for word: the program sleeps for a second."""
    shutil.copytree(TOP / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("profiler-output"))
    done = run(["sh", "-c", "python3 -m src.main --file_to_run test_cases.projects.general.0.sleep --is_module"], cwd=tmp_path / "examples",
               env={"PYTHONPATH": str(package)})
    assert done.returncode == 0 and "measure_label-end: " in done.stdout, done.stderr


def test_codes_and_other_verbs(package, tmp_path):
    environment = {"PYTHONPATH": str(package)}
    (tmp_path / "fails.py").write_text("import sys; sys.exit(int(sys.argv[1]))\n")
    done = run([sys.executable, "-m", "infprof", "--file_to_run", "fails.py", "--script_args", "7"], cwd=tmp_path, env=environment)
    assert done.returncode == 7, done.stderr
    done = run([sys.executable, "-m", "infprof", "--file_to_run", shutil.which("true"), "--language", "c"], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    done = run([sys.executable, "-m", "infprof", "help"], env=environment)
    assert done.returncode == 0 and "verbs:" in done.stdout
    done = run([sys.executable, "-m", "infprof"], env=environment)
    assert done.returncode == 2 and "--file_to_run" in done.stderr
    done = run([sys.executable, "-m", "infprof", "help"], env={**environment, "INFPROF": "/nowhere/infprof"})
    assert done.returncode == 1 and done.stderr == "infprof: /nowhere/infprof cannot be run: No such file or directory\n"


def test_it_is_installed(infprof, tmp_path, run_dir):
    meson = TOP / ".deps" / "venv" / "bin" / "meson"
    done = run([meson, "install", "-C", pathlib.Path(infprof).parent, "--no-rebuild", "--skip-subprojects", "--destdir", tmp_path / "root"])
    assert done.returncode == 0, done.stdout
    (program,) = (tmp_path / "root").rglob("bin/infprof")
    (start,) = (tmp_path / "root").rglob("infprof/python/infprof/start/sitecustomize.py")
    text = "import infprof; from infprof import _place; infprof.mark('m'); print(infprof.__file__, _place.program(), next(_place.libraries()))"
    done = run([program, "record", "--no-finish", "--python", "-o", run_dir, "--", *PYTHONS[ONE][0], "-c", text], env={"INFPROF": ""})
    package, found, library = done.stdout.split()
    assert package == str(start.parents[1] / "__init__.py") and found == str(program)
    assert os.path.basename(library) == "libinfprof.so.1" and library.startswith(str(tmp_path))
    assert [row["tag"] for row in run_dir.run().table("marks")] == ["m"]
