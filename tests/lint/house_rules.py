#!/usr/bin/env python3
"""Rules of STYLE.md that a machine can see: file sizes, what the repository may hold, no registry hosts, no unfinished work,
no second place for what has one, no name of a file that is gone."""
import ast
import pathlib
import re
import subprocess
import sys

MAX_LINES = 800
CODE = {".c", ".h", ".py", ".sh"}
# Hosts are put together here so that this file does not name them.
HOSTS = [".".join(words) for words in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("deb", "debian", "org"),
                                       ("huggingface", "co"), ("crates", "io"))]
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
BINARY = {".so", ".a", ".o", ".gguf", ".parquet", ".whl", ".gz", ".tgz", ".zip", ".exe", ".bin"}
MAX_BYTES = 400_000
# What the program does in one place: a pattern, what to use instead, and the files of src that may, each with its reason.
ONE_PLACE = [
    (r"\bpthread_create\(", "infp_thread_start (base/thread.h)", {
        "base/thread.c": "it is that place",
        "agent/core/preload.c": "the program's own call, which is passed on",
    }),
    (r"\bpthread_(cond_init|timedjoin_np)\(", "infp_cond_init, infp_thread_join_until (base/thread.h): no wait by CLOCK_REALTIME",
     {"base/thread.c": "it is that place"}),
    (r"\b(pthread_sigmask|sigprocmask)\(", "infp_thread_start (base/thread.h): a thread's mask is made when it starts", {
        "sampler/stopped/stop.c": "it waits for SIGCHLD in a thread of its own, so that no thread may take it",
        "base/thread.c": "it is that place",
        "base/guarded_map.c": "unblocks SIGBUS in the thread that touches",
        "record/signals.c": "main's: what a descriptor receives",
        "fetch/http.c": "SIGPIPE around calls of libcurl, in any caller's thread",
        "cli/cmd_query.c": "DuckDB starts threads, which inherit what main blocks",
        "ring/writer.c": "in other programs: no handler of theirs may run within",
        "ring/writer_parts.h": "the same",
        "ring/writer_file.c": "the same"}),
    (r"\bmmap\((?![^;]*MAP_ANONYMOUS)", "infp_guarded_map_open (base/guarded_map.h), or pread: who shortens a mapped file kills us", {
        "base/guarded_map.c": "it is that place",
        "ring/writer_file.c": "in other programs, where no handler of ours may be: a file of their own",
        "sampler/perf/front.c": "the kernel's memory, which nobody shortens",
        "sampler/python/btf.c": "the same",
        "sampler/python/deep.c": "the same"}),
    (r"\bqsort(_r)?\(", "infp_sort, infp_sort_r (base/sort.h): the list of qsort(3) must not be NULL, not even an empty one",
     {"base/sort.h": "it is that place"}),
    (r'\binfp_(?:say|print|notice|run_note|timeline_note|finish_say|report_line|report_put|report_wrap)'
     r'\((?:[^;"]|"(?:[^"\\]|\\.)*")*?"(?:[^"\\%]|%(?!llu)|\\.)*(?<!line )(?<!byte )(?:%llu|" PRIu)',
     "infp_count (base/human.h): people read 1,234,567", {}),
    (r'"(?:[^"\\]|\\.)*\bas root\b', "infp_rights_fix (base/rights.h): root lacks rights too, in a container",
     {"base/rights.c": "it is that place"}),
    (r'\bO_CREAT\b|\bO_TMPFILE\b|\bcreat\(|\bmko?stemps?\(|\bf(?:re)?open\([^;]*, *"[wa]|\bCOPY \(',
     "infp_new_file_open and its like (base/new_file.h): a link that somebody else has laid must not be followed", {
        "base/new_file.c": "it is that place",
        "ring/writer_file.c": "programs of others link it: libc alone; the directory is ours alone, O_EXCL and O_NOFOLLOW",
        "query/duck_parquet.c": "DuckDB's COPY writes into a descriptor of such a file"}),
]
INCLUDE = re.compile(r"\s*#include ")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


# Text from outside may hold escape sequences and line ends. It is escaped where lines are written, and only there.
PRINTS = re.compile(r"\b(printf|fprintf|fputs|puts|putchar|fputc|vfprintf|vprintf|dprintf|perror|fwrite)\(|\bwrite\(STD(OUT|ERR)")
PRINTERS = {"src/cli/say.c", "src/cli/help.c"}  # help: our own texts
RAW_LINES = re.compile(r"infp_(str|human|text)_\w+\(&(?!s->)[\w>-]+->text\b(?!, '\\n'\))")
LINES_OF = re.compile(r"src/(view/(report/(?!lines)\w+|flame/top)|cli/(?!cmd_metrics)\w+)\.c")  # cmd_metrics: our own tables

