"""The shapes in which engines and containers reach readers: the snapshot's nesting (reference/systems.md 0.4 and 0.5), the names
of the time series, Prometheus text, JSON in JSON. The engine is a server of this test that gives a captured page of vLLM."""
import collections
import contextlib
import csv
import http.server
import io
import json
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

import pytest

ENGINES = pathlib.Path(__file__).resolve().parents[3] / "shared" / "fixtures" / "engines"
PAGE = ENGINES / "vllm-0.32.0" / "metrics-load.prom"
V1 = pathlib.Path("/sys/fs/cgroup")

MISSION_VLLM = ("system_requests_running system_requests_waiting cache_kv_usage_percent requests_finished_total tokens_prompt_total "
                "tokens_generation_total latency_ttft_s_sum latency_e2e_s_sum")
OF_0_7 = ("system_engine_sleep_state system_preemptions_total cache_prefix_hits cache_prefix_queries cache_multimodal_hits "
          "cache_multimodal_queries requests_corrupted_total latency_queue_s_sum latency_inference_s_sum latency_prefill_s_sum "
          "latency_decode_s_sum latency_inter_token_s_sum")
MISSION_CONTAINER = ("cCpuTime cCpuTimeUserMode cCpuTimeKernelMode cMemoryUsed cMemoryMaxUsed cDiskReadBytes cDiskWriteBytes "
                     "cNetworkBytesRecvd cNetworkBytesSent cNumProcessors")
# Which series of the page is which histogram: systems.md 0.7.
HISTOGRAMS = {
    "latency_ttft_s": "vllm:time_to_first_token_seconds",
    "latency_e2e_s": "vllm:e2e_request_latency_seconds",
    "latency_queue_s": "vllm:request_queue_time_seconds",
    "latency_inference_s": "vllm:request_inference_time_seconds",
    "latency_prefill_s": "vllm:request_prefill_time_seconds",
    "latency_decode_s": "vllm:request_decode_time_seconds",
    "latency_inter_token_s": "vllm:inter_token_latency_seconds",
}


def samples(page):
    """[(name, labels, value)] of a page, by a reader that has nothing of infprof's."""
    found = []
    for line in page.splitlines():
        match = re.match(r"^([\w:]+)(?:\{(.*)\})? (\S+)$", line)
        if match:
            found.append((match[1], dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or "")), float(match[3])))
    return found


def total(page, name):
    return sum(value for sample, _, value in samples(page) if sample == name)


@contextlib.contextmanager
def engine(page, before=lambda: None):
    """Serves the page; before() is called first and may wait."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            before()
            body = page.encode()
            with contextlib.suppress(OSError):
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text()


def snapshot(infprof, *words):
    done = subprocess.run([infprof, "snapshot", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=True)
    assert done.stderr == b""
    return json.loads(done.stdout)


def is_timed(cell):
    return isinstance(cell, dict) and set(cell) == {"value", "time"} and (cell["value"] is None) == (cell["time"] is None)


def is_plain(cell):
    return cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool))


def check_vllm(vllm, page):
    """Each key of systems.md 0.4's "vllm", against the page."""
    assert isinstance(vllm["timestamp"], int)
    for name in (MISSION_VLLM + " " + OF_0_7).split():
        assert name in vllm and is_plain(vllm[name]), (name, vllm.get(name))
    assert vllm["system_requests_running"] == total(page, "vllm:num_requests_running")
    assert vllm["tokens_prompt_total"] == total(page, "vllm:prompt_tokens_total")
    assert vllm["tokens_generation_total"] == total(page, "vllm:generation_tokens_total")
    assert vllm["requests_finished_total"] == total(page, "vllm:request_success_total")
    assert vllm["latency_ttft_s_sum"] == total(page, "vllm:time_to_first_token_seconds_sum")
    assert vllm["latency_e2e_s_sum"] == total(page, "vllm:e2e_request_latency_seconds_sum")
    check_histograms(vllm["histograms"], page)
    check_config(vllm["config"], page)


def check_histograms(histograms, page):
    for alias, series in HISTOGRAMS.items():
        name = f"{alias}_engine=0,model_name=tiny_histogram"
        assert name in histograms, (name, sorted(histograms))
        expected = {labels["le"].replace("+Inf", "inf"): value for sample, labels, value in samples(page) if sample == series + "_bucket"}
        assert histograms[name] == expected and expected
        edges = [float(edge) for edge in histograms[name]]
        assert edges == sorted(edges) and edges[-1] == float("inf")
        assert all(isinstance(count, int) for count in histograms[name].values())


def check_config(config, page):
    expected = next(labels for sample, labels, _ in samples(page) if sample == "vllm:cache_config_info")
    assert isinstance(config, dict)
    held = json.dumps(config)
    for name in ("block_size", "cache_dtype", "gpu_memory_utilization", "num_gpu_blocks"):
        assert f'"{name}": "{expected[name]}"' in held, (name, held)


