"""A page of vLLM, served as the real one does: each reading of it finds `changing` series changed.

Run alone it prints its URL and serves until it is killed:  fake_engine.py [--page FILE] [--changing N]
"""
import argparse
import http.server
import pathlib
import re
import threading

CAPTURED = pathlib.Path(__file__).resolve().parents[3] / "shared/fixtures/engines/vllm-0.32.0/metrics-load.prom"
COUNTER = re.compile(r"^vllm:\w+(_bucket|_sum|_count|_total)(\{|$)")
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{.*\})?) ([0-9.eE+-]+)$")
LATENCIES = ("time_to_first_token", "e2e_request_latency", "request_queue_time", "request_inference_time", "request_prefill_time",
             "request_decode_time", "inter_token_latency", "request_time_per_output_token")


def made_page():
    """Like vLLM's, where the captured one is not at hand."""
    labels = 'engine="0",model_name="facebook/opt-125m"'
    lines = []
    for name in LATENCIES:
        lines += [f"# HELP vllm:{name}_seconds Histogram of {name}.", f"# TYPE vllm:{name}_seconds histogram"]
        lines += [f'vllm:{name}_seconds_bucket{{{labels},le="{edge}"}} {100.0 + edge}' for edge in range(1, 37)]
        lines += [f'vllm:{name}_seconds_bucket{{{labels},le="+Inf"}} 150.0', f"vllm:{name}_seconds_sum{{{labels}}} 33.5",
                  f"vllm:{name}_seconds_count{{{labels}}} 150.0"]
    for name in ("prompt_tokens", "generation_tokens", "num_preemptions"):
        lines += [f"# TYPE vllm:{name} counter", f"vllm:{name}_total{{{labels}}} 1000.0"]
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{{{labels}}} 0.5"]
    return "\n".join(lines) + "\n"


class FakeEngine:
    """with FakeEngine(changing=300) as url: ..."""

    def __init__(self, page=None, changing=300):
        path = pathlib.Path(page) if page else CAPTURED
        text = path.read_text() if path.exists() else made_page()
        self.parts, self.n_changing, self.n_served = [], 0, 0
        for line in text.splitlines(keepends=True):
            match = SAMPLE.match(line.rstrip("\n"))
            if match and COUNTER.match(match[1]) and self.n_changing < changing:
                self.parts.append((match[1], float(match[2])))
                self.n_changing += 1
            else:
                self.parts.append((line, None))

    def page(self):
        self.n_served += 1
        return "".join(name if value is None else f"{name} {value + self.n_served}\n" for name, value in self.parts).encode()

    def __enter__(self):
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path != "/metrics":
                    self.send_error(404)
                    return
                body = engine.page()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_address[1]}/metrics"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page")
    parser.add_argument("--changing", type=int, default=300)
    options = parser.parse_args()
    with FakeEngine(options.page, options.changing) as url:
        print(url, flush=True)
        threading.Event().wait()
