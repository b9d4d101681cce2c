#!/usr/bin/env python3
"""The two diffs of CONTRIBUTING.md are real: applied to a copy of the tree they build, and what they promise is there.

  contributing.py TOP
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What each diff promises: (table, column) that `infprof metrics --json` then lists.
PROMISES = {"metric": ("mem", "vMemoryPerCpu"), "collector": ("entropy", "vEntropyAvailable")}


def diffs(text):
    found = re.findall(r"<!-- diff: (\w+) -->\s*```diff\n(.*?)```", text, re.S)
    return dict(found)


def run(words, **options):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        print(done.stdout[-4000:])
        sys.exit(f"failed: {' '.join(map(str, words))}")
    return done.stdout


def main():
    top = pathlib.Path(sys.argv[1])
    found = diffs((top / "CONTRIBUTING.md").read_text())
    if set(found) != set(PROMISES):
        sys.exit(f"CONTRIBUTING.md holds the diffs {sorted(found)}, not {sorted(PROMISES)}")
    with tempfile.TemporaryDirectory() as work:
        copy = pathlib.Path(work) / "infprof"
        copy.mkdir()
        for name in ("src", "include", "python", "web", "tools", "meson.build", "meson_options.txt", "LICENSE", "NOTICE"):
            (shutil.copytree if (top / name).is_dir() else shutil.copy)(top / name, copy / name)
        (copy / "subprojects").symlink_to(top / "subprojects")
        (copy / ".deps").symlink_to(top / ".deps")
        for diff in found.values():
            subprocess.run(["git", "apply", "--unidiff-zero", "-"], cwd=copy, input=diff, text=True, check=True)
        run([top / ".deps/venv/bin/meson", "setup", "build", "--buildtype=plain", "-Dc_args=-O0"], cwd=copy)
        run(["ninja", "-C", "build", "infprof"], cwd=copy)
        known = json.loads(run([copy / "build/infprof", "metrics", "--json"]))
        listed = {(row["table"], row["name"]) for row in known}
        for name, promise in PROMISES.items():
            if promise not in listed:
                sys.exit(f"the diff '{name}' does not bring {promise}")
        sample = json.loads(run([copy / "build/infprof", "snapshot", "--json"]))
        if PROMISES["metric"][1] not in sample["mem"]:
            sys.exit("the new metric is not in the snapshot")
    return 0


if __name__ == "__main__":
    sys.exit(main())
