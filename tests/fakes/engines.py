"""Stand-ins for inference servers: they refuse what the real ones refuse (method, path, Content-Type, fields, types) and answer in
their shapes, streams and metrics pages included. One class a server; nothing but the standard library.

From their sources: vLLM 0.32 (entrypoints/serve/utils, openai/*/protocol.py; captures in ../shared/fixtures/engines), SGLang 0.5
(srt/entrypoints/http_server.py, openai/protocol.py), TGI 3.3 (router/src/server.rs, lib.rs), Triton's OpenAI frontend 26.x
(python/openai) and Ollama 0.12 (openai/openai.go, server/routes.go).

    with serve(VLLM) as server: ... server.url, server.posts [(path, headers, body)], server.refusals
Run alone it prints its URL and serves until it is killed:  engines.py vllm|sglang|tgi|triton|ollama [PORT]
"""
import contextlib
import http.server
import json
import sys
import threading
import time

MODEL = "tiny"
WORDS = [" one", " two", " three", " four", " five"]
NUMBER = (int, float)


class Refusal(Exception):
    def __init__(self, status, body, kind="application/json"):
        self.status, self.kind = status, kind
        self.body = body if isinstance(body, str) else json.dumps(body)


class Engine(http.server.BaseHTTPRequestHandler):
    """What all have in common. FIELDS: types of the members that it knows; others are passed over (none of the five forbids them).
    REQUIRED: those without which it refuses."""
    protocol_version = "HTTP/1.1"
    COMMON = {"model": str, "max_tokens": int, "temperature": NUMBER, "top_p": NUMBER, "seed": int, "stream": bool, "stream_options": dict}
    FIELDS = {"/v1/completions": {**COMMON, "prompt": str}, "/v1/chat/completions": {**COMMON, "messages": list}}
    REQUIRED = {"/v1/completions": ["prompt"], "/v1/chat/completions": ["messages"]}
    PAGES = {}
    done = True  # its streams end in [DONE]

    def log_message(self, *_):
        pass

    # Answers
    def answer(self, status, body, kind="application/json"):
        body = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def event(self, data):
        data = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
        text = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()

    def error(self, status, message):
        return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}

    def refuse(self, status, message):
        raise Refusal(status, self.error(status, message))

    def invalid(self, field, problem):
        self.refuse(400, f"{field}: {problem}")

    # Requests
    def do_GET(self):
        if self.path == "/v1/models":
            return self.answer(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": self.name}]})
        if self.path in self.PAGES:
            status, body, kind = self.PAGES[self.path]
            return self.answer(status, body.format(n=self.server.n, tokens=self.server.n_tokens) if isinstance(body, str) else body, kind)
        return self.answer(404, *self.not_found())

    def not_found(self):
        return {"detail": "Not Found"}, "application/json"

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            if self.path not in self.FIELDS:
                self.answer(404, *self.not_found())
                return
            self.check_type(self.headers.get("Content-Type", ""))
            try:
                body = json.loads(raw)
            except ValueError:
                self.invalid("body", "JSON decode error")
            self.server.posts.append((self.path, dict(self.headers), body))
            self.check_body(body)
        except Refusal as refusal:
            self.server.refusals.append((refusal.status, refusal.body))
            self.answer(refusal.status, refusal.body, refusal.kind)
            return
        n = min(body.get("max_tokens", len(WORDS)), len(WORDS))
        self.server.n += 1
        self.server.n_tokens += n
        (self.stream if body.get("stream") else self.whole)(body, n)

    def is_json(self, kind):
        return kind.split(";")[0].strip().lower() == "application/json"

    def check_type(self, kind):
        pass

    def check_body(self, body):
        if not isinstance(body, dict):
            self.invalid("body", "Input should be a valid dictionary")
        for field in self.REQUIRED[self.path]:
            if not body.get(field):
                self.invalid(field, "Field required")
        for field, kind in self.FIELDS[self.path].items():
            value = body.get(field)
            if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
                self.invalid(field, f"Input should be a valid {getattr(kind, '__name__', 'number')}")
        if body.get("max_tokens", 1) < 1:
            self.invalid("max_tokens", "must be at least 1")
        if body.get("stream_options") and not body.get("stream"):
            self.invalid("stream_options", "Stream options can only be defined when `stream=True`.")
        for message in body.get("messages", []):
            if not isinstance(message, dict) or not isinstance(message.get("role"), str) or "content" not in message:
                self.invalid("messages", "Field required: role, content")

    # The shapes of answers
    def is_chat(self):
        return self.path.endswith("/chat/completions")

    def frame(self, body, **members):
        kind = "chat.completion" if self.is_chat() else "text_completion"
        return {"id": f"cmpl-{self.server.n}", "object": kind + (".chunk" if self.is_chat() and body.get("stream") else ""),
                "created": int(time.time()), "model": MODEL, **members}

    def choice(self, text, reason, **members):
        text = {"delta": {"content": text}} if self.is_chat() else {"text": text}
        return {"index": 0, **text, "logprobs": None, "finish_reason": reason, **members}

    def usage(self, n):
        return {"prompt_tokens": 7, "total_tokens": 7 + n, "completion_tokens": n}

    def open_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def close_stream(self):
        if self.done:
            self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def stream(self, body, n):
        self.open_stream()
        if self.is_chat():
            self.event(self.frame(body, choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]))
        self.events(body, n)
        self.close_stream()

    def events(self, body, n):
        for i in range(n):
            self.event(self.frame(body, choices=[self.choice(WORDS[i], "length" if i == n - 1 else None)]))
        if (body.get("stream_options") or {}).get("include_usage"):
            self.event(self.frame(body, choices=[], usage=self.usage(n)))

    def whole(self, body, n):
        text = "".join(WORDS[:n])
        choice = {"message": {"role": "assistant", "content": text}} if self.is_chat() else {"text": text}
        self.answer(200, self.frame(body, choices=[{"index": 0, **choice, "finish_reason": "length"}], usage=self.usage(n)))


