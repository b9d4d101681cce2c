"""Containers for a bench: control groups with the names that docker gives, a sleeping process in each. Needs root."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path("/sys/fs/cgroup")
PARENT = "docker"


def hierarchies():
    """Where groups are made: each hierarchy of v1, or that of v2."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [path for path in sorted(ROOT.iterdir()) if path.name in ("cpu", "cpuacct", "cpu,cpuacct", "memory", "blkio", "pids")
            and path.is_dir() and not path.is_symlink()]


class Containers:
    """with Containers(50) as n: n = how many there are; 0 and .reason where the machine does not let us."""

    def __init__(self, n):
        self.n, self.made, self.parents, self.processes, self.reason = n, [], [], [], ""

    def make(self):
        for top in hierarchies():
            if not (top / PARENT).exists():
                (top / PARENT).mkdir()
                self.parents.append(top / PARENT)
            if (top / "cgroup.controllers").exists():
                for part, words in ((top, "+cpu +memory +io +pids"), (top / PARENT, "+cpu +memory +io +pids")):
                    (part / "cgroup.subtree_control").write_text(words)
        for number in range(self.n):
            process = subprocess.Popen(["sleep", "3600"], start_new_session=True)
            self.processes.append(process)
            for top in hierarchies():
                group = top / PARENT / f"{number + 0xbe4c40:012x}{0:052x}"
                group.mkdir()
                self.made.append(group)
                (group / "cgroup.procs").write_text(str(process.pid))

    def __enter__(self):
        try:
            self.make()
        except OSError as error:
            self.reason = f"no control groups can be made here ({error})"
            self.remove()
            return 0
        if not self.made:
            self.reason = "no control groups are mounted here"
            self.remove()
            return 0
        return self.n

    def remove(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for group in reversed(self.made):
            group.rmdir()
        for parent in self.parents:
            parent.rmdir()
        self.made, self.parents, self.processes = [], [], []

    def __exit__(self, *_):
        self.remove()
