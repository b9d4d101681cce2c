"""Running programs to their end, and asking a run by SQL."""
import glob
import json
import os
import pathlib
import subprocess

# What `go tool pprof` of Debian runs; newer ones of other places would be compiled first.
PPROF = next(iter(sorted(glob.glob("/usr/lib/go-1.*/pkg/tool/*/pprof"))), None)


def run(words, **options):
    """The ended program with its stdout and stderr as text; `env` is added to our own environment."""
    options.setdefault("timeout", 120)
    options["env"] = {**os.environ, **options.get("env", {})}
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def copy_tree(source, target):
    """Into a new folder, or over one. Of fixtures: these may not be written to, and their copies must be."""
    subprocess.run(["cp", "-R", "--no-preserve=mode", "-T", str(source), str(target)], check=True)


def cpu_seconds(process):
    """What its first thread has used since it began."""
    return int(pathlib.Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9


def query(infprof, output, sql):
    """The rows that `infprof query` gives, as dictionaries."""
    done = run([infprof, "query", "-r", output, "-f", "json", sql])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