def metrics(text):
    return 200, text, "text/plain; version=0.0.4; charset=utf-8"


class VLLM(Engine):
    """extra="allow"; Content-Type by validate_json_request, a 400."""
    name = "vllm"
    PAGES = {"/health": (200, "", "text/plain"), "/version": (200, '{{"version":"0.32.0"}}', "application/json"),
             "/metrics": metrics('# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{engine="0",model_name="tiny"}} 0.0\n'
                                 '# TYPE vllm:generation_tokens_total counter\n'
                                 'vllm:generation_tokens_total{{engine="0",model_name="tiny"}} {tokens}.0\n')}

    def check_type(self, kind):
        if not self.is_json(kind):
            self.refuse(400, "Unsupported Media Type: Only 'application/json' is allowed")

    def check_body(self, body):
        super().check_body(body)
        if body.get("model") not in (None, MODEL):
            self.refuse(404, f"The model `{body['model']}` does not exist. Valid aliases: {MODEL}.")


class SGLang(VLLM):
    """Its errors have no member `error`; it does not look at the model's name."""
    name = "sglang"
    PAGES = {"/health": (200, "", "text/plain"), "/server_info": (200, '{{"version":"0.5.6"}}', "application/json"),
             "/metrics": metrics('# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{{model_name="tiny"}} 0.0\n'
                                 '# TYPE sglang:generation_tokens_total counter\n'
                                 'sglang:generation_tokens_total{{model_name="tiny"}} {tokens}.0\n')}

    def error(self, status, message):
        return {"object": "error", "message": message, "type": "Bad Request", "param": None, "code": status}

    def check_body(self, body):
        Engine.check_body(self, body)

    def events(self, body, n):
        for word in WORDS[:n]:
            self.event({**self.frame(body, choices=[self.choice(word, None, matched_stop=None)]), "usage": None})
        self.event({**self.frame(body, choices=[self.choice("", "length", matched_stop=None)]), "usage": None})
        if (body.get("stream_options") or {}).get("include_usage"):
            self.event(self.frame(body, choices=[], usage=self.usage(n)))