# base/human.c alone decides how numbers look to people. Files of coordinates and of what programs read are not for people.
FLOATS = re.compile(r'"[^"]*(?<!%)%[-+ #0]*(\*|\d+)?(\.(\*|\d+))?[efgEG](?![a-z])[^"]*"')
NUMBERS_OF = re.compile(r"src/((?!base|view|bench|analyze/limits)[\w/]+|view/(report/|flame/top|flame/look|html/summary|snapshot/)\w*)\.[ch]")


def check_prints(name, number, line):
    if name.startswith("src/") and name not in PRINTERS and PRINTS.search(line):
        yield f"{name}:{number}: prints by itself: infp_say, infp_print, or a table escape what stands in a line"
    if NUMBERS_OF.fullmatch(name) and FLOATS.search(line):
        yield f"{name}:{number}: a number for people: infp_number, infp_fixed, infp_human (base/human.h) write it"
    if LINES_OF.fullmatch(name) and RAW_LINES.search(line):
        yield f"{name}:{number}: writes into a line unescaped: infp_report_put and its like (view/report/parts.h) escape it"


# A test that waits for a time, or judges what infprof itself used, fails on a slow machine.
CPU_BUDGET = re.compile(r"\b(own_cpu\w*[\"'\])]*\s*<|cpu_s[\"'\])]*\s*<=?\s*[\d.]+(?![\d.]|\s*\*))")


def check_times(path, name):
    """Sleeps of end-to-end tests themselves, not of programs that they start, say why they may stand."""
    text = path.read_text()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep") and "# sleep: " not in lines[node.lineno - 1]:
            yield f"{name}:{node.lineno}: a sleep: wait_for (tests/e2e/waiting.py), or say in `# sleep: ...` why a time will do"
    for number, line in enumerate(lines, 1):
        if CPU_BUDGET.search(line) and "# cpu: " not in line:
            yield f"{name}:{number}: a budget of CPU seconds: tests/bench records it, or say in `# cpu: ...` whose they are"


def tracked(top):
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=top, stdout=subprocess.PIPE, check=True).stdout
    return [top / name for name in listed.decode().split("\0") if name and (top / name).is_file()]


def check(path, name):
    size = path.stat().st_size
    if size > MAX_BYTES:
        yield f"{name}: {size} bytes; the repository holds only what we wrote"
    if path.suffix in BINARY:
        yield f"{name}: a binary"
    if "fixtures" in name or "corpus" in name:
        return
    text = path.read_bytes().decode("utf-8", "replace")
    lines = text.splitlines()
    if path.suffix in CODE and len(lines) > MAX_LINES:
        yield f"{name}: {len(lines)} lines; is it still one thing?"
    for number, line in enumerate(lines, 1):
        if path.name != "house_rules.py" and UNFINISHED.search(line):
            yield f"{name}:{number}: unfinished work: {line.strip()[:80]}"
        yield from check_prints(name, number, line)
        for host in HOSTS:
            if host in line:
                yield f"{name}:{number}: names a registry host"
        if line.endswith((" ", "\t")) and path.suffix in CODE:
            yield f"{name}:{number}: blank at the end of the line"
    if name.startswith("tests/e2e/") and path.suffix == ".py":
        yield from check_times(path, name)


# A file of ours that a text names: by its path from the top, from src, or from the folder of the text.
PATH = re.compile(r"(?<![\w/.-])(?:[a-z_]+/)+[a-z_0-9]+\.(?:c|h|py|js|css|sh|md)(?!\w)")


def check_paths(top, names):
    """Of src and of the pages; CHANGELOG.md names what was, and patches of CONTRIBUTING.md what is not yet."""
    for name in sorted(names):
        path = pathlib.Path(name)
        if not (name.startswith("src/") or path.suffix == ".md") or name in ("CHANGELOG.md", "CONTRIBUTING.md"):
            continue
        for number, line in enumerate((top / name).read_text().splitlines(), 1):
            for found in PATH.findall(line):
                if not names & {found, f"src/{found}", f"include/{found}", str(path.parent / found)} and not INCLUDE.match(line):
                    yield f"{name}:{number}: names {found}, which is not there"


def check_one_place(top):
    unused = {(pattern, name) for pattern, _, may in ONE_PLACE for name in may}
    for path in sorted((top / "src").rglob("*.[ch]")):
        name = str(path.relative_to(top / "src"))
        text = COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), path.read_text())
        for pattern, instead, may in ONE_PLACE:
            for found in re.finditer(pattern, text):
                unused.discard((pattern, name))
                if name not in may:
                    yield f"src/{name}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]}: use {instead}"
    for pattern, name in sorted(unused):
        yield f"tests/lint/house_rules.py: src/{name} need not be excused: it has no {pattern}"


def main():
    top = pathlib.Path(__file__).resolve().parents[2]
    files = tracked(top)
    faults = [fault for path in files for fault in check(path, str(path.relative_to(top)))]
    faults += check_one_place(top)
    faults += check_paths(top, {str(path.relative_to(top)) for path in files})
    print("\n".join(faults))
    if len(files) < 50:
        print(f"only {len(files)} files are tracked: the check reads the wrong place")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
