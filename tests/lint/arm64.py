#!/usr/bin/env python3
"""Compiles every object of src for 64-bit Arm by Debian's cross compiler, as the build folder compiles it for this machine.

  arm64.py BUILD

Nothing is linked or run: Debian has no libraries of ours for that machine here, but their headers are the same.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

COMPILER = "aarch64-linux-gnu-gcc"
SKIPPED = 77  # for Meson


def command(entry, headers):
    """The words that compile it; the object is thrown away. A folder of headers of this machine is replaced by `headers`."""
    words = shlex.split(entry["command"])
    begin = next(i for i, word in enumerate(words) if word.startswith("-"))
    kept, skips = [], False
    for word in words[begin:]:
        if not skips and word not in ("-o", "-MF", "-MQ", "-MD") and not word.startswith(("-O", "-I/usr/include")):
            kept.append(word)
        skips = not skips and word in ("-o", "-MF", "-MQ")
    return [COMPILER, *kept, "-O0", "-fdiagnostics-color=never", "-idirafter", headers, "-idirafter", "/usr/include", "-o", "/dev/null"]


def compile_one(entry, headers):
    done = subprocess.run(command(entry, headers), cwd=entry["directory"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout if done.returncode else ""


def main():
    build = pathlib.Path(sys.argv[1])
    if not shutil.which(COMPILER):
        print(f"{COMPILER} is not here (tools/setup check)")
        return SKIPPED
    entries = [entry for entry in json.loads((build / "compile_commands.json").read_text())
               if entry["file"].startswith(("../src/", "src/"))]
    if len(entries) < 100:
        sys.exit(f"only {len(entries)} objects of src are in {build}/compile_commands.json")
    with tempfile.TemporaryDirectory() as headers, concurrent.futures.ThreadPoolExecutor(2) as pool:
        # Debian has curl's, which do not depend on the machine, in the folder of this one.
        for path in pathlib.Path("/usr/include").glob("*-linux-gnu/curl"):
            os.symlink(path, os.path.join(headers, "curl"))
        faults = [text for text in pool.map(lambda entry: compile_one(entry, headers), entries) if text]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
