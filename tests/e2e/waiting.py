"""Waiting for what another process does."""
import subprocess
import time

import pytest


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)  # sleep: between two looks
    pytest.fail(f"{what} did not happen within {seconds} s")


def wait_for_rows(infprof, output, n, table="cpu"):
    """Until the newest run in `output` has n rows of a table. Asking makes a live recorder write out what it holds."""
    words = [infprof, "query", "-r", str(output), "-f", "csv", f"SELECT count(*) FROM {table}"]

    def are_there():
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
        return done.returncode == 0 and int(done.stdout.splitlines()[1]) >= n

    wait_for(are_there, f"{n} rows of {table}")
