"""The public API as its users have it: examples and the text of docs/api.md, compiled by both compilers in all ways to link, run
with and without a recorder, with and without the library."""
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from waiting import wait_for

TOP = pathlib.Path(__file__).resolve().parents[2]
TEXT = (TOP / "docs" / "api.md").read_text()
HEADER = TOP / "include" / "infprof" / "infprof.h"
COMPILERS = {"gcc": ("gcc", "g++"), "clang": ("clang-14", "clang++-14")}
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Werror"]


@pytest.fixture(scope="session")
def build(infprof):
    return pathlib.Path(infprof).parent


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def compile_one(source, program, build, maker="gcc", how="so", more=()):
    """Strict C99 or C++11, by its suffix; how: so, a, static, lazy, none."""
    is_c = str(source).endswith(".c")
    words = [COMPILERS[maker][0 if is_c else 1], "-std=c99" if is_c else "-std=c++11", *WARNINGS, "-I", str(TOP / "include"),
             str(source), "-o", str(program), *more]
    words += {"so": ["-L", str(build), "-linfprof", "-pthread"],
              "a": [str(build / "libinfprof.a"), "-pthread"],
              "static": ["-static", str(build / "libinfprof.a"), "-pthread"],
              "lazy": ["-DINFP_LAZY", "-ldl", "-pthread"], "none": ["-ldl"]}[how]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    return str(program)


@pytest.fixture(scope="session")
def server(build, tmp_path_factory):
    """The example of a server, with all that it needs in it."""
    return compile_one(TOP / "examples" / "serve.cc", tmp_path_factory.mktemp("api") / "serve", build, how="a")


