#!/usr/bin/env python3
"""Names of tables and columns that readers ask for are those of tests/schema.lock: a misspelt one would be a value that is always
absent, without a word.

Checked below the folders that read tables: tables in calls that open a scan, lists of names of which half are columns, and every
text that has the shape of a metric (vCpuTime, tokens_prompt_total).
"""
import pathlib
import re
import sys

READERS = ("analyze", "query", "finish", "app", "cli", "record")
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
METRIC = re.compile(r"[a-z][A-Z][A-Za-z0-9]+|(tree|system|latency|tokens|cache|requests|spec|params)_[a-z0-9_]+")
LIST = re.compile(r"\*const\s*(?:\w+\[\w*\]\s*=|\[\]\)|\w+\[\w*\]\[\w*\]\s*=)\s*\{([^;]*?)\}", re.DOTALL)
SCAN = re.compile(r'infp_(?:scan_open|report_scan)\([^;"]*?,\s*"(\w+)"')
WORD = re.compile(r"[A-Za-z]\w*")


def schema(top):
    tables, columns = set(), {"t_ns", "time"}
    for line in (top / "tests/schema.lock").read_text().splitlines():
        if line and not line.startswith("#"):
            table, column = line.split()[:2]
            tables.add(table)
            columns.add(column)
    return tables, columns


def faults(text, tables, columns):
    """Yields the place of each name that is no column or table."""
    for found in SCAN.finditer(text):
        if found[1] not in tables:
            yield found.start(1), f"there is no table {found[1]}"
    for found in LIST.finditer(text):
        names = [name for name in TEXT.finditer(found[1])]
        known = [name[1] in columns for name in names]
        if 2 * sum(known) > len(names) and all(WORD.fullmatch(name[1]) for name in names):
            for name, is_known in zip(names, known):
                if not is_known:
                    yield found.start(1) + name.start(), f"no table has a column {name[1]}"
    for found in TEXT.finditer(text):
        if METRIC.fullmatch(found[1]) and found[1] not in columns and found[1] not in tables:
            yield found.start(), f"no table has a column {found[1]}"


def main():
    top = pathlib.Path(__file__).resolve().parents[2]
    tables, columns = schema(top)
    broken = []
    n = 0
    for folder in READERS:
        for path in sorted((top / "src" / folder).rglob("*.c")):
            text = COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), path.read_text())
            n += sum(name[1] in columns for name in TEXT.finditer(text))
            broken += sorted({f"{path.relative_to(top)}:{text.count(chr(10), 0, at) + 1}: {why}" for at, why in faults(text, tables, columns)})
    print("\n".join(broken))
    if n < 500:
        print(f"only {n} names of columns were found: the check reads the wrong place")
        return 1
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
