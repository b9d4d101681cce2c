"""`infprof symbolize`, and the naming at the end of a recording: which names win, what is said of files that cannot name, and that a
file which crashes or holds up its reader costs names alone."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import Run
from test_symbols import GET, LINES, SOURCE, symbol

LIBDW = pathlib.Path(__file__).resolve().parents[2] / "src" / "symbols" / "dwarf.c"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A program with debug information."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "box.cc").write_text(SOURCE)
    subprocess.run(["g++", "-O2", "-g", "-fno-ipa-sra", "-o", "box", "box.cc"], cwd=folder, check=True)
    return folder / "box"


def build_id_of(path):
    return re.search(r"Build ID: (\w+)", subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout)[1]


def stripped_copy(whole, folder):
    folder.mkdir(exist_ok=True)
    subprocess.run(["strip", "-o", folder / "box", whole], check=True)
    return folder / "box"


def make_run(infprof, output, lines):
    """A run that has ended, with frames `kind|object|build id|address|name of the recorder`."""
    tool = pathlib.Path(infprof).parent / "tests" / "unit" / "frames_tool"
    if not tool.exists():
        pytest.skip(f"{tool} is not built: configure with -Dtests=true")
    subprocess.run([tool, output], input="".join(line + "\n" for line in lines), text=True, check=True, stdout=subprocess.DEVNULL)
    return Run(output)


def native(path, address, build_id=None, name=""):
    return f"native|{path}|{build_id_of(path) if build_id is None else build_id}|{address:x}|{name}"


def run_verb(infprof, verb, *arguments, code=0, **environment):
    done = subprocess.run([infprof, verb, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)
    assert done.returncode == code, done.stderr
    return done


def symbolize(infprof, run, *arguments, **environment):
    return json.loads(run_verb(infprof, "symbolize", "-r", run.output, "--json", *arguments, **environment).stdout)


def names(run):
    """{frame id: its last set of rows}; a row of level 0 begins a set."""
    sets = {}
    for row in run.table("symbols"):
        if row["sLevel"] == 0:
            sets[row["frame"]] = []
        sets[row["frame"]].append(row)
    return sets


def named(run):
    """{(object, address): rows}."""
    sets = names(run)
    return {(frame["fObject"], frame["fAddress"]): sets.get(frame["id"], []) for frame in run.table("frames")}


def get_addresses(whole):
    begin, size = symbol(whole, GET)
    return range(begin, begin + size, 3)


@pytest.mark.san
def test_finish_names_code(infprof, whole, tmp_path):
    run = make_run(infprof, tmp_path / "out", [native(whole, address) for address in get_addresses(whole)])
    run_verb(infprof, "finish", "-r", run.output)
    found = named(run)
    assert all(rows[0]["sName"] == "acme::Box<int>::get" and rows[0]["sMangled"] == GET for rows in found.values())
    deepest = max(found.values(), key=len)
    assert [row["sName"] for row in deepest] == ["acme::Box<int>::get", "acme::middle", "acme::leaf"]
    assert [row["sLevel"] for row in deepest] == [0, 1, 2]
    assert [row["sLine"] for row in deepest][:2] == [LINES["get"], LINES["middle"]]
    assert deepest[0]["sFrom"] == "symtab" and deepest[1]["sFrom"] == "dwarf"
    assert run.table("sources") == []
    before = len(run.table("symbols"))
    run_verb(infprof, "finish", "-r", run.output)  # again: nothing is named twice
    assert len(run.table("symbols")) == before


def test_better_files_replace_ranges(infprof, whole, tmp_path):
    box = stripped_copy(whole, tmp_path / "bin")
    run = make_run(infprof, tmp_path / "out", [native(box, address) for address in get_addresses(whole)])
    said = run_verb(infprof, "finish", "-r", run.output).stderr
    begin = symbol(whole, GET)[0]
    assert {rows[0]["sName"] for rows in named(run).values()} == {f"[box+0x{begin:x}]"}
    assert "have no symbol name (shown as [lib+offset])" in said and "--debug-dir" in said and run.uuid in said
    absent = run.table("sources")
    assert [(row["collector"], row["state"], row["table_name"]) for row in absent] == [("symbols", "absent", "symbols")]
    (tmp_path / "debug").mkdir()
    shutil.copy(whole, tmp_path / "debug" / "box")
    result = symbolize(infprof, run, "--debug-dir", tmp_path / "debug")
    assert result["written"] == result["frames"] == result["named"] == result["lines"] and result["ranges"] == 0
    assert result["objects"][0]["debug_file"] == str(tmp_path / "debug" / "box")
    assert {rows[0]["sName"] for rows in named(run).values()} == {"acme::Box<int>::get"}
    assert max(len(rows) for rows in named(run).values()) == 3
    assert all(path.suffix == ".csv" or path.suffix == ".parquet" for path in run.segments("symbols") if "DUCKDB" in os.environ)
    again = symbolize(infprof, run)  # without the directory nothing gets worse
    assert again["written"] == 0 and again["named"] == result["named"]


def test_what_the_recorder_named_is_demangled_and_completed(infprof, whole, tmp_path):
    run = make_run(infprof, tmp_path / "out", [native("/gone.so", 16, "00aa", "_ZN3foo3barEv"), native("/gone.so", 32, "00aa", "plain"),
                                               native(whole, symbol(whole, GET)[0], None, GET), "jit|[anon]||7000|_ZN1a1bEv"])
    said = run_verb(infprof, "finish", "-r", run.output).stderr
    found = {place: (rows[0]["sName"], rows[0]["sMangled"], rows[0]["sFile"]) for place, rows in named(run).items()}
    assert found == {("/gone.so", 16): ("foo::bar", "_ZN3foo3barEv", None), ("/gone.so", 32): ("plain", None, None),
                     (str(whole), symbol(whole, GET)[0]): ("acme::Box<int>::get", GET, str(whole.parent / "box.cc")),
                     ("[anon]", 0x7000): ("a::b", "_ZN1a1bEv", None)}
    assert "gone.so" not in said  # all of it has names


def test_files_that_are_not_what_ran(infprof, whole, tmp_path):
    nameless = tmp_path / "nameless"
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", whole, nameless], check=True)
    address = symbol(whole, GET)[0]
    run = make_run(infprof, tmp_path / "out", [native(whole, address, "0011223344"), native(tmp_path / "gone", address, "00aa"),
                                               native(nameless, address, "")])
    os.utime(nameless)  # changed since the run began
    said = run_verb(infprof, "finish", "-r", run.output).stderr
    assert all(rows == [] for rows in named(run).values())
    reasons = {row["instance"]: (row["state"], row["reason"]) for row in run.table("sources")}
    assert reasons[str(whole)][0] == "broken" and "build id differs" in reasons[str(whole)][1]
    assert reasons[str(tmp_path / "gone")][0] == "absent"
    assert "has changed since it ran" in reasons[str(nameless)][1]
    assert all(reason in said for _, reason in reasons.values())


def test_frames_of_another_machine(infprof, whole, tmp_path):
    """Files are told by their build id alone; the kernel is nowhere else."""
    nameless = tmp_path / "nameless"
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", whole, nameless], check=True)
    address = symbol(whole, GET)[0]
    run = make_run(infprof, tmp_path / "out", ["kernel|[kernel]||ffffffff81200000|", native(nameless, address, ""), native(whole, address)])
    info = json.loads((run.path / "run.json").read_text())
    info["boot_id"] = "00000000-0000-0000-0000-000000000000"
    (run.path / "run.json").write_text(json.dumps(info))
    said = run_verb(infprof, "finish", "-r", run.output).stderr
    found = named(run)
    assert "another boot" in said and "recorded on another machine" in said
    assert found["[kernel]", 0xffffffff81200000] == found[str(nameless), address] == []
    assert found[str(whole), address][0]["sName"] == "acme::Box<int>::get"


def test_kernel_frames(infprof, tmp_path):
    with open("/proc/kallsyms") as file:
        shown = [line.split() for line in file if line.split()[1] in "tT" and not line.startswith("0000000000000000")]
    functions = [words for words in shown if words[2] == "schedule" and len(words) == 3]
    address = int(functions[0][0], 16) if functions else 0xffffffff81200000
    run = make_run(infprof, tmp_path / "out", [f"kernel|[kernel]||{address + 1:x}|"])
    said = run_verb(infprof, "finish", "-r", run.output).stderr
    rows = named(run)["[kernel]", address + 1]
    if functions:
        assert [(row["sName"], row["sFrom"]) for row in rows] == [("schedule", "kallsyms")]
    else:
        assert rows == [] and said.count("kernel hides its addresses") == 1
        assert [row["state"] for row in run.table("sources")] == ["denied"]


def fake_libdw(folder, body):
    """A libdw.so.1 whose reading of DWARF does what a hostile file would make it do."""
    functions = re.findall(r"F\((dw\w+)\)", LIBDW.read_text())
    assert "dwarf_begin_elf" in functions
    text = "#include <stdlib.h>\n" + "".join(f"long {name}() {{ return 0; }}\n" for name in functions if name != "dwarf_begin_elf")
    folder.mkdir()
    (folder / "dw.c").write_text(text + f"long dwarf_begin_elf() {{ {body} }}\n")
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-o", folder / "libdw.so.1", folder / "dw.c"], check=True)
    return folder


@pytest.mark.parametrize("body, why", [("abort();", "its reader crashed"), ("for (;;) __asm__ volatile(\"\");", "reader crashed|minute of CPU")],
                         ids=["crash", "spin"])
def test_a_file_that_harms_its_reader_costs_lines_alone(infprof, whole, tmp_path, body, why):
    address = symbol(whole, GET)[0]
    run = make_run(infprof, tmp_path / "out", [native(whole, address), native("/usr/bin/env", 1, "00aa")])
    folder = fake_libdw(tmp_path / "fake", body)
    done = subprocess.run(["prlimit", "--cpu=1", infprof, "finish", "-r", run.output], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
    assert done.returncode == 0, done.stderr
    rows = named(run)[str(whole), address]
    assert [(row["sName"], row["sFile"], row["sFrom"]) for row in rows] == [("acme::Box<int>::get", None, "symtab")]
    assert re.search(f"{re.escape(str(whole))}: .*({why}).*has no lines", done.stderr), done.stderr
    assert "/usr/bin/env is not the file" in done.stderr  # it went on with the next
    result = symbolize(infprof, run)  # with the real library
    assert result["lines"] == 1 and named(run)[str(whole), address][0]["sFile"]


def test_without_libdw_there_are_names(infprof, whole, tmp_path):
    address = symbol(whole, GET)[0]
    run = make_run(infprof, tmp_path / "out", [native(whole, address)])
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "libdw.so.1").write_text("no library")
    done = run_verb(infprof, "finish", "-r", run.output, LD_LIBRARY_PATH=str(tmp_path / "none"))
    if named(run)[str(whole), address][0]["sFile"]:
        pytest.skip("the loader went on to the real libdw.so.1")
    assert named(run)[str(whole), address][0]["sName"] == "acme::Box<int>::get"
    assert "libdw" in done.stderr


def test_broken_debug_information_ends(infprof, whole, tmp_path):
    """Bytes of .debug_* sections are overwritten here and there: names come all the same."""
    out = subprocess.run(["readelf", "-SW", whole], capture_output=True, text=True, check=True).stdout
    sections = [(int(at, 16), int(size, 16)) for at, size in re.findall(r"\.debug_(?:info|abbrev|line|str)\s+PROGBITS\s+\S+\s+(\S+)\s+(\S+)", out)]
    assert len(sections) == 4
    lines = []
    for seed in range(24):
        broken = tmp_path / f"box{seed}"
        data = bytearray(whole.read_bytes())
        at, size = sections[seed % 4]
        for i in range(seed % 5 + 1):
            where = at + (seed * 7919 + i * 104729) % size
            data[where] = (data[where] + 1 + seed * 37) % 256
        broken.write_bytes(data)
        lines.append(native(broken, symbol(whole, GET)[0]))
    run = make_run(infprof, tmp_path / "out", lines)
    run_verb(infprof, "finish", "-r", run.output)
    assert {rows[0]["sName"] for rows in named(run).values()} == {"acme::Box<int>::get"}


def test_hostile_names_are_shown_as_text(infprof, tmp_path):
    (tmp_path / "a.c").write_text("void evil_12345_name(void) {}\n")
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", tmp_path / "a.so", tmp_path / "a.c"], check=True)
    address = symbol(tmp_path / "a.so", "evil_12345_name")[0]
    data = (tmp_path / "a.so").read_bytes()
    (tmp_path / "a.so").write_bytes(data.replace(b"evil_12345_name", b"evil\x1b[31m\n_name"))
    run = make_run(infprof, tmp_path / "out", [native(tmp_path / "a.so", address)])
    run_verb(infprof, "finish", "-r", run.output)
    [[row]] = named(run).values()
    assert row["sName"] == "evil\\x1B[31m\\x0A_name"


def test_code_made_at_run_time_without_names(infprof, tmp_path):
    run = make_run(infprof, tmp_path / "out", ["jit|[anon]||7000|", "jit|[anon]||8000|named"])
    assert "1 of 2 code addresses were generated at run time and have no name; have the program write a perf map" in run_verb(
        infprof, "finish", "-r", run.output).stderr
    assert [(row["instance"], row["state"]) for row in run.table("sources")] == [("jit", "absent")]


@pytest.mark.parametrize("path, right, wrong", [("/opt/lib/libtorch_cpu.so.2", "(oneDNN: ONEDNN_JIT_PROFILE=2; `record --jit-names` sets these)", "Java"),
                                                ("/usr/bin/node", "(Node.js: --perf-basic-prof; `record --jit-names` sets these)", "oneDNN"),
                                                ("/usr/lib/libjvm.so", "(Java: perf-map-agent, or -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit of JDK 17 and later)", "jit-names"),
                                                ("/usr/bin/nodeless", "Julia: ENABLE_JITPROFILING=1; Python functions of 3.12 and later: -X perf", "(Node.js")])
def test_advice_fits_what_is_loaded(infprof, tmp_path, path, right, wrong):
    run = make_run(infprof, tmp_path / "out", ["jit|[anon]||7000|", f"native|{path}||1000|"])
    said = next(line for line in run_verb(infprof, "finish", "-r", run.output).stderr.splitlines() if "perf map" in line)
    assert right in said and wrong not in said


def test_go_has_no_packages_of_debug_symbols(infprof, tmp_path):
    path = tmp_path / "program"  # a file of C, of which the run says that it is Go's: no table of Go can be read
    subprocess.run(["gcc", "-x", "c", "-", "-o", path], input="int main(void) { return 0; }", text=True, check=True)
    address = symbol(path, "main")[0]
    subprocess.run(["strip", path], check=True)
    run = make_run(infprof, tmp_path / "out", [native(path, address).replace("native", "go", 1)])
    said = run_verb(infprof, "finish", "-r", run.output).stderr
    assert "Go has no packages of debug symbols" in said and "-dbgsym" not in said


def test_refusals(infprof, tmp_path):
    assert "no directory" in run_verb(infprof, "symbolize", "--debug-dir", tmp_path / "none", code=1).stderr
    run = make_run(infprof, tmp_path / "out", ["native|/gone||10|"])
    result = symbolize(infprof, run)
    assert result["unnamed"] == 1 and result["objects"][0]["problem"].startswith("cannot open /gone")
    assert "1 code addresses" in run_verb(infprof, "symbolize", "-r", run.output).stdout