def run(program, *words, library=None, **variables):
    environment = {key: value for key, value in os.environ.items() if key not in ("INFPROF_RING", "INFPROF_RUN", "LD_LIBRARY_PATH")}
    environment.update({"LD_LIBRARY_PATH": str(library)} if library else {}, **variables)
    return subprocess.run([str(program), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                          timeout=60)


@pytest.mark.parametrize("how", ["so", "a", "lazy"])
@pytest.mark.parametrize("maker", COMPILERS)
def test_examples_compile_and_run(build, tmp_path, rings, maker, how):
    if not shutil.which(COMPILERS[maker][1]):
        pytest.skip(f"{COMPILERS[maker][1]} is not here")
    for source, words in (("steps.c", [2]), ("serve.cc", [0.2, 2])):
        program = compile_one(TOP / "examples" / source, tmp_path / "program", build, maker, how)
        library = None if how == "a" else build
        off = run(program, *words, library=library)
        assert off.returncode == 0 and ", not recorded" in off.stdout, off
        on = run(program, *words, library=library, INFPROF_RING=str(rings))
        assert on.returncode == 0 and ", recorded" in on.stdout, on
        assert not list(rings.iterdir())  # gone in order
        if how == "lazy":
            alone = run(program, *words, INFPROF_RING=str(rings))
            assert alone.returncode == 0 and ", not recorded" in alone.stdout, alone


@pytest.mark.parametrize("value,recorded", [("0", False), ("", False), ("1", True), ("yes", True)])
def test_the_environment_decides(build, tmp_path, value, recorded):
    program = compile_one(TOP / "examples" / "steps.c", tmp_path / "program", build, how="a")
    done = run(program, 1, INFPROF_RING=value)
    assert (", recorded" in done.stdout) == recorded


def test_static_program(build, tmp_path, rings):
    program = compile_one(TOP / "examples" / "steps.c", tmp_path / "program", build, how="static")
    assert ", recorded" in run(program, 1, INFPROF_RING=str(rings)).stdout


def test_text_of_the_page(build, tmp_path, rings):
    programs = [(text, ".c") for text in blocks("c")] + [(text, ".cc") for text in blocks("cpp")]
    assert len(programs) == 4
    for (text, suffix), how in itertools.product(programs, ("a", "lazy")):
        source = tmp_path / f"page{suffix}"
        source.write_text(text)
        done = run(compile_one(source, tmp_path / "page", build, how=how), INFPROF_RING=str(rings))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_only_the_api_is_exported(build):
    shown = subprocess.run(["nm", "-D", "--defined-only", build / "libinfprof.so"], stdout=subprocess.PIPE, text=True, check=True).stdout
    exported = {line.split()[-1] for line in shown.splitlines()}
    declared = set(re.findall(r"^INFP_API .*?\b(infp_\w+)\(", HEADER.read_text(), re.MULTILINE))
    assert exported == declared and len(declared) == 27
    needed = subprocess.run(["readelf", "-d", build / "libinfprof.so"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", needed) in (["libc.so.6"], ["libc.so.6", "ld-linux-x86-64.so.2"])
    assert re.findall(r"SONAME.*\[(.*)\]", needed) == ["libinfprof.so.1"]
    # Nothing in the archive takes a name that a program could have.
    shown = subprocess.run(["nm", "--defined-only", "-g", build / "libinfprof.a"], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = {line.split()[-1] for line in shown.splitlines() if len(line.split()) == 3}
    assert names and all(name.startswith("infp_") for name in names), names


def test_two_files_of_one_lazy_program(build, tmp_path, rings):
    """The table of functions is one for the program; both files compile as what they are."""
    (tmp_path / "a.c").write_text('#define INFP_LAZY\n#include <infprof/infprof.h>\nint other(void);\n'
                                  'int main(void) { infp_mark("a"); return infp_is_recording() + 2 * other(); }\n')
    (tmp_path / "b.c").write_text('#define INFP_LAZY\n#include <infprof/infprof.h>\nint other(void);\n'
                                  'int other(void) { infp_mark("b"); return infp_is_recording(); }\n')
    program = compile_one(tmp_path / "a.c", tmp_path / "two", build, how="none", more=[str(tmp_path / "b.c")])
    assert run(program, library=build, INFPROF_RING=str(rings)).returncode == 3
    assert run(program, INFPROF_RING=str(rings)).returncode == 0


def test_a_library_without_the_newest_calls_does_the_rest(build, tmp_path):
    """Loaded by a program that was made with a newer header."""
    declared = re.findall(r"^INFP_API .*?\b(infp_\w+)\(", HEADER.read_text(), re.MULTILINE)
    older = [name for name in declared if name not in ("infp_table_open", "infp_row") and "_setting" not in name]
    (tmp_path / "older.c").write_text("".join(f"int {name}(void);\nint {name}(void) {{ return 7; }}\n" for name in set(older)))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "libinfprof.so.1", tmp_path / "older.c"], check=True, timeout=60)
    (tmp_path / "program.c").write_text('#include <infprof/infprof.h>\nint main(void)\n{\n        infp_cell cell = { INFP_CELL_INT, 0, { 0 } };\n'
                                        '        infp_table *table = infp_table_open("torch_trace", "seq");\n\n'
                                        '        infp_row(table, 0, &cell, 1);\n        return infp_enable() + (table || infp_settings_asked() ? 100 : 0);\n}\n')
    program = compile_one(tmp_path / "program.c", tmp_path / "program", build, how="lazy")
    assert run(program, library=tmp_path).returncode == 7


def test_installed_files_work(build, tmp_path, rings):
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not here")
    meson = TOP / ".deps" / "venv" / "bin" / "meson"
    done = subprocess.run([meson, "install", "-C", build, "--no-rebuild", "--skip-subprojects", "--destdir", tmp_path / "root"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    found = list((tmp_path / "root").rglob("infprof.pc"))
    assert len(found) == 1
    environment = {**os.environ, "PKG_CONFIG_PATH": str(found[0].parent), "PKG_CONFIG_SYSROOT_DIR": str(tmp_path / "root")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "infprof"], stdout=subprocess.PIPE, text=True, check=True,
                           env=environment).stdout.split()
    program = tmp_path / "program"
    subprocess.run(["gcc", "-std=c99", TOP / "examples" / "steps.c", "-o", program, *flags], check=True, timeout=60)
    assert ", recorded" in run(program, 1, library=found[0].parent.parent, INFPROF_RING=str(rings)).stdout
    assert {"libinfprof.so", "libinfprof.so.1", "libinfprof.a"} <= {path.name for path in found[0].parent.parent.iterdir()}


def test_server_is_recorded(server, record):
    """The example of a server below record: every request with its queue, every step with its parts."""
    done = record("-t", "200", "--no-finish", command=[server, 1.5, 4])
    assert done.returncode == 0 and ", recorded" in done.stdout
    marks = [row["tag"] for row in done.run.table("marks") if row["source"] == "api"]
    assert marks == ["light load", "heavy load", "drained"]
    spans = done.run.table("spans")
    by_id = {row["span"]: row for row in spans}
    assert len(by_id) == len(spans) and all(0 < row["span"] < 2**63 for row in spans)
    chats = [row for row in spans if row["name"] == "chat toy-1b"]
    queued = [row for row in spans if row["name"] == "queue"]
    assert len(chats) == len(queued) >= 4
    for row in queued:
        parent = by_id[row["parent"]]
        assert parent["name"] == "chat toy-1b" and parent["t_ns"] <= row["t_ns"]
        assert row["duration_ns"] <= parent["duration_ns"] and row["end_tid"] != row["tid"]
    for row in spans:
        if row["name"] in ("forward", "sample"):
            assert by_id[row["parent"]]["name"] == "step"
    assert {row["thread"] for row in spans if row["name"] == "step"} == {"scheduler"}
    made = 0
    for row in chats:
        attributes = json.loads(row["attributes"])
        assert attributes["gen_ai.request.model"] == "toy-1b" and row["status"] in ("ok", "error")
        assert row["thread"].startswith("client ") and (row["status"] == "error") == ("error.type" in attributes)
        made += attributes["gen_ai.usage.output_tokens"]
    counters = done.run.table("counters")
    assert max(row["value"] for row in counters if row["name"] == "serve.requests") == len(chats)
    assert max(row["value"] for row in counters if row["name"] == "serve.tokens") == made
    steps = [row["value"] for row in counters if row["name"] == "step"]
    assert steps == sorted(steps) and steps[-1] == sum(row["name"] == "step" for row in spans)


def test_python_of_the_page(build, record, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(build))
    done = record("-t", "100", "--no-finish", command=["python3", "-c", blocks("python")[0]])
    assert done.returncode == 0, done.stderr
    assert [row["tag"] for row in done.run.table("marks")] == ["python begins"]
    (span,) = done.run.table("spans")
    assert span["name"] == "step" and json.loads(span["attributes"]) == {"gen_ai.request.model": "tiny"}
    assert [(row["name"], row["value"]) for row in done.run.table("counters")] == [("tokens", 8.0)]


LIVES = """
#define _POSIX_C_SOURCE 200809L
#include <infprof/infprof.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
        (void) argc;
        if (strcmp(argv[1], "exec") == 0) {
                infp_mark("before exec");
                argv[1] = "after";
                execv(argv[0], argv);
        } else if (strcmp(argv[1], "after") == 0) {
                infp_mark("after exec");
                if (fork() == 0) {
                        infp_mark("child");
                        exit(0);
                }
                wait(NULL);
        } else if (strcmp(argv[1], "killed") == 0) {
                infp_mark("killed soon");
                raise(9);
        }
        return 0;
}
"""


def test_exec_and_fork_and_kill(build, record, tmp_path):
    (tmp_path / "lives.c").write_text(LIVES.replace("<stdlib.h>", "<signal.h>\n#include <stdlib.h>"))
    program = compile_one(tmp_path / "lives.c", tmp_path / "lives", build, how="a")
    done = record("-t", "100", "--no-finish", command=["sh", "-c", f"{program} exec; {program} killed; sleep 0.3"])
    marks = sorted(row["tag"] for row in done.run.table("marks"))
    assert marks == ["after exec", "before exec", "child", "killed soon"]


def test_pid_of_a_program_without_recorder(infprof, server):
    process = subprocess.Popen([server, "20", "2"], stdout=subprocess.DEVNULL)
    try:
        def ask():
            done = subprocess.run([infprof, "query", "--json", "--pid", str(process.pid), "SELECT DISTINCT name FROM spans"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
            return {row["name"] for row in json.loads(done.stdout)} if done.returncode == 0 else set()

        wait_for(lambda: {"chat toy-1b", "queue", "prefill", "step", "forward", "sample"} <= ask(), "spans of the process")
    finally:
        process.kill()
        process.wait()
