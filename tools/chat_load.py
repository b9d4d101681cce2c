#!/usr/bin/env python3
"""Sends streaming chats to an OpenAI-compatible server on this machine for a given time, and prints one JSON line.

  chat_load.py --port PORT [--seconds 25] [--tokens 64] [--infprof PATH]

Phases of 1, 4 and 8 streams share the time. Each stream is a thread that sends one chat after another; one chat in eleven is
closed early, as a user who has seen enough does. All prompts start with the same words, so that a prompt cache has something to
find. What is measured is measured here, at the client: TTFT from the send of the request to the first piece of text, ITL
between two pieces. With --infprof each phase is marked in the run that records the server.

Exit code: 0; 3 when the server never became healthy or its first chat failed; 1 when all later chats failed.
"""
import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time

HOST = "127.0.0.1"
PHASES = ((1, 0.25), (4, 0.35), (8, 0.40))  # streams, share of the time
CLOSE_EARLY_EVERY = 11

SHARED_WORDS = (
    "You are the assistant of a small workshop that repairs clocks. Answer in plain words, name the part you speak of, and say "
    "when you are not sure. The workshop keeps notes of each clock: its maker, its age, its escapement, the oil that was used, "
    "the last repair and who did it. Use these notes where they help. "
)
TOPICS = (
    "a pendulum clock that gains four minutes a day", "a striking train that stops at seven", "a balance wheel that swings too little",
    "a mainspring that slips on its arbor", "a carriage clock that was oiled with the wrong oil", "a chime that plays out of order",
    "a cuckoo whose bellows leak", "a regulator that loses time in winter",
)
DETAILS = (
    "Its owner says that it began last spring, after it was moved to a room with a stone floor. The case stands level, and the beat "
    "sounds even. The bushes of the third wheel look worn. Explain what to look at first, and in which order to take it apart."
)


class Tally:
    """What all streams saw. Times are in seconds, of the monotonic clock."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {"finished": 0, "closed_early": 0, "cut_off": 0, "errors": 0}
        self.tokens = 0
        self.errors = {}
        self.ttft = []
        self.itl = []

    def add(self, outcome, start, pieces):
        with self.lock:
            self.counts[outcome] += 1
            self.tokens += len(pieces)
            if pieces:
                self.ttft.append(pieces[0] - start)
                self.itl += [after - before for before, after in zip(pieces, pieces[1:])]

    def add_error(self, error):
        with self.lock:
            self.counts["errors"] += 1
            name = type(error).__name__
            self.errors[name] = self.errors.get(name, 0) + 1


def percentile(values, share):
    """Nearest rank, or None when there is nothing."""
    if not values:
        return None
    return sorted(values)[max(0, min(len(values) - 1, round(share * len(values) + 0.5) - 1))]


def milliseconds(values):
    result = {}
    for name, share in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99)):
        value = percentile(values, share)
        result[name] = None if value is None else round(value * 1000, 1)
    return result


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_healthy(port, seconds, pid):
    """llama.cpp answers 503 while it loads the model, and nothing before it listens. No need to wait for one that has died."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and (pid is None or is_alive(pid)):
        connection = http.client.HTTPConnection(HOST, port, timeout=2)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return True
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    return False


def prompt(number):
    return f"{SHARED_WORDS}Case {number}: {TOPICS[number % len(TOPICS)]}. {DETAILS}"


def has_text(line):
    """Is this line of the event stream a piece of the answer?"""
    if not line.startswith(b"data: {"):
        return False
    choices = json.loads(line[len(b"data: "):]).get("choices") or [{}]
    return bool(choices[0].get("delta", {}).get("content"))


def chat(port, number, tokens, deadline, timeout, stop_after=None):
    """One streaming chat. Returns how it ended, when it started and when each piece of text came.

    It is closed early after `stop_after` pieces, and cut off at the deadline, where the phase ends.
    """
    body = json.dumps({
        "messages": [{"role": "user", "content": prompt(number)}],
        "stream": True, "max_tokens": tokens, "temperature": 0.7, "seed": number, "ignore_eos": True,
    })
    start = time.monotonic()
    pieces = []
    connection = http.client.HTTPConnection(HOST, port, timeout=max(0.1, min(timeout, deadline - start)))
    try:
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise http.client.HTTPException(f"status {response.status}")
        for line in response:
            now = time.monotonic()
            if has_text(line):
                pieces.append(now)
            if stop_after and len(pieces) >= stop_after:
                return "closed_early", start, pieces
            if now > deadline:
                return "cut_off", start, pieces
    except TimeoutError:
        if time.monotonic() < deadline:
            raise
        return "cut_off", start, pieces
    finally:
        connection.close()
    return "finished", start, pieces


class Load:
    def __init__(self, options):
        self.options = options
        self.tally = Tally()
        self.lock = threading.Lock()
        self.number = 0

    def next_number(self):
        with self.lock:
            self.number += 1
            return self.number

    def stream(self, end):
        """One user: a chat after another until `end`."""
        while time.monotonic() < end:
            number = self.next_number()
            early = self.options.tokens // 4 if number % CLOSE_EARLY_EVERY == 0 else None
            try:
                self.tally.add(*chat(self.options.port, number, self.options.tokens, end, self.options.timeout, early))
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.tally.add_error(error)
                time.sleep(0.2)

    def mark(self, tag):
        """A mark is a help to the reader, not a part of the load: what goes wrong with it is left aside."""
        if self.options.infprof:
            subprocess.run([self.options.infprof, "mark", tag], timeout=10, check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run(self):
        for streams, share in PHASES:
            tag = f"{streams}-stream" + ("s" if streams > 1 else "")
            print(f"  {tag.replace('-', ' ')} for {share * self.options.seconds:.0f} s", file=sys.stderr)
            try:
                self.mark(tag)
            except (OSError, subprocess.TimeoutExpired):
                pass
            end = time.monotonic() + share * self.options.seconds
            threads = [threading.Thread(target=self.stream, args=(end,), daemon=True) for _ in range(streams)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=25, help="length of the load")
    parser.add_argument("--tokens", type=int, default=64, help="length of an answer")
    parser.add_argument("--timeout", type=float, default=20, help="seconds that a request may wait for the next byte")
    parser.add_argument("--start-timeout", type=float, default=60, help="seconds that the server may take to become healthy")
    parser.add_argument("--pid", type=int, help="process of the server: no waiting for the server once it is gone")
    parser.add_argument("--infprof", help="the infprof that records the server: each phase is marked in its run")
    return parser.parse_args()


def main():
    options = parse_arguments()
    if not wait_until_healthy(options.port, options.start_timeout, options.pid):
        print("The server did not become healthy.", file=sys.stderr)
        return 3
    try:
        _, _, pieces = chat(options.port, 0, 8, time.monotonic() + options.start_timeout, options.start_timeout)
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"The first chat failed: {error!r}", file=sys.stderr)
        return 3
    if not pieces:
        print("The first chat brought no text.", file=sys.stderr)
        return 3

    load = Load(options)
    start = time.monotonic()
    load.run()
    seconds = time.monotonic() - start
    tally = load.tally
    print(json.dumps({
        "measured_at": "client", "seconds": round(seconds, 1), "requests": sum(tally.counts.values()), **tally.counts,
        "errors_by_name": tally.errors, "tokens": tally.tokens, "tokens_per_s": round(tally.tokens / seconds, 1),
        "ttft_ms": milliseconds(tally.ttft), "itl_ms": milliseconds(tally.itl),
    }))
    return 0 if tally.tokens else 1


if __name__ == "__main__":
    sys.exit(main())