class TGI(Engine):
    """Rust: axum's Json refuses another Content-Type with a 415 in plain words and wrong types with a 422; completions give an empty
    finish_reason until the last, which holds the usage."""
    name = "tgi"
    FIELDS = {"/v1/completions": {**Engine.COMMON, "prompt": (str, list), "stream_options": object, "suffix": str},
              "/v1/chat/completions": {**Engine.COMMON, "messages": list}}
    PAGES = {"/health": (200, "", "text/plain"), "/info": (200, '{{"model_id":"tiny","version":"3.3.6"}}', "application/json"),
             "/metrics": metrics("# TYPE tgi_request_success counter\ntgi_request_success {n}\n"
                                 "# TYPE tgi_queue_size gauge\ntgi_queue_size 0\n")}

    def check_type(self, kind):
        if not self.is_json(kind):
            raise Refusal(415, "Expected request with `Content-Type: application/json`", "text/plain; charset=utf-8")

    def invalid(self, field, problem):
        if problem.startswith("Stream options"):
            return
        if field == "max_tokens" and problem.startswith("must"):
            raise Refusal(422, {"error": "Input validation error: `max_new_tokens` must be strictly positive", "error_type": "validation"})
        raise Refusal(422, f"Failed to deserialize the JSON body into the target type: {field}: {problem}", "text/plain; charset=utf-8")

    def not_found(self):
        return "", "text/plain"

    def events(self, body, n):
        if self.is_chat():
            return super().events(body, n)
        for i in range(n):
            last = i == n - 1
            usage = {"usage": self.usage(n)} if last else {}
            self.event(self.frame(body, choices=[self.choice(WORDS[i], "length" if last else "")], **usage))
        return None


class Triton(Engine):
    """The OpenAI frontend: FastAPI, which takes a body of another Content-Type for bytes; the model's name is required; no /health."""
    name = "Triton Inference Server"
    REQUIRED = {"/v1/completions": ["model", "prompt"], "/v1/chat/completions": ["model", "messages"]}
    PAGES = {"/health/ready": (200, "", "text/plain"),
             "/metrics": metrics("# TYPE nv_inference_request_success counter\n"
                                 'nv_inference_request_success{{model="tiny",version="1"}} {n}\n')}

    def error(self, status, message):
        return {"detail": message}

    def invalid(self, field, problem):
        if problem.startswith("Stream options"):
            self.refuse(400, "`stream_options` can only be used when `stream` is True")
        raise Refusal(422, {"detail": [{"type": "missing", "loc": ["body", field], "msg": problem}]})

    def check_type(self, kind):
        if kind and not self.is_json(kind):
            self.invalid("body", "Input should be a valid dictionary or object to extract fields from")

    def check_body(self, body):
        super().check_body(body)
        if body["model"] != MODEL:
            self.refuse(400, f"Unknown model: {body['model']}")

    def events(self, body, n):
        for i in range(n):
            self.event(self.frame(body, choices=[self.choice(WORDS[i], "stop" if i == n - 1 else None)]))
        if (body.get("stream_options") or {}).get("include_usage"):
            self.event(self.frame(body, choices=[], usage=self.usage(n)))


class Ollama(Engine):
    """Go: gin does not look at the Content-Type, encoding/json passes unknown members over and refuses wrong types; no /health, no
    /metrics. With include_usage each chunk has a usage, of zeros until the last."""
    name = "library"
    PAGES = {"/": (200, "Ollama is running", "text/plain"), "/api/version": (200, '{{"version":"0.12.6"}}', "application/json"),
             "/api/ps": (200, '{{"models":[{{"name":"tiny"}}]}}', "application/json")}

    def error(self, status, message):
        return {"error": {"message": message, "type": "invalid_request_error" if status == 400 else "not_found_error", "param": None,
                          "code": None}}

    def invalid(self, field, problem):
        if not problem.startswith("Stream options"):
            self.refuse(400, f"json: cannot unmarshal into Go struct field CompletionRequest.{field}: {problem}")

    def not_found(self):
        return "404 page not found", "text/plain"

    def check_body(self, body):
        super().check_body(body)
        if body.get("model") != MODEL:
            self.refuse(404, f"model '{body.get('model', '')}' not found")

    def events(self, body, n):
        has_usage = (body.get("stream_options") or {}).get("include_usage")
        empty = {"usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}} if has_usage else {}
        for word in WORDS[:n]:
            self.event(self.frame(body, choices=[self.choice(word, None)], **empty))
        self.event(self.frame(body, choices=[self.choice("", "length")], **empty))
        if has_usage:
            self.event(self.frame(body, choices=[], usage=self.usage(n)))


ENGINES = {"vllm": VLLM, "sglang": SGLang, "tgi": TGI, "triton": Triton, "ollama": Ollama}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, engine, port=0):
        super().__init__(("127.0.0.1", port), engine)
        self.posts, self.refusals, self.n, self.n_tokens = [], [], 0, 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        pass


@contextlib.contextmanager
def serve(engine, port=0):
    with Server(engine, port) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


if __name__ == "__main__":
    alone = Server(ENGINES[sys.argv[1]], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(alone.url, flush=True)
    alone.serve_forever()
