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
    "fetch": [],
    "symbols": ["unwind"],
    "collect": ["ring"],
    "collectors": ["collect", "fetch"],
    "sampler": ["ring", "collect", "unwind", "symbols"],
    "store": [],
    "record": ["ring", "collect", "sampler", "store", "fetch/http.h"],  # fetch/http.h: which host a URL names
    "query": ["ring", "store"],
    "analyze": ["query/scan.h", "query/stream.h", "query/instances.h", "query/engine_window.h", "store/run.h"],  # store/run.h: which run a scan reads
    "view": ["analyze", "store/arrow.h"],
    "finish": ["store", "query", "view", "symbols/symbols.h"],
    "import": ["store"],
    "load": ["fetch"],
    "bench": ["analyze"],
    "lib": ["ring/wire.h", "ring/writer.h"],
    "agent": ["ring/wire.h", "ring/writer.h", "unwind"],
    "push": ["query/scan.h", "store", "fetch"],
    "app": ["*"],
    "cli": ["*"],
    "http": ["*"],
    "proxy": ["*"],
}
NEVER = {"cli": {"http", "proxy"}, "http": {"cli", "proxy"}, "proxy": {"cli", "http"}, "app": {"cli", "http", "proxy", "push"}}
# Files of a folder with a law of their own: the ring's writer is linked into programs of others.
WITHIN = {re.compile(r"ring/(writer|where|wire)[^/]*$"): ["ring/writer", "ring/where.h", "ring/wire.h"]}
# Headers of libraries of others, each with the places that may include it.
THIRD_PARTY = {
    "nanoarrow": ["store/"],
    "duckdb.h": ["query/duck"],
    "curl": ["fetch/"],
    "elfutils": ["symbols/dwarf.c"],
    "dwarf.h": ["symbols/dwarf.c"],
    "libelf.h": ["symbols/dwarf.c"],
    "lzma.h": ["symbols/debugdata.c"],
    "libiberty": ["symbols/name.c"],
    "cairo": ["view/figure/"],
    "zlib.h": ["symbols/", "import/input.c", "view/flame/pack.c", "view/profile/pprof.c"],
    "xxhash.h": ["base/hash.c"],
}


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
            other = re.match(rf"\s*#\s*include\s+[<\"]({'|'.join(map(re.escape, THIRD_PARTY))})\b", line)
            if other and not str(path.relative_to(top / "src")).startswith(tuple(THIRD_PARTY[other[1]])):
                faults.append(f"{where}: {other[1]} belongs to {', '.join(THIRD_PARTY[other[1]])} alone")
    for fault in faults:
        print(fault)
    if n < 50:
        print(f"only {n} includes were found: the check reads the wrong place")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
