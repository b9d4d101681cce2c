#!/usr/bin/env python3
"""src/unwind runs in signal handlers of other programs: it may call a few functions on memory, and nothing else.

  unwind_symbols.py LIBRARY     the static library that was built
"""
import subprocess
import sys

MAY_CALL = {"memchr", "memcmp", "memcpy", "memmove", "memset", "strcmp", "strlen"}
# What compilers put in by themselves.
MAY_CALL |= {"__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_", "bcmp"}


def symbols(library, *options):
    listed = subprocess.run(["nm", *options, library], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    return {line.split()[-1] for line in listed.splitlines() if line.strip() and not line.endswith(":")}


def main():
    library = sys.argv[1]
    defined = symbols(library, "--defined-only")
    needed = symbols(library, "-u") - defined
    faults = sorted(name for name in needed if name not in MAY_CALL and not name.startswith(("__asan", "__ubsan", "__tsan", "__sanitizer", "__sancov")))
    for name in faults:
        print(f"src/unwind calls {name}")
    if "infp_unwind" not in defined:
        print(f"{library} does not define infp_unwind: the check reads the wrong place")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
