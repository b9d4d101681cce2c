"""Terminals: Ctrl-C, Ctrl-Z and fg in a real interactive shell on a pseudo-terminal."""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import time

import pytest

from test_record import wait_for

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="no bash: an interactive shell with job control")


class Terminal:
    """An interactive bash; what it shows is in .shown."""

    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(PS1="$ ", TERM="dumb", HISTFILE="")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.shown = ""

    def read(self):
        while select.select([self.fd], [], [], 0)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return
            if not data:
                return
            self.shown += data.decode("utf-8", "replace").replace("\r", "")

    def expect(self, pattern, seconds=60):
        """Waits until the pattern is shown; what stands before its end is not looked at again."""
        def found():
            self.read()
            return re.search(pattern, self.shown)

        end = time.monotonic() + seconds
        while not found():
            assert time.monotonic() < end, f"{pattern!r} is not in:\n{self.shown}"
            time.sleep(0.02)  # sleep: between two looks
        match = found()
        self.shown = self.shown[match.end():]
        return match

    def type(self, text):
        os.write(self.fd, text.encode())

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal():
    one = Terminal()
    one.expect(r"\$ ")
    yield one
    one.close()


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def is_pending(pid, number):
    """One that a process has not yet taken hides a second one of its kind."""
    sets = re.findall(r"^(?:SigPnd|ShdPnd):\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
    return any(int(text, 16) >> (number - 1) & 1 for text in sets)


def test_ctrl_c_is_the_commands(terminal, infprof, run_dir):
    """The command gets it once, from the terminal; infprof does not repeat it, goes on, and finishes."""
    script = "n=0; trap 'n=$((n+1)); echo got-$n' INT; echo go; sleep 2; sleep 2; echo n=$n; exit 5"
    terminal.type(f"'{infprof}' record -o '{run_dir}' -t 100 -- sh -c \"{script.replace('$', chr(92) + '$')}\"; echo code=$?\n")
    terminal.expect(r"\ngo\n")
    terminal.type("\x03")
    terminal.expect(r"got-1\n")
    terminal.expect(r"n=1\n")
    terminal.expect(r"recorded; read it")
    terminal.expect(r"code=5\n")
    assert run_dir.run().info["finished"] is True


def test_ctrl_c_ends_a_command_that_takes_it(terminal, infprof, run_dir):
    terminal.type(f"'{infprof}' record -o '{run_dir}' -t 100 -- sh -c 'echo go; exec sleep 30'; echo code=$?\n")
    terminal.expect(r"\ngo\n")
    terminal.type("\x03")
    terminal.expect(r"recorded; read it")
    # The shell itself ends the line when one of its programs died by SIGINT; 130 is what it was told.
    terminal.expect(r"\$ ")
    terminal.type("echo then=$?\n")
    terminal.expect(r"then=(130|0)\n")
    assert run_dir.run().info["exit_code"] == 130


def test_second_ctrl_c_skips_finishing(terminal, infprof, run_dir):
    terminal.type(f"'{infprof}' record -o '{run_dir}' -t 100 -- sh -c 'trap \"\" INT; echo pid=$$=; read line; exit 6'; echo code=$?\n")
    recorder = parent(int(terminal.expect(r"\npid=(\d+)=").group(1)))
    for _ in range(2):
        terminal.type("\x03")
        terminal.expect(r"\^C")
        wait_for(lambda: not is_pending(recorder, signal.SIGINT), "the recorder takes the signal")
        time.sleep(0.4)  # sleep: two keys, not one: infprof takes what comes within 0.3 s for one
    terminal.type("\n")
    terminal.expect(r"not finished: `infprof finish")
    terminal.expect(r"code=6\n")
    assert run_dir.run().info["finished"] is False
    assert run_dir.run().info["exit_code"] == 6


def test_stop_and_continue(terminal, infprof, run_dir):
    """Ctrl-Z stops the whole job, the shell takes over; fg continues it."""
    terminal.type(f"'{infprof}' record -o '{run_dir}' -t 100 -- sh -c 'echo pid=$$=; sleep 1; read line; echo got=$line=; exit 7'\n")
    child = int(terminal.expect(r"\npid=(\d+)=").group(1))
    recorder = parent(child)
    terminal.type("\x1a")
    terminal.expect(r"Stopped")
    assert state(child) == "T" and state(recorder) == "T"
    time.sleep(0.5)  # sleep: the ticks of this time are missed; or any moment will do
    terminal.type("fg; echo code=$?\n")
    wait_for(lambda: state(child) != "T" and state(recorder) != "T", "the job continues")
    terminal.expect(r"sh -c")
    terminal.type("hello\n")
    terminal.expect(r"got=hello=")
    terminal.expect(r"code=7\n")
    ticks = run_dir.run().table("ticks")
    assert ticks[-1]["missed"] >= 3  # what fell into the stop was left out, and counted
    assert {(row["deadline_ns"] - ticks[0]["deadline_ns"]) % 100_000_000 for row in ticks} == {0}


def test_a_stopped_command_is_still_recorded(terminal, infprof, run_dir):
    """kill -STOP of the command is somebody who looks at it: the recording goes on."""
    terminal.type(f"'{infprof}' record -o '{run_dir}' -t 100 --no-finish -- sh -c 'echo pid=$$=; sleep 1; exit 7'; echo code=$?\n")
    child = int(terminal.expect(r"\npid=(\d+)=").group(1))
    os.kill(child, signal.SIGSTOP)
    time.sleep(1.5)  # sleep: time that is recorded
    os.kill(child, signal.SIGCONT)
    terminal.expect(r"code=7\n")
    states = {row["pState"] for row in run_dir.run().table("processes")}
    assert "T" in states


def test_background_job(terminal, infprof, run_dir):
    terminal.type(f"'{infprof}' record -o '{run_dir}' -t 100 --no-finish -- sh -c 'sleep 1; exit 7' &\n")
    terminal.expect(r"recorded;")
    terminal.type("wait %1; echo code=$?\n")
    terminal.expect(r"code=7\n")


def test_the_terminal_is_the_commands(terminal, infprof, run_dir):
    terminal.type(f"'{infprof}' record -o '{run_dir}' -t 100 --no-finish -- sh -c "
                  "'test -t 0 && test -t 1 && test -t 2 && tty; cat /proc/$$/stat'\n")
    terminal.expect(r"/dev/pts/\d+\n")
    words = terminal.expect(r"\d+ \(sh\) (.*)\n").group(1).split()
    assert words[2] == words[5]  # its process group is the one in the foreground


def test_hang_up(terminal, infprof, run_dir):
    """The terminal goes away: the command gets SIGHUP as ever; the run is written to its end."""
    terminal.type(f"'{infprof}' record -o '{run_dir}' -t 100 -- sh -c 'echo go; sleep 30'\n")
    terminal.expect(r"\ngo\n")
    time.sleep(0.5)  # sleep: the ticks of this time are missed; or any moment will do
    os.kill(terminal.pid, signal.SIGHUP)
    wait_for(lambda: run_dir.run().info["ended"], "the end of the run", 60)
    assert run_dir.run().info["exit_code"] == 128 + signal.SIGHUP
