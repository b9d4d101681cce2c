"""kill -9 at any moment of a recording of the heap: of the recorder, whose target does not notice, and of the target, of which all is there that
docs/heap.md promises. `make fuzz` does it 1,000 times."""
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import time

import pytest

from program import query, run
from waiting import wait_for

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")
ROUNDS = max(1, int(os.environ.get("INFPROF_KILL_ROUNDS", "8")) // 4)
SIZE, THREADS = 40_000, 2  # of blocks of this size each is a sample; of other sizes there are few
WORDS = ("pid", "stop", "allocated", "freed", "children", "bad")
KEPT = 1024  # blocks that may wait for unwind tables, and are lost with their process

# What it has done stands in a shared file, which outlives it: each number is written when the call has returned.
PROGRAM = """\
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { SIZE = 40000, HELD = 64 };
static struct { _Atomic long pid, stop, allocated, freed, children, bad; } *said;
__attribute__((noinline)) char *keep(void) { char *p = malloc(SIZE); __asm__ volatile("" : "+r"(p)); return p; }
__attribute__((noinline)) char *in_child(void) { char *p = malloc(SIZE + 1); __asm__ volatile("" : "+r"(p)); return p; }
static void *work(void *context)
{
        unsigned seed = (unsigned) (unsigned long) context;
        char *held[HELD] = { NULL };
        for (long i = 0; !said->stop; i++) {
                const unsigned at = (unsigned) rand_r(&seed) % HELD;
                char *p = held[at];
                if (!p) {
                        p = held[at] = keep();
                        said->allocated++;
                        p[0] = p[SIZE - 1] = (char) at;
                } else {
                        said->bad += p[0] != (char) at || p[SIZE - 1] != (char) at;
                        free(p);
                        said->freed++;
                        held[at] = NULL;
                }
                if (i % 4 == 0)
                        usleep(100);
        }
        return NULL;
}
int main(int argc, char **argv)
{
        pthread_t threads[2];
        said = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[argc - 1], O_RDWR), 0);
        said->pid = getpid();
        for (unsigned long i = 0; i < 2; i++)
                pthread_create(&threads[i], NULL, work, (void *) (i + 1));
        while (!said->stop) {
                const pid_t child = fork();
                int status = 1;
                if (!child) {
                        for (int i = 0; i < 3; i++)
                                free(in_child());
                        _exit(in_child() == NULL);
                }
                waitpid(child, &status, 0);
                said->bad += status != 0;
                said->children++;
                usleep(20000);
        }
        for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        printf("%ld bad\\n", said->bad);
        return 7;
}
"""


class Target:
    """A recording of the program, and what that says of itself."""

    def __init__(self, infprof, program, output, option):
        path = output.with_suffix(".said")
        path.write_bytes(bytes(4096))
        self.output = output
        with open(path, "r+b") as file:
            self.said = mmap.mmap(file.fileno(), 4096)
        self.recorder = subprocess.Popen([infprof, "record", option, "--no-snapshots", "-t", "50", "-o", output, "--", program, path], text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def __getattr__(self, name):
        return struct.unpack_from("q", self.said, 8 * WORDS.index(name))[0]

    def stop(self):
        struct.pack_into("q", self.said, 8 * WORDS.index("stop"), 1)


@pytest.fixture
def program(tmp_path):
    source = tmp_path / "killed.c"
    source.write_text(PROGRAM)
    made = run(["gcc", "-O1", "-g", "-fno-builtin", "-D_GNU_SOURCE", source, "-o", tmp_path / "killed", "-pthread"])
    assert made.returncode == 0, made.stderr
    return tmp_path / "killed"


@pytest.fixture
def targets(infprof, program, tmp_path):
    """For each round: a target, and a moment of its life."""
    def call(option):
        chance = random.Random(os.environ.get("INFPROF_SEED", "13"))
        for number in range(ROUNDS):
            output = tmp_path / str(number)
            target = Target(infprof, program, output, option)
            yield target, chance.uniform(0.0, 1.0)
            target.recorder.stdout.close()
            shutil.rmtree(output)

    return call


def counted(infprof, output, option):
    """{size: [allocated, freed]} in blocks, and what was lost."""
    found = {SIZE: [0, 0], SIZE + 1: [0, 0]}
    lost = query(infprof, output, "SELECT coalesce(max(lost + dropped), 0) AS n FROM sampler WHERE mode = 'heap-allocated'")[0]["n"]
    if option == "--heap=exact":
        rows = query(infprof, output, "SELECT sum(allocated) AS allocated, sum(allocations) AS n, sum(freed) AS freed, arg_max(live, t_ns) AS live "
                                      "FROM heap_windows GROUP BY process, stack HAVING sum(allocated) > 0")
        for row in rows:
            assert row["live"] == row["allocated"] - row["freed"], row
            for size in (size for size in found if row["allocated"] % size == 0):  # of no other stack
                found[size][0] += row["allocated"] // size
                found[size][1] += row["freed"] // size
                assert row["freed"] % size == 0 and abs(row["n"] - row["allocated"] // size) <= THREADS, row
    else:
        for row in query(infprof, output, "SELECT size, count(*) AS allocated, count(freed_ns) AS freed FROM heap_samples GROUP BY size"):
            if row["size"] in found:
                found[row["size"]] = [row["allocated"], row["freed"]]
    return found, lost


@pytest.mark.parametrize("option", ["--heap=1K", "--heap=exact"])
def test_kills_of_the_recorder(infprof, targets, option):
    """The target goes on and has all that it wrote into its blocks; the recording is mended, and has nothing that never was."""
    for target, moment in targets(option):
        wait_for(lambda: target.pid, "main")
        time.sleep(moment)  # sleep: any moment will do
        target.recorder.kill()
        target.recorder.wait()
        before = target.allocated, target.children
        wait_for(lambda: target.allocated > before[0] + 200 and target.children > before[1], "further blocks")
        target.stop()
        assert target.recorder.stdout.read() == "0 bad\n"
        done = run([infprof, "recover", target.output])
        assert done.returncode == 0, done.stderr
        found, _ = counted(infprof, target.output, option)
        assert found[SIZE][0] <= target.allocated and found[SIZE][1] <= target.freed, (found, target.allocated, target.freed)
        assert found[SIZE + 1][1] <= found[SIZE + 1][0] <= 4 * target.children, (found, target.children)


@pytest.mark.parametrize("option", ["--heap=1K", "--heap=exact"])
def test_kills_of_the_target(infprof, targets, option):
    """No block is missing that it had been given; of samples those may be that waited for unwind tables."""
    for target, moment in targets(option):
        pid = wait_for(lambda: target.pid, "main")
        time.sleep(moment)  # sleep: any moment will do
        os.kill(pid, signal.SIGKILL)
        assert target.recorder.wait(timeout=60) == 137
        found, lost = counted(infprof, target.output, option)
        more = [found[SIZE][0] - target.allocated, found[SIZE][1] - target.freed]
        least = 0 if option == "--heap=exact" else -KEPT - lost
        assert all(least <= n <= THREADS for n in more), (found, target.allocated, target.freed, lost)
        assert lost == 0 or option != "--heap=exact"
        assert 4 * target.children + (least if least else 0) <= found[SIZE + 1][0] <= 4 * target.children + 4, (found, target.children)
