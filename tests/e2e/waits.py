"""Samples of --wall and --off-cpu: rows of a mode with the names of their frames, and the program of cpu_waiter.c with its answers."""
import collections
import pathlib
import subprocess

from stacks import Names, object_name

HERE = pathlib.Path(__file__).resolve().parent
Row = collections.namedtuple("Row", "t_ns tid state weight samples frames is_truncated task")
Frame = collections.namedtuple("Frame", "name object address kind line")
Truth = collections.namedtuple("Truth", "kind tid life cpu waited errors edge")


def build(directory):
    path = pathlib.Path(directory) / "cpu_waiter"
    subprocess.run(["gcc", "-O2", "-g", "-fomit-frame-pointer", "-D_GNU_SOURCE", "-Wall", "-Wextra", HERE / "cpu_waiter.c", "-o", path,
                    "-pthread"], check=True)
    return path


def truths(stdout):
    """What the threads of cpu_waiter say of themselves, in seconds."""
    found = []
    for line in stdout.splitlines():
        words = line.split()
        if len(words) == 7:
            found.append(Truth(words[0], int(words[1]), *(int(word) / 1e9 for word in words[2:5]), int(words[5]), int(words[6]) / 1e9))
    return found


def rows(run, mode, binaries=None):
    """All samples of a mode; frames root first, named by `symbols`, else by nm of binaries {base name: path}."""
    names = {name: Names(path) for name, path in (binaries or {}).items()}
    lines = {row["frame"]: row["sLine"] for row in run.table("symbols") if row["sLevel"] == 0}
    said = {row["frame"]: row["sName"] for row in run.table("symbols") if row["sLevel"] == 0}
    frames, nodes, known = {}, {row["id"]: row for row in run.table("stacks")}, {}
    for row in run.table("frames"):
        where = object_name(row["fObject"])
        name = said.get(row["id"])
        if where in names and row["fAddress"] is not None:
            name = names[where][row["fAddress"]]
        frames[row["id"]] = Frame(name, row["fObject"], row["fAddress"], row["fKind"], lines.get(row["id"]))

    def path(node):
        if node not in known:
            row = nodes[node]
            known[node] = (path(row["parent"]) if row["parent"] is not None else ()) + (frames[row["frame"]],)
            assert row["depth"] == len(known[node]) - 1, row
        return known[node]

    return [Row(row["t_ns"], row["tid"], row["state"], row["weight"], row["samples"],
                path(row["stack"]) if row["stack"] is not None else (), row["is_truncated"], row["task"])
            for row in run.table("stack_samples") if row["mode"] == mode]


def seconds(found, **wanted):
    """Sum of weights: tid=..., state=... (a text, or None), function=... (anywhere in the stack)."""
    total = 0
    for row in found:
        if "tid" in wanted and row.tid != wanted["tid"]:
            continue
        if "state" in wanted and row.state != wanted["state"]:
            continue
        if "function" in wanted and wanted["function"] not in [frame.name for frame in row.frames]:
            continue
        total += row.weight
    return total
