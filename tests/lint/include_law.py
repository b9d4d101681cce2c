#!/usr/bin/env python3
"""Who may include whom: the law of ARCHITECTURE.md, checked on every #include "..." below src/ and include/.

LAW maps a folder to what it may include: folders, or single headers. Every folder but base, unwind and those marked LIBC
may also include base and model.
"""
import pathlib
import re
import sys

LIBC_ONLY = {"unwind", "agent", "lib"}
LAW = {
    "base": [],
    "model": ["base"],
    "ring": ["model"],
    "unwind": [],
    "collect": ["ring"],
    "collectors": ["collect"],
    "sampler": ["ring", "collect", "unwind"],
    "store": [],
    "record": ["ring", "collect", "sampler", "store"],
    "query": ["ring", "store"],
    "analyze": ["query/scan.h", "query/instances.h", "query/engine_window.h", "store/run.h"],  # store/run.h: which run a scan reads
    "view": ["analyze", "store/arrow.h", "record/tail.h"],  # record/tail.h: the rows that a snapshot shows
    "finish": ["store", "query", "view", "sampler/symbols.h"],
    "import": ["store"],
    "load": ["collect/http.h"],
    "bench": ["analyze"],
    "lib": ["ring/wire.h", "ring/writer.h"],
    "agent": ["ring/wire.h", "ring/writer.h", "unwind"],
    "cli": ["*"],
    "http": ["*"],
    "proxy": ["*"],
}
NEVER = {"cli": {"http", "proxy"}, "http": {"cli", "proxy"}, "proxy": {"cli", "http"}}
# Files of a folder with a law of their own: the ring's writer is linked into programs of others.
WITHIN = {re.compile(r"ring/(writer|where|wire)[^/]*$"): ["ring/writer", "ring/where.h", "ring/wire.h"]}
# Libraries of others, each in its one place.
THIRD_PARTY = {"nanoarrow": "store", "duckdb.h": "query/duck", "curl": "collect/http", "jansson.h": None}


def allowed(folder, header):
    target = header.split("/")[0]
    if target == folder:
        return True
    if target in NEVER.get(folder, ()):
        return False
    if folder not in LIBC_ONLY and folder != "base" and target in ("base", "model"):
        return folder != "model" or target == "base"
    return any(rule in ("*", target, header) for rule in LAW[folder])


def main():
    top = pathlib.Path(__file__).resolve().parents[2]
    faults = []
    n = 0
    for path in sorted((top / "src").rglob("*.[ch]")):
        folder = path.relative_to(top / "src").parts[0]
        if folder not in LAW:
            faults.append(f"{path.relative_to(top)}: the law knows no folder {folder}")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{path.relative_to(top)}:{number}"
            own = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if own:
                n += 1
                if own[1].startswith(("infprof/", "nanoarrow/")):
                    continue
                if "/" not in own[1] or ".." in own[1]:
                    faults.append(f'{where}: include "{own[1]}" by its folder')
                elif any(law.match(str(path.relative_to(top / "src"))) and not own[1].startswith(tuple(may)) for law, may in WITHIN.items()):
                    faults.append(f"{where}: it may include libc and its own folder's writer alone, not {own[1]}")
                elif not allowed(folder, own[1]):
                    faults.append(f"{where}: {folder} may not include {own[1]}")
            other = re.match(r"\s*#\s*include\s+[<\"](nanoarrow|duckdb\.h|curl)", line)
            if other and not str(path.relative_to(top / "src")).startswith(THIRD_PARTY[other[1]]):
                faults.append(f"{where}: {other[1]} belongs to {THIRD_PARTY[other[1]]} alone")
    for fault in faults:
        print(fault)
    if n < 50:
        print(f"only {n} includes were found: the check reads the wrong place")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
