"""What long work says on a terminal while it lasts: one line that is written anew and removed."""
import fcntl
import os
import struct
import subprocess
import termios

import pytest

ERASE = "\r\033[K"


def on_terminal(*words, output=False, columns=80, cwd=None):
    """What a terminal on standard error, and on standard output, gets."""
    master, slave = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    process = subprocess.Popen(list(map(str, words)), stdout=slave if output else subprocess.DEVNULL, stderr=slave, env=environment, cwd=cwd)
    os.close(slave)
    shown = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        shown += data
    os.close(master)
    assert process.wait(60) == 0, shown
    return shown.decode()


def lasting(shown):
    """Lines that stand in the end: what was written after the last return to the line's begin."""
    return [line.split(ERASE)[-1] for line in shown.replace("\r\n", "\n").split("\n")]


def test_finishing(infprof, record, run_dir):
    """By the child of record, and by itself."""
    record("-t", "100ms", "--no-finish", command=["sleep", "0.2"])
    shown = on_terminal(infprof, "finish", "-r", run_dir)
    assert "names of code: reading the stacks\033[K" in shown and lasting(shown) == [""]
    shown = on_terminal(infprof, "record", "-t", "100ms", "-o", f"{run_dir}2", "--", "sleep", "0.2")
    assert "names of code: reading the stacks\033[K" in shown
    said = [line for line in lasting(shown) if line]  # on a busy machine also that samples came late
    assert all(line.startswith("infprof: ") for line in said) and sum("recorded; read it with" in line for line in said) == 1, said


def test_import_and_page(infprof, run_dir, tmp_path):
    (tmp_path / "stacks.folded").write_text("a;b;c 3\na;b 4\n")
    shown = on_terminal(infprof, "import", tmp_path / "stacks.folded", "-o", run_dir)
    assert "import: 0 MiB of" in shown and all(line[:9] in ("", "infprof: ") for line in lasting(shown))
    shown = on_terminal(infprof, "report", "--html", "-r", run_dir, "-o", tmp_path / "page.html")
    assert "report: reading the run\033[K" in shown and lasting(shown) == [""]
    shown = on_terminal(infprof, "report", "--html", "-r", run_dir, "-o", "-", output=True)
    assert "report: reading the run\033[K" in shown and lasting(shown)[0] == "<!doctype html>"


def test_output_begins_at_the_margin(infprof, record, run_dir):
    record("-t", "100ms", "--no-finish", command=["sleep", "0.2"])
    shown = on_terminal(infprof, "finish", "--json", "-r", run_dir, output=True)
    assert "names of code: reading the stacks\033[K" in shown and lasting(shown)[0] == "{"


def test_a_line_of_progress_does_not_wrap(infprof, run_dir, tmp_path):
    """Columns, not bytes: each of these letters takes two columns and three bytes."""
    name = "\u6f22" * 60
    (tmp_path / name).write_text("a;b;c 3\n")
    for columns, letters in ((40, 11), (100, 41)):
        shown = on_terminal(infprof, "import", name, "-o", run_dir, columns=columns, cwd=tmp_path)
        assert f"\rimport: 0 MiB of {name[:letters]}\033[K" in shown


@pytest.mark.parametrize("verb", ["finish", "report"])
def test_no_terminal_no_progress(infprof, record, run_dir, verb):
    record("-t", "100ms", "--no-finish", command=["sleep", "0.2"])
    done = subprocess.run([infprof, verb, "-r", run_dir], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0 and b"\r" not in done.stderr and b"reading" not in done.stderr