def check_containers(containers):
    assert isinstance(containers, dict)
    assert "cId" in containers and not isinstance(containers["cId"], dict)
    assert "cCgroupVersion" in containers and containers["cCgroupVersion"] in (None, 1, 2)
    for name in MISSION_CONTAINER.split():
        assert is_timed(containers[name]), (name, containers.get(name))


def test_snapshot_nests_as_the_mission_does(infprof, page):
    with engine(page) as url:
        sample = snapshot(infprof, "--engine", url)
    assert isinstance(sample["timestamp"], int)
    for section in ("cpu", "mem", "disk", "net", "containers", "vllm", "processes"):
        assert isinstance(sample[section], dict), section
    check_vllm(sample["vllm"], page)
    assert abs(sample["vllm"]["timestamp"] - sample["timestamp"]) < 30000
    assert "engines" not in sample["vllm"] and sample["vllm"]["url"].startswith("http://127.0.0.1:")
    check_containers(sample["containers"])


def test_snapshot_without_an_engine(infprof):
    vllm = snapshot(infprof, "--engine", "off")["vllm"]
    for name in (MISSION_VLLM + " " + OF_0_7).split():
        assert vllm[name] is None  # absent, never 0
    assert vllm["timestamp"] is None and vllm["histograms"] == {} and vllm["config"] is None


def test_two_engines(infprof, page):
    other = page.replace('model_name="tiny"', 'model_name="second"')
    with engine(page) as first, engine(other) as second:
        vllm = snapshot(infprof, "--engine", first, "--engine", second)["vllm"]
    listed = {one["url"]: one for one in vllm["engines"]}
    assert set(listed) == {first, second} and vllm["url"] == first
    check_vllm(listed[first], page)
    assert {key: value for key, value in vllm.items() if key != "engines"} == listed[vllm["url"]]
    assert "latency_ttft_s_engine=0,model_name=second_histogram" in listed[second]["histograms"]
    assert not any("tiny" in name for name in listed[second]["histograms"])


def test_every_sample_of_a_run_has_that_shape(record, page):
    with engine(page) as url:
        done = record("-t", 500, "--engine", url, command=["sleep", "4"])
    assert done.returncode == 0, done.stderr
    taken = [json.loads(path.read_text()) for path in done.run.snapshots()]
    seen = [sample for sample in taken if sample["vllm"]["timestamp"] is not None]
    assert len(taken) >= 7 and len(seen) >= len(taken) - 3
    for sample in seen:
        check_vllm(sample["vllm"], page)  # buckets are written where they have changed: the last ones stand
        check_containers(sample["containers"])


def columns_of(run):
    import pyarrow.parquet

    return pyarrow.parquet.read_table(run.output / f"{run.uuid}.parquet")


def test_time_series_has_the_first_engine_under_bare_names(record, page):
    second = page.replace("vllm:prompt_tokens_total{", "vllm:prompt_tokens_total{x=\"1\",").replace(" 4369.0", " 99.0")
    assert second != page
    with engine(page) as url, engine(second) as other:
        done = record("-t", 1000, "--engine", url, "--engine", other, command=["sleep", "3"])
    assert done.returncode == 0, done.stderr
    table = columns_of(done.run)
    names = table.column_names
    assert names[0] == "timestamp" and names[1:] == sorted(names[1:])
    for name in (MISSION_VLLM + " " + OF_0_7).split():
        assert name in names and name + "_time" in names, name
    assert not [name for name in names if name.startswith("vllm") or name in ("url", "engine", "histograms", "config")]
    first = [row for row in table.to_pylist() if row["tokens_prompt_total"] is not None]
    assert first and {row["tokens_prompt_total"] for row in first} == {4369.0}  # the one that was named first
    for row in first:
        assert row["system_requests_running"] == 4.0 and abs(row["tokens_prompt_total_time"] - row["timestamp"]) < 5000


def test_json_is_json_in_every_format(infprof, record, run_dir, page):
    with engine(page) as url:
        record("--engine", url, "-f", "json", command=["sleep", "2"])

    def export(form):
        return subprocess.run([infprof, "export", "-r", run_dir, "-f", form, "engines"], stdout=subprocess.PIPE,
                              check=True, text=True, timeout=60).stdout

    last = json.loads(export("json"))[-1]
    assert isinstance(last["config"], dict) and last["make"] == "vllm"
    assert isinstance(json.loads(export("jsonl").splitlines()[-1])["config"], dict)
    rows = list(csv.DictReader(io.StringIO(export("tsv")), delimiter="\t"))
    assert json.loads(rows[-1]["config"]) == last["config"]


