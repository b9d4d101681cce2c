"""Threads and --pid: a thread is no process, and a process lives as long as one of its threads does."""
import os
import subprocess
import sys
import time

import pytest

from test_record import wait_for

# The main thread ends by pthread_exit; the other one sleeps.
LEADERLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
time.sleep(0.2)
ctypes.PyDLL(None).pthread_exit(None)
"""
THREADS = "import threading, time; threading.Thread(target=time.sleep, args=(100,), daemon=True).start(); time.sleep(100)"


@pytest.fixture
def python():
    made = []

    def start(code):
        made.append(subprocess.Popen([sys.executable, "-c", code]))
        return made[-1].pid

    yield start
    for process in made:
        process.kill()
        process.wait()


def test_a_thread_is_no_process(record, python):
    pid = python(THREADS)
    thread = wait_for(lambda: [tid for tid in map(int, os.listdir(f"/proc/{pid}/task")) if tid != pid], "a thread")[0]
    done = record("--pid", thread, "--duration", "1s")

    assert done.returncode == 125
    assert f"no process {thread}" in done.stderr and f"process {pid}" in done.stderr
    assert done.run is None


def test_a_process_whose_main_thread_has_ended_lives(record, python):
    pid = python(LEADERLESS)

    def is_leaderless():
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"

    wait_for(is_leaderless, "the end of the main thread")
    begin = time.monotonic()
    done = record("--pid", pid, "-t", "100", "--duration", "2s", "--no-finish")

    assert done.returncode == 0, done.stderr
    assert "has ended" not in done.stderr
    assert time.monotonic() - begin >= 2
    assert [row["tree_processes"] for row in done.run.table("tree")] == [1] * len(done.run.table("tree"))
