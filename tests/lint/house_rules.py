#!/usr/bin/env python3
"""Rules of STYLE.md that a machine can see: file sizes, what the repository may hold, no registry hosts, no unfinished work."""
import pathlib
import re
import subprocess
import sys

MAX_LINES = 600  # aim at 400
CODE = {".c", ".h", ".py", ".sh"}
# Hosts are put together here so that this file does not name them.
HOSTS = [".".join(words) for words in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("deb", "debian", "org"),
                                       ("huggingface", "co"), ("crates", "io"))]
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
BINARY = {".so", ".a", ".o", ".gguf", ".parquet", ".whl", ".gz", ".tgz", ".zip", ".exe", ".bin"}
MAX_BYTES = 400_000


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
        for host in HOSTS:
            if host in line:
                yield f"{name}:{number}: names a registry host"
        if line.endswith((" ", "\t")) and path.suffix in CODE:
            yield f"{name}:{number}: blank at the end of the line"


def main():
    top = pathlib.Path(__file__).resolve().parents[2]
    files = tracked(top)
    faults = [fault for path in files for fault in check(path, str(path.relative_to(top)))]
    print("\n".join(faults))
    if len(files) < 50:
        print(f"only {len(files)} files are tracked: the check reads the wrong place")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