def test_prometheus_page(infprof, page):
    with engine(page) as url, engine(page) as other:
        text = subprocess.run([infprof, "snapshot", "--prom", "--engine", url, "--engine", other], stdout=subprocess.PIPE, check=True,
                              text=True, timeout=60).stdout
    series = collections.Counter(line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#"))
    assert [name for name, n in series.items() if n > 1] == []
    for address in (url, other):
        assert f'infprof_engine_up{{url="{address}",make="vllm",model="tiny"}} 1' in text
        assert re.search(rf'^infprof_engine_prompt_tokens_total\{{url="{address}",make="vllm",model="tiny"\}} 4369(\.0)?$', text, re.M)


def doctor(infprof, *words):
    done = subprocess.run([infprof, "doctor", "--json", *words], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    findings = json.loads(done.stdout)["findings"]
    return {(finding["group"], finding["name"]): finding for finding in findings}


def test_doctor_names_engines_and_control_groups(infprof, page):
    asked = []
    with engine(page, before=lambda: asked.append(1)) as url:
        found = doctor(infprof, "--engine", url)
        n_asked = len(asked)
        none = doctor(infprof, "--engine", "off")
    assert found["engines", "engine 0"]["state"] == "ok"
    text = found["engines", "engine 0"]["text"]
    assert text.startswith(url + ": vllm") and "model tiny" in text and re.search(r"\d+ series", text)
    assert found["sources", "engine"]["state"] == "ok"
    assert ("cgroups", "version") in found and ("cgroups", "delegation") in found
    assert found["program", "libcurl"]["state"] == "ok"
    assert n_asked >= 1 and len(asked) == n_asked  # "off" asks nobody
    assert not [name for group, name in none if group == "engines"]


def test_doctor_says_why_an_engine_is_not_there(infprof):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"
    found = doctor(infprof, "--engine", url)
    about = [finding for finding in found.values() if url in f"{finding['name']} {finding['text']}" and finding["state"] != "ok"]
    assert about and any("refused" in finding["text"] for finding in about), about


def late_ticks(run, period_ms):
    ticks = run.table("ticks")
    return ticks, [tick for tick in ticks if tick["late_ns"] > period_ms * 1e6 / 2]


@pytest.mark.parametrize("kind", ["silent", "never accepts", "gone", "garbage"])
def test_other_ticks_are_on_time_beside_a_bad_engine(record, page, kind):
    """Six seconds at 5 Hz: about 30 ticks, whatever the engine does; nothing of it is 0."""
    with contextlib.ExitStack() as stack:
        if kind == "silent":
            url = stack.enter_context(engine(page, before=lambda: time.sleep(30)))  # sleep: the fake engine is silent
        elif kind == "garbage":
            url = stack.enter_context(engine("\x00\x01 not a page at all\n" * 1000))
        else:
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            if kind == "never accepts":
                listener.listen(1)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"
            if kind == "gone":
                listener.close()
        done = record("-t", 200, "--engine", url, command=["sleep", "6"])
    assert done.returncode == 0, done.stderr
    ticks, late = late_ticks(done.run, 200)
    assert len(ticks) >= 28 and len(late) <= 3, (len(ticks), late)
    assert len({row["t_ns"] for row in done.run.table("cpu")}) >= 28
    assert done.run.table("vllm") == []
    for path in done.run.snapshots():
        vllm = json.loads(path.read_text())["vllm"]
        assert vllm["tokens_generation_total"] is None and vllm["histograms"] == {}
    assert [row for row in done.run.table("sources") if row["collector"] == "engine" and row["state"] != "ok" and row["reason"]]


@contextlib.contextmanager
def v1_group(name):
    """A group of that name in the v1 hierarchies that count something, with parents of this process's own; removed again."""
    own = f"tests-views-{os.getpid()}"
    tops = [V1 / part / own for part in ("cpu", "cpuacct", "memory", "pids") if (V1 / part).is_dir() and not (V1 / part).is_symlink()]
    made = []
    try:
        for top in tops:
            for path in (top, top / "docker", top / "docker" / name):
                if not path.exists():
                    path.mkdir()
                    made.append(path)
        yield [top / "docker" / name / "cgroup.procs" for top in tops]
    finally:
        for path in reversed(made):
            for _ in range(50):
                try:
                    path.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)  # sleep: between two tries


@pytest.mark.skipif(os.geteuid() != 0 or not (V1 / "cpuacct").is_dir(), reason="needs root and control groups of version 1")
def test_live_container_of_the_command(record, run_dir):
    """A command that puts itself into a group with docker's form of name is that container, in snapshots and time series."""
    name = "c0ffee123456" + 52 * "0"
    with v1_group(name) as files:
        enter = "; ".join(f"echo $$ > {path}" for path in files)
        done = record("-t", 500, command=["sh", "-c", f"{enter}; i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; sleep 4"])
    assert done.returncode == 0, done.stderr
    last = json.loads(done.run.snapshots()[-2].read_text())["containers"]
    check_containers(last)
    assert last["cId"] == "c0ffee123456" and last["cCgroupVersion"] == 1
    assert last["cCpuTime"]["value"] > 0
    assert last["cCpu0Time"]["value"] is not None and is_timed(last["cCpu0Time"])
    table = columns_of(done.run)
    names = [name for name in table.column_names if name.startswith("container")]
    assert "container0_cId" in names and "container0_cCpuTime" in names and "container0_cCpuTime_time" in names
    # The group in which it began may be a container, too; numbers are given in the order of appearance.
    assert any(row[name] == "c0ffee123456" for row in table.to_pylist() for name in names if name.endswith("_cId"))
