"""The truth programs of ../shared/truth: what they declare against what a recording says."""
import json
import os
import pathlib
import subprocess

import pytest

from program import cpu_seconds, query
from waiting import wait_for

TOP = pathlib.Path(__file__).resolve().parents[2]
TRUTH = TOP.parent / "shared" / "truth"


@pytest.fixture(scope="session")
def truth(tmp_path_factory):
    out = tmp_path_factory.mktemp("truth")
    subprocess.run(["make", "-s", "-C", str(TRUTH), f"OUT={out}", f"{out}/proc_tree", f"{out}/io_truth", f"{out}/busy_split"],
                   check=True)
    return out


def raw_bytes(text):
    """Undoes base/text.h: \\xHH is a byte, two backslashes are one."""
    out, at, data = bytearray(), 0, text.encode()
    while at < len(data):
        if data[at:at + 2] == b"\\x":
            out.append(int(data[at + 2:at + 4], 16))
            at += 4
        else:
            at += 2 if data[at:at + 2] == b"\\\\" else 1
            out.append(data[at - 1])
    return bytes(out)


def record_tree(infprof, truth, output, *options, period_ms=100, hold=4, churn=50):
    done = subprocess.run([infprof, "record", "-o", str(output), "-t", str(period_ms), *options, "--", str(truth / "proc_tree"),
                           "-d", str(hold), "-c", str(churn)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    steady, end = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return steady, end


@pytest.mark.san
def test_each_node_of_the_tree(infprof, truth, tmp_path):
    steady, _ = record_tree(infprof, truth, tmp_path)
    nodes = {node["pid"]: node for node in steady["nodes"]}
    # It stands still for 4 s before its end; the last moments may show a node that is dying already.
    rows = query(infprof, tmp_path, "SELECT * FROM processes WHERE t_ns < (SELECT max(t_ns) FROM tree) - 1000000000 ORDER BY t_ns")
    known = {pid: [row for row in rows if row["pId"] == pid] for pid in nodes}
    for pid, node in nodes.items():
        assert known[pid], node
        row = known[pid][-1]
        assert raw_bytes(row["pName"]) == bytes.fromhex(node["comm_hex"]), node
        if node["kind"] == "root":
            continue
        assert row["pState"] == node["state"], (node, row)
        if node["kind"] != "orphan":
            assert row["pParentId"] == node["ppid"], (node, row)
        if node["state"] != "Z":
            assert row["pNumThreads"] == node["threads"], (node, row)
        cpu = (row["pCpuTimeUserMode"] + row["pCpuTimeKernelMode"]) / 100
        assert abs(cpu - node["cpu_s"]) <= 0.0201, (node, row)  # cpu: the target's, by its own clock
        if node["rss_bytes"]:
            assert node["rss_bytes"] <= row["pRssAnonBytes"] <= node["rss_bytes"] + (2 << 20), (node, row)


@pytest.mark.san
def test_cpu_of_the_whole_tree(infprof, truth, tmp_path):
    steady, end = record_tree(infprof, truth, tmp_path)
    extra = sum(node["cpu_s"] for node in steady["nodes"] if node["kind"] in ("orphan", "chain_2", "chain_3"))
    right = end["cpu_s"] + end["children_cpu_s"] + extra
    report = json.loads(subprocess.run([infprof, "report", "-r", str(tmp_path), "--json"], check=True, stdout=subprocess.PIPE).stdout)
    assert abs(report["tree_cpu_s"] - right) <= 0.02 * right + 0.05, (report["tree_cpu_s"], right)
    assert abs(report["tree_cpu_user_s"] + report["tree_cpu_system_s"] - report["tree_cpu_s"]) <= 0.02 * right + 0.05
    values = [row["v"] for row in query(infprof, tmp_path, "SELECT tree_cpu_ns AS v FROM tree ORDER BY t_ns")]
    assert values == sorted(values)


def test_all_processes_hold_the_tree(infprof, truth, tmp_path):
    steady, _ = record_tree(infprof, truth, tmp_path, "-p", period_ms=500)
    pids = {row["pId"] for row in query(infprof, tmp_path, "SELECT DISTINCT pId FROM processes")}
    assert {node["pid"] for node in steady["nodes"]} <= pids
    assert os.getpid() in pids


def test_io_of_a_process_and_of_lo(infprof, truth, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run([infprof, "record", "-o", str(tmp_path / "out"), "-t", "50", "--", "sh", "-c",
                           f"'{truth}/io_truth' -o '{work}' -w 64 -r 32 -n 512; sleep 0.3"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    right = json.loads(done.stdout)
    row = query(infprof, tmp_path / "out",
                "SELECT max(pReadCharsBytes) AS rchar, max(pWriteCharsBytes) AS wchar, max(pReadBytes) AS rb, max(pWriteBytes) AS wb "
                "FROM processes WHERE pName = 'io_truth'")[0]
    assert right["proc_io"]["wchar"] == right["disk_write"]
    assert right["disk_write"] <= row["wchar"] <= right["disk_write"] + 1024
    assert right["disk_read"] <= row["rchar"] <= right["disk_read"] + 16 * 1024
    if right["direct"] and right["proc_io"]["write_bytes"]:
        assert right["disk_write"] <= row["wb"] <= right["disk_write"] + (1 << 20)
        assert right["disk_read"] <= row["rb"] <= right["disk_read"] + (1 << 20)
    lo = query(infprof, tmp_path / "out", "SELECT max(vNetworkBytesRecvd) - min(vNetworkBytesRecvd) AS i, "
                                          "max(vNetworkBytesSent) - min(vNetworkBytesSent) AS o FROM net_interface WHERE interface = 'lo'")[0]
    # Other tests may talk over lo meanwhile: the upper bound leaves them 8 MiB.
    assert right["tcp_bytes"] * 1.0005 <= lo["i"] <= right["tcp_bytes"] * 1.02 + (8 << 20)
    assert lo["i"] == lo["o"]
    written = query(infprof, tmp_path / "out", "SELECT max(vDiskWriteBytes) - min(vDiskWriteBytes) AS w FROM disk")[0]["w"]
    if right["direct"] and right["proc_io"]["write_bytes"]:
        assert written >= right["disk_write"]


def test_attached_to_a_running_program(infprof, truth, tmp_path):
    program = subprocess.Popen([str(truth / "busy_split"), "-s", "4"], stdout=subprocess.PIPE)
    wait_for(lambda: cpu_seconds(program) > 0.2, "work before it is looked at")
    done = subprocess.run([infprof, "record", "-o", str(tmp_path), "-t", "100", "--pid", str(program.pid)],
                          stderr=subprocess.PIPE, timeout=60)
    right = json.loads(program.communicate()[0])
    assert done.returncode == 0, done.stderr.decode()
    row = query(infprof, tmp_path, "SELECT (SELECT max(tree_cpu_ns) / 1e9 FROM tree) AS total, (SELECT min(pCpuTimeNs) / 1e9 FROM processes) AS before")[0]
    assert row["before"] > 0.1  # what it used before is in its own counter only
    assert abs(row["before"] + row["total"] - right["cpu_s"]) <= 0.02 * right["cpu_s"] + 0.15, (row, right)
