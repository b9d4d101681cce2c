"""Standard descriptors that whoever started us has closed: no file of a run takes their place."""
import os
import subprocess
import time

import pytest


@pytest.mark.san
@pytest.mark.parametrize("closed", [(2,), (1, 2), (0, 1, 2)], ids=str)
def test_closed_descriptors(infprof, run_dir, closed):
    def close():
        for fd in closed:
            os.close(fd)

    command = f"ls -l /proc/self/fd > {run_dir.parent}/fds 2>&1; (sleep 0.6 &); exit 3"
    code = subprocess.run([infprof, "record", "-o", str(run_dir), "-t", "20", "-f", "csv", "--", "sh", "-c", command],
                          preexec_fn=close, timeout=120).returncode
    run = run_dir.run()

    assert code == 3
    assert run.info["finished"] is True
    assert (run_dir / f"{run.uuid}.csv").stat().st_size > 0
    # What is said (that a descendant is waited for, and the last words) is in no file.
    for path in run_dir.rglob("*"):
        assert not path.is_file() or b"the command has ended" not in path.read_bytes(), path
        assert not path.is_file() or b"recorded; read it" not in path.read_bytes(), path
    # The command has got what we were started with: the run's files and places are not among its descriptors.
    assert str(run_dir) + "/" not in (run_dir.parent / "fds").read_text()


def test_files_take_no_standard_descriptor(infprof, run_dir):
    def close():
        for fd in range(3):
            os.close(fd)

    recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir), "--no-finish", "--", "sleep", "1"],
                                preexec_fn=close)
    try:
        end = time.monotonic() + 60
        while not list(run_dir.glob("*.infprof/columns/*")):
            assert time.monotonic() < end
            time.sleep(0.02)  # sleep: between two looks
        places = [os.readlink(f"/proc/{recorder.pid}/fd/{fd}") for fd in range(3)]
    finally:
        recorder.kill()
        recorder.wait()

    assert places == ["/", "/", "/"]


def test_closed_stdout_is_an_error(infprof):
    done = subprocess.run([infprof, "metrics"], preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE, text=True,
                          timeout=60)

    assert done.returncode != 0
    assert "standard output" in done.stderr
