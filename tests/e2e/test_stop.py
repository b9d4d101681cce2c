"""SIGTSTP and SIGCONT sent by hand, to the command alone or to infprof alone: nobody is left stopped behind."""
import os
import signal
import subprocess
import time

import pytest

from test_record import wait_for


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


@pytest.fixture
def job(infprof, run_dir):
    """infprof and its command, in a process group of their own that a shell could stop."""
    recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "20", "--no-finish", "--", "sleep", "100"],
                                stderr=subprocess.DEVNULL, preexec_fn=lambda: os.setpgid(0, 0))
    children = f"/proc/{recorder.pid}/task/{recorder.pid}/children"

    def command():
        with open(children, encoding="ascii") as file:
            words = file.read().split()
        if not words:
            return None
        with open(f"/proc/{words[0]}/comm", encoding="ascii") as file:
            return int(words[0]) if file.read() == "sleep\n" else None

    pid = wait_for(command, "the start of the command")
    yield recorder, pid
    for signum in signal.SIGKILL, signal.SIGCONT:
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            pass
    os.kill(recorder.pid, signal.SIGCONT)
    assert recorder.wait(60) == 128 + signal.SIGKILL


def test_stopping_the_command_alone(job):
    recorder, command = job
    os.kill(command, signal.SIGTSTP)
    wait_for(lambda: state_of(command) == "T", "the stop")
    time.sleep(0.3)  # sleep: a stop would show by then
    assert state_of(recorder.pid) != "T"
    os.kill(command, signal.SIGCONT)
    wait_for(lambda: state_of(command) == "S", "going on")


def test_stopping_infprof_stops_both(job):
    recorder, command = job
    os.kill(recorder.pid, signal.SIGTSTP)
    wait_for(lambda: state_of(command) == "T" and state_of(recorder.pid) == "T", "the stop of both")
    os.kill(recorder.pid, signal.SIGCONT)
    wait_for(lambda: state_of(command) == "S" and state_of(recorder.pid) != "T", "going on")
