"""Marks of a live run."""
import os
import subprocess
import time

import pytest


def mark(infprof, *words, **environment):
    return subprocess.run([infprof, "mark", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                          env={**os.environ, **environment})


@pytest.mark.san
def test_marks_are_on_disk_when_it_returns(infprof, live):
    before = time.monotonic_ns()
    done = mark(infprof, "warm up: done")
    assert done.returncode == 0 and done.stdout == "", done.stderr
    (row,) = live.table("marks")
    assert (row["source"], row["tag"], row["process"], row["tid"]) == ("mark", "warm up: done", None, None)
    assert before < row["t_ns"] < time.monotonic_ns()
    assert mark(infprof, "two\nlines \\ Grüße").returncode == 0
    assert [row["tag"] for row in live.table("marks")] == ["warm up: done", "two\nlines \\\\ Grüße"]


def test_bytes_that_are_not_text(infprof, live):
    done = subprocess.run([infprof.encode(), b"mark", b"bad \xff byte"], stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr
    assert live.table("marks")[-1]["tag"] == "bad \\xff byte".replace("ff", "FF")


def test_run_is_chosen(infprof, live):
    assert mark(infprof, "-r", live.uuid, "chosen").returncode == 0
    assert mark(infprof, "inside", INFPROF_RUN=live.uuid).returncode == 0
    assert [row["tag"] for row in live.table("marks")] == ["chosen", "inside"]
    other = "01234567-89ab-7def-8123-456789abcdef"
    done = mark(infprof, "elsewhere", INFPROF_RUN=other)
    assert done.returncode == 1 and other in done.stderr


def test_the_command_marks_its_own_run(infprof, record):
    done = record("--no-finish", command=["sh", "-c", f"'{infprof}' mark from-inside"])
    assert done.returncode == 0, done.stderr
    assert [row["tag"] for row in done.run.table("marks")] == ["from-inside"]


def test_nobody_lives(infprof):
    done = mark(infprof, "x")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "record" in done.stderr
