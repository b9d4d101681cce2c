"""Python programs that are started and ended for a test, and python_parked.py with what faulthandler says of its stacks."""
import os
import pathlib
import re
import signal
import subprocess

import pytest

from pythons import PYTHONS
from waiting import wait_for

HERE = pathlib.Path(__file__).resolve().parent
SLEEPS = {"23", "35", "230", "270"}  # select, nanosleep, clock_nanosleep, pselect6


@pytest.fixture
def start():
    started = []

    def begin(*words, env=None):
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        started.append(process)
        process.first_line = process.stdout.readline()
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def parked(start, tmp_path):
    def begin(name, *words):
        program, environment = PYTHONS[name]
        process = start(*program, HERE / "python_parked.py", tmp_path / "said", *words, env=environment)
        process.said = tmp_path / "said"
        process.n_threads = int(process.first_line)
        wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/syscall").read_text().split()[0] in SLEEPS, "the sleep of the first thread")
        return process

    return begin


def by_faulthandler(process):
    """The stacks of all threads, innermost frame first: (file, line, function)."""
    process.send_signal(signal.SIGUSR1)

    def said():
        parts = re.split(r"^(?:Current thread|Thread) 0x.*\n", process.said.read_text(), flags=re.M)[1:]
        stacks = [tuple((file, int(line), function) for file, line, function in re.findall(r'  File "(.*)", line (\d+) in (.*)', part))
                  for part in parts]
        return sorted(stacks) if len(stacks) == process.n_threads and all(stacks) else None

    return wait_for(said, "faulthandler's answer")
