"""--capture: the command's output is a file that nothing of infprof can block or break; all of it is followed and stamped."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from namespaces import unshare
from waiting import wait_for

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system: needs root")


def output_file(run):
    return run.output / f"{run.uuid}_output.txt"


def rows(run, stream="output"):
    return [row for row in run.table("output") if row["stream"] == stream]


def check_rows(run, text):
    """The rows hold each byte once, in order."""
    at = 0
    for row in rows(run):
        assert row["offset"] == at and row["length"] > 0, row
        at += row["length"]
    assert at == len(text)


def start(infprof, run_dir, *options, command, **arguments):
    return subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "50", "--capture", *options, "--", *map(str, command)],
                            **arguments)


# More than a pipe holds at once, to a reader who reads at the end only: there the upstream profiler hangs for ever.
@pytest.mark.san
def test_a_burst(record):
    done = record("-t", "50", "--capture", command=[sys.executable, "-c",
                  "import sys\nfor i in range(3200): print(f'{i:063d}')\nsys.exit(5)"])
    text = "".join(f"{i:063d}\n" for i in range(3200))
    assert done.returncode == 5, done.stderr
    assert done.stdout == text and len(text) == 204800
    assert output_file(done.run).read_text() == text
    assert output_file(done.run).stat().st_mode & 0o777 == 0o600
    check_rows(done.run, text)


@pytest.mark.san
@pytest.mark.parametrize("script, code", [("exit 3", 3), ("kill -TERM $$", 143), ("echo x; kill -KILL $$", 137)])
def test_exit_codes(record, script, code):
    done = record("-t", "50", "--capture", command=["sh", "-c", script])
    assert done.returncode == code
    assert done.stdout == ("x\n" if "echo" in script else "")


def test_output_and_error_share_one_file(record):
    """In the order in which they were written."""
    script = "for i in $(seq 200); do echo out $i; echo err $i >&2; done"
    done = record("-t", "50", "--capture", command=["sh", "-c", script])
    text = "".join(f"out {i}\nerr {i}\n" for i in range(1, 201))
    assert output_file(done.run).read_text() == text
    assert done.stdout == text
    assert "err 1\n" not in done.stderr


def test_what_the_command_sees(record, tmp_path):
    """Its own file, opened to append, no terminal; standard input is what it was."""
    script = ("import os, fcntl, json, sys\n"
              "a, b = os.fstat(1), os.fstat(2)\n"
              "print(json.dumps([a.st_ino, b.st_ino, fcntl.fcntl(1, fcntl.F_GETFL) & os.O_APPEND != 0, os.isatty(1),\n"
              "  os.fstat(0).st_ino, sorted(map(int, os.listdir('/proc/self/fd')))]))\n")
    given = tmp_path / "input"
    given.write_text("x")
    with open(given) as file:
        done = record("-t", "50", "--capture", command=[sys.executable, "-c", script], stdin=file)
    out, err, appends, is_tty, stdin, fds = json.loads(done.stdout)
    assert out == err == output_file(done.run).stat().st_ino
    assert appends and not is_tty
    assert stdin == given.stat().st_ino
    assert fds[:3] == [0, 1, 2] and len(fds) == 4  # and the one that lists them


def test_without_it_nothing_changes(infprof, run_dir, tmp_path):
    out = tmp_path / "out.txt"
    with open(out, "w") as file:
        subprocess.run([infprof, "record", "-o", str(run_dir), "-t", "50", "--no-finish", "--", sys.executable, "-c",
                        "import os; print(os.fstat(1).st_ino)"], stdout=file, check=True, timeout=60)
    assert int(out.read_text()) == out.stat().st_ino
    assert not list(run_dir.glob("*_output.txt"))
    assert run_dir.run().table("output") == []


def test_copied_to_a_file(infprof, run_dir, tmp_path):
    out = tmp_path / "copy"
    with open(out, "w") as file:
        process = start(infprof, run_dir, "--no-finish", command=["sh", "-c", "seq 50000; exit 4"], stdout=file,
                        stderr=subprocess.PIPE)
        process.communicate(timeout=60)
    assert process.returncode == 4
    assert out.read_text() == output_file(run_dir.run()).read_text() == "".join(f"{i}\n" for i in range(1, 50001))


def test_infprof_is_killed(infprof, run_dir, tmp_path):
    """kill -9: the command does not notice."""
    done = tmp_path / "done"
    script = (f"import time\nfor i in range(60): print('line', i, 'x' * 4000, flush=True); time.sleep(0.02)\n"
              f"open({str(done)!r}, 'w').close()")
    process = start(infprof, run_dir, command=[sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    file = wait_for(lambda: list(run_dir.glob("*_output.txt")), "the file")[0]
    wait_for(lambda: file.stat().st_size > 20000, "some output")
    process.kill()
    process.communicate(timeout=60)
    wait_for(done.exists, "the command's end")
    lines = file.read_text().splitlines()
    assert [line.split()[1] for line in lines] == [str(i) for i in range(60)]


def test_infprof_is_stopped(infprof, run_dir, tmp_path):
    """SIGSTOP: the command runs to its end; when infprof goes on it has it all."""
    done = tmp_path / "done"
    script = (f"import time\nfor i in range(2000): print('line', i, 'x' * 1000, flush=True)\ntime.sleep(0.2)\n"
              f"print('end', flush=True); open({str(done)!r}, 'w').close()")
    process = start(infprof, run_dir, "--no-finish", command=["sh", "-c", f"sleep 0.5; exec '{sys.executable}' -c \"$0\"", script],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: list(run_dir.glob("*_output.txt")), "the file")
    wait_for(lambda: list(run_dir.glob("*.infprof/tree/*.arrows")), "a row", 30)
    os.kill(process.pid, signal.SIGSTOP)
    wait_for(done.exists, "the command's end")
    os.kill(process.pid, signal.SIGCONT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    text = output_file(run_dir.run()).read_bytes()
    assert out == text and text.endswith(b"end\n") and text.count(b"\n") == 2001
    check_rows(run_dir.run(), text)


def test_a_slow_reader(infprof, run_dir, tmp_path):
    """Nobody reads until the command has ended: it does not wait for him, and he misses nothing."""
    done = tmp_path / "done"
    process = start(infprof, run_dir, "--no-finish", command=["sh", "-c", f"seq 200000; touch '{done}'"], stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
    wait_for(done.exists, "the command's end")
    time.sleep(0.5)  # sleep: the pipe is full that long
    out, err = process.communicate(timeout=60)
    text = "".join(f"{i}\n" for i in range(1, 200001)).encode()
    assert out == text and process.returncode == 0
    check_rows(run_dir.run(), text)
    assert b"standard output" not in err


def test_a_reader_who_goes(infprof, run_dir):
    process = start(infprof, run_dir, "--no-finish", command=["sh", "-c", "seq 300000; sleep 0.2; echo last; exit 6"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"1\n"
    process.stdout.close()
    err = process.stderr.read().decode()
    assert process.wait(timeout=60) == 6
    assert "standard output is closed" in err and err.count("\n") <= 3, err
    assert output_file(run_dir.run()).read_text().endswith("300000\nlast\n")
    check_rows(run_dir.run(), output_file(run_dir.run()).read_text())


def test_without_a_standard_output(infprof, run_dir):
    done = subprocess.run(["sh", "-c", f"exec '{infprof}' record -o '{run_dir}' -t 50 --no-finish --capture -- "
                           "sh -c 'echo hello; exit 9' >&-"], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 9
    assert output_file(run_dir.run()).read_text() == "hello\n"
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_descendants_write_on(record):
    """As long as the recording runs; then it is over, and the file is still theirs."""
    done = record("-t", "50", "--capture", "--no-finish", command=["sh", "-c", "(sleep 0.5; echo late; sleep 0.2; echo later) & echo first; exit 5"])
    assert done.returncode == 5
    assert done.stdout == output_file(done.run).read_text() == "first\nlate\nlater\n"
    check_rows(done.run, done.stdout)


def test_the_command_is_left(infprof, run_dir):
    """--duration ends before the command: that is said, and it writes on."""
    process = start(infprof, run_dir, "--no-finish", "--duration", "500ms",
                    command=["sh", "-c", "echo one; sleep 2; echo two; exec sleep 0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert out == b"one\n"
    assert "its further output goes only to" in err.decode()
    wait_for(lambda: output_file(run_dir.run()).read_text() == "one\ntwo\n", "the rest")


def test_rows_are_few(record):
    """A line each ms: at most a row each 20 ms, and each has its moment."""
    script = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: print('x', flush=True); time.sleep(0.001)"
    done = record("-t", "200", "--capture", "--no-finish", command=[sys.executable, "-c", script])
    seen = rows(done.run)
    check_rows(done.run, done.stdout)
    gaps = [b["t_ns"] - a["t_ns"] for a, b in zip(seen, seen[1:])]
    # The last look comes when the command has ended, however short after the one before.
    assert len(seen) >= 4 and min(gaps[:-1]) >= 19_000_000, gaps


@pytest.mark.san
def test_limit(infprof, record):
    script = ("import sys, time\nfor i in range(50): sys.stdout.write('y' * 40000 + '\\n'); sys.stdout.flush(); time.sleep(0.03)")
    done = record("-t", "50", "--capture", "--capture-limit", "256K", "--no-finish", command=[sys.executable, "-c", script])
    file = output_file(done.run)
    if "--capture-limit has no effect" in done.stderr:
        pytest.skip("this file system cannot take the head off a file; that was said")
    size, kept = file.stat().st_size, file.stat().st_blocks * 512
    assert size == 50 * 40001
    assert 100 << 10 <= kept <= (256 << 10) + 4096, kept
    removed = sum(row["length"] for row in rows(done.run, "removed"))
    assert f"of {size:,} bytes of output the first {removed:,} were removed" in done.stderr
    data = file.read_bytes()
    assert data[:removed] == b"\0" * removed and b"\0" not in data[removed:]
    check_rows(done.run, data)
    assert "\0" not in done.stdout and set(done.stdout) <= {"y", "\n"}
    # Who reads the run is told of the hole.
    report = subprocess.run([infprof, "report", "-r", str(done.run.output), "--json"], stdout=subprocess.PIPE, check=True)
    assert json.loads(report.stdout)["output"] == {"bytes": size, "bytes_in_range": size, "removed_bytes": removed}
    text = subprocess.run([infprof, "report", "--full", "-r", str(done.run.output)], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert f"{done.run.uuid}_output.txt" in text and "are removed" in text


@pytest.mark.san
def test_it_becomes_shorter(record):
    """By the command: what it writes then is shown, labels in it are seen, and the limit holds on."""
    script = ("import os, time\nfor i in range(4): os.write(1, b'y' * 200000); time.sleep(0.1)\nos.write(1, b'measure_label-'); time.sleep(0.2)\n"
              "os.ftruncate(1, 0); time.sleep(0.2)\nos.write(1, b'tail of it: 1\\nmeasure_label-after: %d\\n' % time.time()); time.sleep(0.2)\n"
              "for i in range(10): os.write(1, b'z' * 100000); time.sleep(0.05)\nos.write(1, b'END\\n')")
    done = record("-t", "50", "--capture", "--capture-limit", "256K", "--no-finish", command=[sys.executable, "-c", script])
    if "the file system of" in done.stderr and "Invalid argument" not in done.stderr:
        pytest.skip("this file system cannot take the head off a file; that was said")
    assert done.returncode == 0
    said = "".join(line for line in done.stderr.splitlines(True) if "removed by --capture-limit" not in line)  # where copying comes late
    assert "was truncated" in said and "is not kept" not in said and "standard output" not in said
    assert done.stdout.endswith("z" * 1000 + "END\n") and done.stdout.count("\nmeasure_label-after: ") == 1
    assert [row["tag"] for row in done.run.table("marks") if row["source"] == "output"] == ["after"]
    assert output_file(done.run).stat().st_blocks * 512 <= (256 << 10) + 4096


@pytest.mark.san
@pytest.mark.parametrize("limit", [[], ["--capture-limit", "64K"]])
def test_it_begins_anew(record, limit):
    """`> /dev/stderr` of a shell opens the file anew and empties it: all that is written is copied all the same, also where the file has
    grown beyond what it was before anybody looked."""
    command = ("import os, sys, time\n"
               "def anew(text):\n    fd = os.open('/dev/stderr', os.O_WRONLY | os.O_TRUNC); os.write(fd, text.encode()); os.close(fd)\n"
               "def say(text): os.write(1, text.encode())\n"
               "say('first of all\\n' + 'f' * 100 + '\\n'); time.sleep(0.3); anew('short\\n'); say('behind it\\n'); time.sleep(0.3)\n"
               "anew('measure_label-long: %d\\n' % time.time() + 'l' * 200000 + '\\n'); time.sleep(0.3); say('more\\n'); time.sleep(0.3)\n"
               "anew('end\\n')\n")
    done = record("-t", "50", "--capture", "--no-finish", *limit, command=[sys.executable, "-c", command])
    assert done.returncode == 0 and done.stderr.count("was truncated") == 1
    assert output_file(done.run).read_text() == "end\n"
    lines = done.stdout.split("\n")
    if limit:
        assert lines[:4] == ["first of all", "f" * 100, "short", "behind it"] and lines[-3:] == ["more", "end", ""]
    else:
        assert lines[:4] + lines[5:] == ["first of all", "f" * 100, "short", "behind it", "l" * 200000, "more", "end", ""]
    assert [row["tag"] for row in done.run.table("marks") if row["source"] == "output"] == ["long"]


def test_it_is_removed(infprof, run_dir):
    """By somebody: that is said once, all else goes on."""
    process = start(infprof, run_dir, "--no-finish", command=["sh", "-c", "echo one; read go; echo two; sleep 0.3; echo three; exit 4"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: [path for path in run_dir.glob("*_output.txt") if path.read_text() == "one\n"], "the first line")
    output_file(run_dir.run()).unlink()
    out, err = process.communicate(b"go\n", timeout=60)
    assert process.returncode == 4 and out == b"one\ntwo\nthree\n"
    assert err.decode().count("has been removed") == 1, err


def with_failing_call(infprof, run_dir, tmp_path, call, error, *options, command):
    """Records while a system call of infprof fails; skips where strace may not trace."""
    if not shutil.which("strace"):
        pytest.skip("needs strace to let a system call fail")
    done = subprocess.run(["strace", "-f", "-o", tmp_path / "strace", "-e", f"trace={call}", "-e", f"inject={call}:error={error}", infprof, "record",
                           "-o", run_dir, "-t", "50", "--capture", "--no-finish", *options, "--", *command],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    if not list(run_dir.glob("*.infprof")):
        pytest.skip(f"strace may not trace here: {done.stderr.strip()[:100]}")
    assert f"{call}(" in (tmp_path / "strace").read_text()
    return done


def test_nobody_tells_of_news(infprof, run_dir, tmp_path):
    """No inotify (its limits are soon reached): the file is looked at each period."""
    done = with_failing_call(infprof, run_dir, tmp_path, "inotify_init1", "EMFILE",
                             command=["sh", "-c", "for i in 1 2 3 4; do echo $i; sleep 0.2; done; exit 3"])
    assert done.returncode == 3 and done.stdout == "1\n2\n3\n4\n"
    seen = rows(run_dir.run())
    check_rows(run_dir.run(), done.stdout)
    assert 2 <= len(seen) <= 4 and all(0.1e9 < b["t_ns"] - a["t_ns"] < 5e9 for a, b in zip(seen, seen[1:]))


def test_a_file_system_without_holes(infprof, run_dir, tmp_path):
    done = with_failing_call(infprof, run_dir, tmp_path, "fallocate", "EOPNOTSUPP", "--capture-limit", "64K",
                             command=["sh", "-c", "for i in 1 2 3 4; do head -c 100000 /dev/zero | tr '\\0' z; sleep 0.1; done"])
    assert done.returncode == 0
    assert done.stderr.count("--capture-limit has no effect: the file system of") == 1 and "Operation not supported" in done.stderr
    assert output_file(run_dir.run()).read_text() == done.stdout == "z" * 400000
    assert rows(run_dir.run(), "removed") == []


def test_options(infprof, tmp_path):
    for words, text in ([["--capture", "--pid", "1"], "--capture needs a command"], [["--wait", "child", "--pid", "1"], "--wait needs a command"], [["--capture-limit", "1M", "--", "true"], "--capture-limit needs --capture"],
                        [["--capture", "--capture-limit", "0", "--", "true"], "--capture-limit 0"]):
        done = subprocess.run([infprof, "record", "-o", str(tmp_path / "out"), *words], stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 125 and text in done.stderr


def test_a_command_that_cannot_run(record, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    done = record("--capture", command=[broken])
    assert done.returncode == 127 and done.stdout == "" and "interpreter" in done.stderr


@needs_root
def test_live_full_disk(infprof, tmp_path):
    """The command's write fails as on any full disk; the recording survives, and so does what was written."""
    inner = (f"mount -t tmpfs -o size=3m tmpfs {tmp_path}\nset +e\n"
             f"'{infprof}' record -o {tmp_path}/out -t 50 --capture --no-snapshots --no-finish -- "
             f"sh -c 'head -c 8000000 /dev/zero > /dev/stdout; echo $? >&9; exit 7' 9>&1 >/dev/null 2>/tmp/err.$$\n"
             f"echo code=$?\n'{infprof}' query -r {tmp_path}/out 'SELECT count(*) FROM columns'\nrm -f /tmp/err.$$\n")
    done = subprocess.run([*unshare(), "sh", "-ec", inner], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    words = done.stdout.split()
    assert words[0] == "1" and "code=7" in words, done.stdout + done.stderr  # head: write error
    assert int(words[-1]) > 100
