"""A page of `report --html` made by hand: the frame that src/view/html/html.h describes around data with known answers, of every kind that
the page can show. The same arguments give the same page."""
import base64
import hashlib
import html
import importlib.machinery
import importlib.util
import json
import math
import pathlib
import random

TOP = pathlib.Path(__file__).resolve().parents[2]
WEB = TOP / "web" / "report"
HOSTILE = "</script><img src=x onerror=alert(1)><b>\u2028\u202e&amp;\"'"


def embed():
    """tools/embed, by which the build joins the sources."""
    loader = importlib.machinery.SourceFileLoader("embed", str(TOP / "tools" / "embed"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("embed", loader))
    loader.exec_module(module)
    return module


def script():
    return embed().script_of(WEB)[1]


def style():
    return embed().read(WEB / "report.css")


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def by_column(rows, keys, lists):
    """Rows as columns; those named in lists ({column: name of the list}) as places in a list of texts."""
    if not rows:
        return None
    found = {key: [row[key] for row in rows] for key in keys}
    for key, name in lists.items():
        found[name] = sorted({row[key] for row in rows if row[key] is not None})
        found[key] = [None if row[key] is None else found[name].index(row[key]) for row in rows]
    return found


def page(data, headline="The CPU limited the run: the target used 1.92 of its 2 CPUs.", cards=()):
    js, css = script(), style()
    requests = [{**request, "ok": int(request["ok"])} for request in data["requests"]]
    data = {**data, "requests": by_column(requests, ("t", "ttft", "e2e", "tokens", "ok"), {"load": "loads", "failure": "failures"}),
            "spans": by_column(data["spans"], ("t", "d", "lane", "depth", "id", "parent", "attributes"), {"name": "names", "status": "states"})}
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    name = html.escape(str(data["report"].get("command", "target")))
    figures = "".join(f'<div class="card"><dt>{html.escape(n)}</dt><dd>{html.escape(v)} <small>{html.escape(m)}</small></dd></div>' for n, v, m in cards)
    checks = "".join(f'<li class="check {c}"><b>{n}</b> <span class="state">{s}</span> <span>{t}</span></li>' for n, c, s, t in [
        ("CPU", "limited", "limited", "96 % of 2 CPUs on average"), ("Queue", "near", "near", "0.4 requests waited on average"),
        ("Memory", "room", "headroom", "peak 11.2 GiB of 24 GiB"), ("GPU", "unchecked", "not checked", "no GPU was found")])
    csp = f"default-src 'none'; script-src '{digest(js)}'; style-src '{digest(css)}'; base-uri 'none'; form-action 'none'"
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{csp}"><meta name="color-scheme" content="light dark"><title>{name} · infprof</title>
<style>{css}</style></head><body><a class="skip" href="#main">Skip to the report</a>
<header class="top"><p class="brand">infprof</p><h1>{name}</h1><p class="when">2026-11-28 10:41:40 UTC</p></header>
<main id="main" tabindex="-1"><section id="summary" aria-labelledby="summary-title"><h2 id="summary-title">What limited the run</h2>
<p class="headline">{html.escape(headline)}</p><ul class="checks">{checks}</ul><dl class="cards">{figures}</dl></section>
<noscript><p class="notice">Charts need JavaScript.</p></noscript><div id="page"></div></main><footer>made by hand</footer>
<script type="application/json" id="data">{text}</script><script>{js}</script></body></html>"""


def wave(rng, n, low, high, period=60.0, noise=0.15):
    phase = rng.random() * 6
    return [round(low + (high - low) * min(1, max(0, 0.5 + 0.4 * math.sin(phase + i * 6.28 / period) + rng.gauss(0, noise))), 3) for i in range(n)]


def series(name, values, downsampled=False, **more):
    one = {"name": name, "metric": name.replace(" ", "_"), "table": "tree", "instance": None, "quality": "measured", "is_rate": False, "help": f"help of {name}", **more}
    if not downsampled:
        return {**one, "v": values}
    return {**one, "mean": values, "min": [None if v is None else round(v * 0.8, 3) for v in values], "max": [None if v is None else round(v * 1.1, 3) for v in values]}


def panel(id, group, title, unit, all_series, kind="line", **more):
    return {"id": id, "group": group, "title": title, "unit": unit, "kind": kind, "note": None, "max": None, "limits": [], "series": all_series, **more}


def hole(values, first, end):
    return [None if first <= i < end else v for i, v in enumerate(values)]


def make(n=240, step_ms=1000, seed=1, downsampled=False, gpus=2, cores=8, n_spans=60, n_requests=200, extra_panels=0):
    rng = random.Random(seed)

    def s(name, *arguments, **more):
        return series(name, wave(rng, n, *arguments), downsampled, **more)

    def every(k, values):
        return [v if i % k == 0 else None for i, v in enumerate(values)]

    gap = (n // 2, n // 2 + n // 12)
    panels = [
        panel("tokens", "engine", "Tokens per second", "tokens/s", [s("generated", 40, 90), s("prompt", 100, 700)]),
        panel("queue", "engine", "Requests in the engine", "count", [s("running", 0, 4), s("waiting", 0, 5)]),
        panel("kv", "engine", "KV cache", "%", [series("in use", every(5, wave(rng, n, 20, 90)), help="each 5 s")], max=100),
        panel("cpu", "tree", "CPU of the target", "%", [series("user", hole(wave(rng, n, 100, 180), *gap), downsampled), series("system", hole(wave(rng, n, 4, 20), *gap), downsampled)],
              "stack", limits=[{"name": "quota", "value": 200}], note="Of one core; 100 % is one core in use all the time."),
        panel("mem", "tree", "Memory of the target", "bytes", [s("RSS", 9e9, 11.2e9), s("swap", 0, 1e6)], "area", limits=[{"name": "limit", "value": 24 * 2 ** 30}]),
        panel("container-cpu", "container", "CPU of the container", "%", [s("CPU", 90, 190)], limits=[{"name": "quota", "value": 200}]),
        panel("host-cpu", "host", "CPU of the host", "%", [s("user", 20, 70), s("system", 2, 15), s("I/O wait", 0, 4)], "stack", max=100),
        panel("psi", "pressure", "Time in which a task waited", "%", [s("CPU", 0, 60), s("memory", 0, 2), s("I/O", 0, 5)], max=100),
        panel("disk", "io", "Disk", "bytes/s", [s("read", 0, 2e8, is_rate=True), s("written", 0, 3e7, is_rate=True)]),
        panel("net", "net", "Network", "bytes/s", [s("received", 0, 2e6, is_rate=True), s("sent", 0, 4e6, is_rate=True)]),
        panel("power", "energy", "Power", "W", [s("package", 30, 90), series("DRAM", wave(rng, n, 3, 9), downsampled, quality="estimated")]),
        panel("queue-depth", "program", "queue_depth", "", [s("queue_depth", 0, 30)]),
    ]
    for title, unit, low, high in (("GPU in use", "%", 20, 100), ("GPU memory", "bytes", 1e10, 7e10), ("GPU power", "W", 90, 700)) if gpus else ():
        panels.append(panel("gpu-" + unit.strip("%"), "gpu", title, unit, [s(f"GPU {i}", low, high * 0.9, instance=f"GPU {i} NVIDIA H100 80GB HBM3") for i in range(gpus)],
                            max=100 if unit == "%" else None))
    for i in range(extra_panels):
        panels.append(panel(f"extra{i}", "host", f"Extra {i}", "count/s", [s("one", 0, 1e5), s("two", 0, 1e5)]))
    total = n * step_ms
    lanes, spans = [{"name": f"serve (12) · worker {i}"} for i in range(3)], []
    for i in range(n_spans):
        at, long = total * i / max(1, n_spans), total / max(1, n_spans) * 0.9
        spans.append({"t": at, "d": long, "name": f"request", "lane": i % 3, "depth": 0, "status": "error" if i % 17 == 5 else "ok", "id": 2 * i + 1, "parent": None,
                      "attributes": {"gen_ai.request.model": "gemma-3-270m", "gen_ai.usage.output_tokens": 10 + i}})
        spans.append({"t": at + long * 0.1, "d": None if i == n_spans - 1 else long * 0.6, "name": ["prefill", "decode", HOSTILE][i % 3], "lane": i % 3, "depth": 1, "status": "ok",
                      "id": 2 * i + 2, "parent": 2 * i + 1, "attributes": {}})
    processes = [{"pid": 100 + i, "ppid": 1 if i == 0 else 100, "parent": None if i == 0 else 0, "name": ["llama-server", "python3", HOSTILE, "bash"][i % 4],
                  "cmdline": f"/usr/bin/llama-server -m model.gguf --port 80{i}", "start": 0 if i < 2 else total / 10 * i, "end": None if i < 3 else total * 0.8, "cpu_s": 90.5 / (i + 1),
                  "rss_max": 1.1e10 / (i + 1), "cpu": wave(rng, 100, 10, 180 / (i + 1)), "rss": hole(wave(rng, 100, 1e8, 1e10 / (i + 1)), 40, 45)} for i in range(6)]
    requests = []
    for i in range(n_requests):
        failed = i % 23 == 7
        ttft = round(rng.lognormvariate(-2, 0.5), 4)
        requests.append({"t": total * i / max(1, n_requests), "ttft": None if failed else ttft, "e2e": round(ttft + rng.random() * 3, 4), "tokens": 0 if failed else 32 + i % 30, "ok": not failed,
                         "load": ["1 stream", "4 streams", "8 streams"][3 * i // max(1, n_requests)], "failure": "timeout" if failed else None})
    quantiles = [{"quantile": q, "low": a, "estimate": b, "high": c} for q, a, b, c in ((0.5, 0.05, 0.08, 0.1), (0.9, 0.1, 0.21, 0.25), (0.95, 0.25, 0.31, 0.5), (0.99, 0.5, None, None))]
    report = {
        "run": "01a221bf-1491-7f73-89ab-d2dd089d17c6", "command": f"llama-server -m {HOSTILE}", "mode": "run", "state": "finished", "host": "vm", "period_ms": step_ms, "exit_code": 0,
        "wall_s": total / 1000, "absent": [{"collector": "energy", "instance": None, "table": "*", "column": "*", "state": "absent", "reason": "no zone in /sys/class/powercap", "fix": None}] +
        [{"collector": "containers", "instance": None, "table": "containers", "column": f"cColumn{i}", "state": "denied", "reason": HOSTILE, "fix": "run as root"} for i in range(9)],
        "self": {"cpu_s": 1.2, "cpu_percent_of_a_core": 0.5, "rss_max_bytes": 17833984, "rows": 1353, "rows_dropped": 0, "bytes_written": 346056, "errors": 0, "ticks": n, "ticks_missed": 0,
                 "tick_late_mean_ms": 0.2, "tick_late_max_ms": 4.5},
        "containers": [{"cId": "in-1", "cName": "serve", "cRuntime": "docker", "is_target": True, "cpus": 1.72, "cpus_allowed": 2, "throttled_ratio": 0.08, "memory_peak_bytes": 1.12e10,
                        "memory_limit_bytes": 2.4e10, "memory_allowed_bytes": 2.4e10, "oom_kills": 0, "memory_limit_hits": 0, "pressure": {"cpu_some_ratio": 0.31, "memory_some_ratio": None, "io_some_ratio": 0.01}}],
        "energy": {"joules": 15000.0, "seconds": 240, "mean_watts": 62.5, "quality": "measured", "tokens": {"joules_per_generated_token": 0.9, "joules_per_request": 61.0}, "split": None, "domains": [
            {"domain": "package-0", "source": "rapl", "joules": 13000.0, "mean_watts": 54.2, "in_total": True, "part_of": None, "same_as": None, "quality": "measured"},
            {"domain": "dram", "source": "rapl", "joules": 2000.0, "mean_watts": 8.3, "in_total": True, "part_of": None, "same_as": None, "quality": "estimated"}]},
        "engines": [{"url": "http://127.0.0.1:8000", "make": "vllm", "version": "0.11.0", "model": HOSTILE, "scrapes_ok": 240, "scrapes_failed": 1, "scrapes_failed_between": 1, "last_failure": "timed out", "last_failure_between": "timed out",
                     "tokens_generation_total": {"total": 14432, "per_s": 60.1}, "system_requests_running": {"mean": 3.4, "max": 8},
                     "distributions": {"latency_ttft_s": {"series": "vllm:time_to_first_token_seconds", "side": "server", "n": 200, "sum": 20.0, "mean": 0.1, "quantiles": quantiles},
                                       "latency_e2e_s": {"series": "vllm:e2e_request_latency_seconds", "side": "server", "n": 200, "sum": 300.0, "mean": 1.5,
                                                         "quantiles": [{**q, "low": q["low"] * 10, "estimate": q["estimate"] and q["estimate"] * 10, "high": q["high"] and q["high"] * 10} for q in quantiles]}}}],
        "requests": {"measured_at": "client", "requests": n_requests, "completed": n_requests - 9, "failed": 9, "failures": {"timeout": 9}, "output_throughput": 60.1, "percentiles": "exact",
                     **{f"{what}_{key}_ms": v * k for key, k in (("ttft", 1), ("e2el", 10)) for what, v in (("mean", 100.0), ("p50", 81.0), ("p90", 210.0), ("p95", 310.0), ("p99", 600.0), ("max", 812.0))}},
        "machine": {"host": {"vHostname": "vm", "vKernelInfo": "Linux 6.18", "vNumProcessors": cores, "vCpuType": "AMD EPYC", "vMemoryTotalBytes": 25276514304, "vTimeMaxError": 16000000, "vCpuCache": {"L2": 2097152}}},
    }
    return {
        "version": 1, "made_by": "infprof 0.1.0", "made_ms": 1795861859756, "report": report, "start_ms": 1795861800000, "step_ms": step_ms, "n": n,
        "sampled_ms": step_ms if not downsampled else step_ms / 5, "is_downsampled": downsampled, "panels": panels,
        "cores": {"names": [f"cpu{i}" for i in range(cores)], "v": [hole(wave(rng, n, 0, 100), *gap) for _ in range(cores)]} if cores else None,
        "processes": processes, "processes_left_out": 3, "spark_step_ms": total / 100, "requests": requests, "requests_left_out": 0,
        "marks": [{"t": total * 0.1, "tag": "warm", "source": "api", "process": "serve"}, {"t": total * 0.12, "tag": HOSTILE, "source": "cli", "process": None},
                  {"t": total * 0.7, "tag": "8 streams", "source": "cli", "process": None}], "marks_left_out": 0,
        "lanes": lanes if n_spans else [], "spans": sorted(spans, key=lambda span: span["t"]), "spans_left_out": 12 if n_spans else 0,
        "gaps": [{"from": gap[0] * step_ms, "to": gap[1] * step_ms, "reason": "no samples: the machine slept"}],
    }


CARDS = (("Tokens per second", "60.1", "tokens/s, peak 103"), ("Time to first token, p99", "212 ms", "at the client"), ("CPU of the target", "172 %", "of 200 %"),
         ("Memory, peak", "11.2 GiB", "of 24 GiB"), ("Energy a token", "0.9 J", "measured"), ("Requests", "200", "9 failed"))
