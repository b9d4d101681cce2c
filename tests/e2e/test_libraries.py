"""The libraries that infprof needs to start, and those that it loads when a verb needs them: without them the rest works."""
import json
import re
import shutil
import subprocess
import sys

import pytest

NEEDED = r"libc\.so\.6|libm\.so\.6|ld-linux[\w-]*\.so\.\d"
SANITIZERS = r"lib(a|ub|t)san\.so\.\d+|libgcc_s\.so\.1"


@pytest.fixture
def without(tmp_path, monkeypatch):
    """Has the loader find files that are no libraries under the given names."""
    def hide(*names):
        for name in names:
            (tmp_path / name).write_text("no library\n")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    return hide


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)


def libraries(infprof):
    findings = json.loads(run(infprof, "doctor", "--json", "--engine", "off").stdout)["findings"]
    return {finding["name"]: finding for finding in findings if finding["group"] == "program"}


@pytest.mark.san
def test_needed_to_start(infprof):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", infprof).stdout)
    assert "libc.so.6" in needed
    assert [name for name in needed if not re.fullmatch(f"{NEEDED}|{SANITIZERS}", name)] == []


@pytest.mark.san
def test_without_libcurl(infprof, run_dir, without):
    without("libcurl.so.4", "libcurl-gnutls.so.4")
    found = libraries(infprof)["libcurl"]
    load = run(infprof, "load", "--url", "http://127.0.0.1:9", "-n", "1")
    record = run(infprof, "record", "-o", str(run_dir), "-t", "100", "--", "true")
    engines = [row for row in run_dir.run().table("sources") if row["collector"] == "engine"]

    assert found["state"] == "absent" and "apt-get install libcurl4" in found["text"]
    assert load.returncode != 0 and "HTTP needs libcurl.so.4" in load.stderr
    assert record.returncode == 0, record.stderr
    assert engines and {row["state"] for row in engines} == {"absent"}
    assert "HTTP needs libcurl.so.4" in engines[0]["reason"]


def test_the_libcurl_of_a_package(infprof, without, tmp_path):
    """Beside a wheel: that of pycurl."""
    packages = tmp_path / "lib" / "python3.99" / "site-packages" / "pycurl.libs"
    packages.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    shutil.copy(infprof, tmp_path / "bin")
    known = re.search(r"libcurl(-gnutls)?\.so\.4 .* => (.*)", run("/sbin/ldconfig", "-p").stdout)[2]
    without("libcurl.so.4", "libcurl-gnutls.so.4")
    assert libraries(tmp_path / "bin" / "infprof")["libcurl"]["state"] == "absent"
    shutil.copy(known, packages / "libcurl-0123abcd.so.4.8.0")
    assert libraries(tmp_path / "bin" / "infprof")["libcurl"]["state"] == "ok"


def test_a_libcurl_that_is_too_old(infprof, without, tmp_path):
    """The file that was opened is named, not the one that was looked for first."""
    without("libcurl.so.4")
    run("cc", "-shared", "-o", tmp_path / "libcurl-gnutls.so.4", "-x", "c", "/dev/null").check_returncode()
    assert "libcurl-gnutls.so.4 has no curl_" in libraries(infprof)["libcurl"]["text"]


def test_without_libdw(infprof, without):
    without("libdw.so.1")
    found = libraries(infprof)
    assert found["libdw"]["state"] == "absent" and "apt-get install libdw1" in found["libdw"]["fix"]
    assert found["libcurl"]["state"] == "ok"


def test_without_libbpf(infprof, run_dir, without):
    """As root, too: Python frames are read from inside."""
    without("libbpf.so.1")
    program = "import time\nwhile time.process_time() < 1: pass"
    done = run(infprof, "record", "-o", str(run_dir), "--cpu", "--", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    last = [row for row in run_dir.run().table("sampler") if row["mode"] == "cpu"][-1]
    assert last["python_method"] == "a sampler inside each process" and last["python_merged"] > 10, last
