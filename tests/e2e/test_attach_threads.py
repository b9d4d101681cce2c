"""Threads and --pid: a thread is no process, and a process lives as long as one of its threads does."""
import subprocess
import sys
import time

import pytest

import proc
from test_record import wait_for
from waits import rows, seconds

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
    thread = wait_for(lambda: [tid for tid in proc.threads(pid) if tid != pid], "a thread")[0]
    done = record("--pid", thread, "--duration", "1s")

    assert done.returncode == 125
    assert f"no process {thread}" in done.stderr and f"process {pid}" in done.stderr
    assert done.run is None


def is_leaderless(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "Z"


def test_a_process_whose_main_thread_has_ended_lives(record, python):
    pid = python(LEADERLESS)
    wait_for(lambda: is_leaderless(pid), "the end of the main thread")
    begin = time.monotonic()
    done = record("--pid", pid, "-t", "100", "--duration", "2s", "--no-finish")

    assert done.returncode == 0, done.stderr
    assert "has ended" not in done.stderr
    assert time.monotonic() - begin >= 2
    assert [row["tree_processes"] for row in done.run.table("tree")] == [1] * len(done.run.table("tree"))


LEADERLESS_C = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
char *memory;
static volatile unsigned long sink;
__attribute__((noinline)) void burn_alone(void) { for (;;) sink++; }
__attribute__((noinline)) void wait_alone(void) { for (;;) { pause(); sink++; } }
static void *burn(void *p) { memory = malloc(64 << 20); memset(memory, 1, 64 << 20); (void) !write(1, "m", 1); burn_alone(); return p; }
static void *wait(void *p) { wait_alone(); return p; }
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, burn, NULL);
    pthread_create(&thread, NULL, wait, NULL);
    pthread_exit(NULL);
}
"""


def test_memory_and_stacks_of_a_process_whose_main_thread_has_ended(record, tmp_path):
    """/proc/PID/maps and statm are empty then; those of its other threads are not."""
    (tmp_path / "alone.c").write_text(LEADERLESS_C)
    subprocess.run(["gcc", "-O1", "-pthread", tmp_path / "alone.c", "-o", tmp_path / "alone"], check=True)
    with subprocess.Popen([tmp_path / "alone"], stdout=subprocess.PIPE) as process:
        try:
            wait_for(lambda: is_leaderless(process.pid), "the end of the main thread")
            wait_for(lambda: process.stdout.read(1), "its memory")
            done = record("--pid", process.pid, "--cpu=300", "--wall=50", "-t", "200", "--duration", "1s", "--no-finish")
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr
    tree = done.run.table("tree")
    assert tree and all(row["tree_rss_bytes"] > 64 << 20 and row["tree_vms_bytes"] > 64 << 20 for row in tree)
    denied = [row for row in done.run.table("sources") if row["collector"] == "sampler" and row["state"] == "denied"]
    if denied:
        pytest.skip(denied[0]["reason"])
    for mode, name in ("cpu", "burn_alone"), ("wall", "wait_alone"):
        found = rows(done.run, mode, {"alone": tmp_path / "alone"})
        wanted = [row for row in found if name in [frame.name for frame in row.frames]]
        assert seconds(found, function=name) > 0.3 * seconds(found) > 0, (mode, found[:5])
        assert sum(bool(row.is_truncated) for row in wanted) <= 0.05 * len(wanted)
