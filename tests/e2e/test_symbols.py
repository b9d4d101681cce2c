"""Names, inlined functions and lines of code, compared with binutils and elfutils on programs of our own and on the system's."""
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest

SOURCE = r"""
#include <cstdio>
namespace acme {
template <class T> struct Box {
    T v;
    __attribute__((noinline)) T get(int n) const;
};
static inline __attribute__((always_inline)) int leaf(int x)
{
    volatile int y = x;
    return y * 3;                 // leaf
}
static inline __attribute__((always_inline)) int middle(int x)
{
    int s = 0;
    for (int i = 0; i < x; i++)
        s += leaf(i);             // middle
    return s;
}
template <class T> T Box<T>::get(int n) const
{
    return v + middle(n);         // get
}
}
extern "C" __attribute__((noinline)) int plain(int n)
{
    return acme::Box<int>{4}.get(n) + 1;
}
int main(int argc, char **)
{
    std::printf("%d\n", plain(argc));
}
"""
LINES = {word: number for number, line in enumerate(SOURCE.splitlines(), 1) for word in re.findall(r"// (\w+)", line)}


@pytest.fixture(scope="module")
def built(infprof, tmp_path_factory):
    """A program with debug information."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "box.cc").write_text(SOURCE)
    subprocess.run(["g++", "-O2", "-g", "-fno-ipa-sra", "-o", "box", "box.cc"], cwd=folder, check=True)
    return folder / "box"


@pytest.fixture(scope="module")
def tool(infprof):
    path = pathlib.Path(infprof).parent / "tests" / "unit" / "symbol_tool"
    if not path.exists():
        pytest.skip(f"{path} is not built: configure with -Dtests=true")
    return path


def look_up(tool, path, addresses, *directories, **environment):
    """[[{name, mangled, file, line, function_line, from} outermost first] of each address], and what the tool says of the file."""
    done = subprocess.run([tool, path, *directories], input="".join(f"{address:x}\n" for address in addresses), capture_output=True,
                          text=True, env={**os.environ, **environment}, timeout=120)
    assert done.returncode == 0, done.stderr
    found = []
    for block in done.stdout.split(".\n")[:-1]:
        levels = []
        for line in block.splitlines():
            name, mangled, file, number, function_line, source = line.split(" ", 1)[1].rsplit("|", 5)
            levels.append({"name": name, "mangled": mangled or name, "file": file, "line": int(number), "function_line": int(function_line),
                           "from": source})
        found.append(levels)
    assert len(found) == len(addresses)
    return found, done.stderr


def symbol(path, name):
    """(address, size) by nm."""
    for line in subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) == 4 and words[3] == name:
            return int(words[0], 16), int(words[1], 16)
    raise KeyError(name)


def text_of(path):
    """(address, size) of .text."""
    out = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\.text\s+PROGBITS\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)", out)
    return int(found[1], 16), int(found[2], 16)


GET = "_ZNK4acme3BoxIiE3getEi"


@pytest.mark.parametrize("compiler", [["g++"], ["clang++-14"], ["clang++-14", "-gsplit-dwarf"], ["g++", "-gdwarf-4"]], ids=" ".join)
def test_inlined_functions_and_lines(tool, built, tmp_path, compiler):
    """clang writes no table of addresses, which elfutils would need."""
    if not shutil.which(compiler[0]):
        pytest.skip(f"{compiler[0]} is not installed")
    program = tmp_path / "box"
    subprocess.run([*compiler, "-O2", "-g", "-o", program, built.parent / "box.cc"], cwd=tmp_path, check=True)
    names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    begin, size = symbol(program, next(word for word in names.split() if word.startswith(GET)))
    found, said = look_up(tool, program, range(begin, begin + size))
    assert "names symtab, lines 1" in said
    deepest = max(found, key=len)
    assert [level["name"] for level in deepest] == ["acme::Box<int>::get", "acme::middle", "acme::leaf"]
    assert [level["line"] for level in deepest][:2] == [LINES["get"], LINES["middle"]]
    assert {found_level["file"] for levels in found for found_level in levels} == {str(built.parent / "box.cc")}
    leaves = {levels[2]["line"] for levels in found if len(levels) == 3}
    check_against_llvm(tool, program)
    assert leaves & {LINES["leaf"], LINES["leaf"] - 1}


def check_against_llvm(tool, program):
    """Lines of all addresses of the program, where llvm-symbolizer is installed."""
    other = shutil.which("llvm-symbolizer-14") or shutil.which("llvm-symbolizer")
    if not other:
        return
    begin, size = text_of(program)
    addresses = range(begin, begin + size)
    out = subprocess.run([other, f"--obj={program}", "--inlines"], input="".join(f"0x{address:x}\n" for address in addresses), text=True,
                         capture_output=True, check=True, cwd=program.parent).stdout
    found, _ = look_up(tool, program, addresses)
    n = 0
    for address, levels, block in zip(addresses, found, out.split("\n\n")):
        right = [(os.path.normpath(line.rsplit(":", 2)[0]), int(line.rsplit(":", 2)[1])) for line in block.strip().splitlines()[1::2]]
        if right[0][0].startswith("??") or (len(right) == 1 and right[0][1] == 0):  # a name of a symbol table alone
            continue
        assert [(os.path.normpath(level["file"]), level["line"]) for level in reversed(levels)] == right, hex(address)
        n += 1
    assert n > 100


@pytest.mark.parametrize("how", ["debuglink", "build-id", "directory", "beside", "debug folder"])
def test_split_debug_symbols(tool, built, tmp_path, how):
    begin, size = symbol(built, GET)
    wanted, _ = look_up(tool, built, range(begin, begin + size))
    debug, stripped = tmp_path / "box.debug", tmp_path / "box"
    subprocess.run(["objcopy", "--only-keep-debug", built, debug], check=True)
    subprocess.run(["strip", "-o", stripped, built], check=True)
    named, said = look_up(tool, stripped, [begin])
    assert named[0][0]["from"] == "range" and named[0][0]["name"] == f"[box+0x{begin:x}]", said
    directories = []
    if how in ("debuglink", "debug folder", "beside"):
        subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", stripped], check=True)
    if how == "debug folder":
        (tmp_path / ".debug").mkdir()
        debug.rename(tmp_path / ".debug" / "box.debug")
    elif how == "debuglink":
        (tmp_path / "elsewhere").mkdir()
        debug.rename(tmp_path / "elsewhere" / "box.debug")
        directories = [tmp_path / "elsewhere"]
    elif how == "build-id":
        note = subprocess.run(["readelf", "-n", built], capture_output=True, text=True, check=True).stdout
        build_id = re.search(r"Build ID: (\w+)", note)[1]
        place = tmp_path / "tree" / ".build-id" / build_id[:2]
        place.mkdir(parents=True)
        debug.rename(place / f"{build_id[2:]}.debug")
        directories = [tmp_path / "tree"]
    elif how == "directory":
        debug.unlink()
        (tmp_path / "whole").mkdir()
        shutil.copy(built, tmp_path / "whole" / "box")  # as it was before it was stripped
        directories = [tmp_path / "whole"]
    found, said = look_up(tool, stripped, range(begin, begin + size), *directories)
    assert found == wanted, said


def test_debug_file_of_another_build_is_not_taken(tool, built, tmp_path):
    stripped = tmp_path / "box"
    subprocess.run(["strip", "-o", stripped, built], check=True)
    other = tmp_path / "box.cc"
    other.write_text(SOURCE.replace("y * 3", "y * 5"))
    subprocess.run(["g++", "-O2", "-g", "-o", tmp_path / "box.debug", other], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={tmp_path / 'box.debug'}", stripped], check=True)
    found, said = look_up(tool, stripped, [symbol(built, GET)[0]])
    assert found[0][0]["from"] == "range" and "debug file -" in said


def test_debug_link_without_build_id_needs_the_sum(tool, built, tmp_path):
    whole, stripped, debug = tmp_path / "whole", tmp_path / "box", tmp_path / "box.debug"
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", built, whole], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", stripped], check=True)
    address = symbol(built, "plain")[0]
    assert look_up(tool, stripped, [address])[0][0][0]["name"] == "plain"
    with open(debug, "ab") as file:
        file.write(b"\0")
    assert look_up(tool, stripped, [address])[0][0][0]["from"] == "range"


def test_packed_symbols(tool, built, tmp_path):
    """.gnu_debugdata, as Fedora has it."""
    if not shutil.which("xz"):
        pytest.skip("xz is not installed")
    mini, stripped = tmp_path / "mini", tmp_path / "box"
    subprocess.run(["objcopy", "-S", f"--keep-symbol={GET}", built, mini], check=True)
    subprocess.run(["xz", mini], check=True)
    subprocess.run(["strip", "-o", stripped, built], check=True)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={mini}.xz", stripped], check=True)
    found, said = look_up(tool, stripped, [symbol(built, GET)[0], symbol(built, "plain")[0]])
    assert (found[0][0]["name"], found[0][0]["from"]) == ("acme::Box<int>::get", "debugdata"), said
    assert found[1][0]["from"] == "range"
    with open(f"{mini}.xz", "r+b") as file:  # broken in the middle: a problem, and no name
        file.seek(200)
        file.write(bytes(100))
    subprocess.run(["objcopy", "--update-section", f".gnu_debugdata={mini}.xz", stripped], check=True)
    found, said = look_up(tool, stripped, [symbol(built, GET)[0]])
    assert found[0][0]["from"] == "range" and "cannot be unpacked" in said


def test_tables_beyond_the_bound_are_not_read(tool, built):
    """Beside a recording: .symtab is larger than a quarter of what may be used, .dynsym is not."""
    out = subprocess.run(["readelf", "-SW", built], capture_output=True, text=True, check=True).stdout
    sizes = {name: int(size, 16) for name, size in re.findall(r"\.(symtab|strtab|dynsym|dynstr)\s+\w+\s+\S+\s+\S+\s+(\S+)", out)}
    bound = 4 * (max(sizes["dynsym"], sizes["dynstr"]) + 200)
    assert bound < 4 * max(sizes["symtab"], sizes["strtab"])
    begin = symbol(built, GET)[0]
    assert look_up(tool, built, [begin], MOST_BYTES=str(1 << 20), NO_LINES="1")[0][0][0]["from"] == "symtab"
    assert look_up(tool, built, [begin], MOST_BYTES=str(bound), NO_LINES="1")[0][0][0]["from"] == "range"


def test_linkage_table(tool, built):
    out = subprocess.run(["objdump", "-d", built], capture_output=True, text=True, check=True).stdout
    at = int(re.search(r"^([0-9a-f]+) <printf@plt>:", out, re.M)[1], 16)
    found, _ = look_up(tool, built, [at, at + 4])
    assert [levels[0]["name"] for levels in found] == ["printf@plt"] * 2


@pytest.mark.parametrize("n, names", [(8, True), (800, False)])
def test_code_without_call_frame_information(tool, tmp_path, n, names):
    """Between two known functions: a few that nobody names are one range; of hundreds (browsers are built so) nobody knows which it is."""
    outer, inner, program = tmp_path / "outer.s", tmp_path / "inner.c", tmp_path / "program"
    known = ".globl {0}\n.type {0}, @function\n{0}: .cfi_startproc\nret\n.cfi_endproc\n.size {0}, .-{0}\n"
    (tmp_path / "first.s").write_text(known.format("first"))
    (tmp_path / "last.s").write_text(known.format("last"))
    inner.write_text("".join(f"int f{i}(volatile int *p) {{ *p += {i}; *p *= {i}; return *p + {i}; }}\n" for i in range(n)))
    outer.write_text(".globl _start\n_start: hlt\n")
    subprocess.run(["gcc", "-O1", "-nostdlib", "-no-pie", "-fno-asynchronous-unwind-tables", "-o", program, tmp_path / "first.s", inner,
                    tmp_path / "last.s", outer], check=True)
    places = [symbol(program, f"f{i}")[0] for i in (0, n - 1)]
    known = [symbol(program, name)[0] for name in ("first", "last")]
    subprocess.run(["strip", program], check=True)
    found, _ = look_up(tool, program, known + places)
    assert [levels[0]["name"] for levels in found[:2]] == [f"[program+0x{address:x}]" for address in known]
    between = [levels[0]["name"] for levels in found[2:] if levels]
    assert between == ([f"[program+0x{known[0] + 1:x}]"] * 2 if names else [])


def test_libgomp_waits_by_name(tool):
    """Its functions that spin have no names in stripped files; `pause` in objdump says which they are."""
    found = sorted(pathlib.Path("/usr/lib/x86_64-linux-gnu").glob("libgomp.so.1.*"))
    if not found:
        pytest.skip("libgomp1 is not installed")
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", found[0]], capture_output=True, text=True, check=True).stdout
    pauses = [int(line.split(":")[0], 16) for line in out.splitlines() if line.endswith("pause")]
    names = [levels[0]["name"] for levels in look_up(tool, found[0], pauses)[0]]
    assert pauses and all(name.startswith(("OpenMP wait [libgomp.so", "GOMP_", "omp_")) for name in names), names
    assert any(name.startswith("OpenMP wait [libgomp.so") for name in names)


def aliases_of(path, dynamic):
    """{address: names without versions} and [(address, size)] by nm."""
    names, extents = {}, []
    options = ["nm", "-S", "-D"] if dynamic else ["nm", "-S"]
    for line in subprocess.run([*options, path], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tTwWiV":
            address = int(words[0], 16)
            names.setdefault(address, set()).add(words[3].split("@")[0])
            extents.append((address, int(words[1], 16)))
    return names, sorted(extents)


@pytest.mark.parametrize("path", ["/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"])
def test_stripped_files_by_their_exported_names(tool, path):
    """Each address within an exported function has one of its names; any other is named by the extent of its FDE, or by a file of
    debug symbols that is installed."""
    path = pathlib.Path(path)
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    names, extents = aliases_of(path, True)
    out = subprocess.run(["readelf", "--debug-dump=frames", "-W", path], capture_output=True, text=True).stdout
    fdes = {int(begin, 16): int(end, 16) for begin, end in re.findall(r"FDE cie=\S+ pc=([0-9a-f]+)\.\.([0-9a-f]+)", out)}
    begin, size = text_of(path)
    chance = random.Random(7)
    addresses = [begin + chance.randrange(size) for _ in range(600)]
    found, said = look_up(tool, path.resolve(), addresses, NO_LINES="1")
    has_debug_file = "debug file /" in said
    n_named = n_ranges = 0
    for address, levels in zip(addresses, found):
        if not levels:
            continue
        owners = {name for at, length in extents if at <= address < at + length for name in names[at]}
        if owners and not has_debug_file:
            assert levels[0]["mangled"] in owners, hex(address)
            n_named += 1
        elif levels[0]["from"] == "range":
            at = int(re.search(r"\+0x([0-9a-f]+)\]$", levels[0]["name"])[1], 16)
            inside = [start for start, end in fdes.items() if start <= address < end]
            assert not inside or at == inside[0], hex(address)
            n_ranges += 1
        else:
            n_named += 1
    assert n_named > 50 and n_named + n_ranges > 550


def oracle(path, addresses):
    """{address: [(name, file, line) innermost first]} by elfutils."""
    done = subprocess.run(["eu-addr2line", "-e", path, "-i", "-f", "-a"], input="".join(f"0x{address:x}\n" for address in addresses),
                          capture_output=True, text=True, timeout=300)
    found, lines = {}, None
    for line in done.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]{16}", line):
            lines = found.setdefault(int(line, 16), [])
        else:
            lines.append(line)
    return {address: [(name.split(" inlined at")[0], os.path.normpath(place.split(":")[0]), int(place.split(":")[1] or 0))
                      for name, place in zip(lines[::2], lines[1::2]) if place.split(":")[1].isdigit()] for address, lines in found.items()}


def check_against_elfutils(tool, path, n):
    begin, size = text_of(path)
    chance = random.Random(11)
    addresses = sorted({begin + chance.randrange(size) for _ in range(n)})
    right = oracle(path, addresses)
    found, said = look_up(tool, path, addresses)
    n_checked = n_equal = 0
    different = []
    for address, levels in zip(addresses, found):
        if not levels or levels[0]["from"] == "range" or not right[address] or right[address][0][1] == "??":
            continue
        ours = [(level["mangled"], os.path.normpath(level["file"]), level["line"]) for level in reversed(levels)]
        n_checked += 1
        # The outermost function may be told by an alias; elfutils prints inlined functions of C++ without their namespaces.
        same = [place[1:] for place in ours] == [place[1:] for place in right[address]] and all(
            mine[0].endswith(theirs[0]) for mine, theirs in list(zip(ours, right[address]))[:-1])
        n_equal += same
        if not same:
            different.append((hex(address), ours, right[address]))
    assert n_checked > n / 20, said
    assert n_equal == n_checked, different[:3]


@pytest.mark.parametrize("options", [["-O2"], ["-O1", "-gdwarf-4"], ["-O2", "-gz"], ["-O3", "-fPIC"]], ids=" ".join)
def test_lines_equal_those_of_elfutils(tool, built, tmp_path, options):
    if not shutil.which("eu-addr2line"):
        pytest.skip("elfutils is not installed")
    program = tmp_path / "box"
    subprocess.run(["g++", "-g", *options, "-o", program, built.parent / "box.cc"], check=True)
    check_against_elfutils(tool, program, 400)


def test_lines_of_python_equal_those_of_elfutils(tool):
    found = sorted(pathlib.Path.home().glob(".pyenv/versions/3.1*/lib/libpython3.*.so.1.0"))
    if not found or not shutil.which("eu-addr2line"):
        pytest.skip("there is no Python with debug information here, or no elfutils")
    check_against_elfutils(tool, found[0], 400)
