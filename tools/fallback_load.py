#!/usr/bin/env python3
"""A load in the shape of inference for machines that cannot run the demo's server: no network, no model, standard library only.

  fallback_load.py [--seconds 20]

A front process with four client threads hands prompts to a worker process, as engines are built. The worker loads "weights"
(allocates and fills memory), then serves one request after another: prefill works on the whole prompt at once, decode makes one
token after another and appends to a cache that grows and is dropped with the request. numpy is used where it is installed. The
numbers that come out mean nothing; the processes, threads, memory and CPU time are real. Prints one JSON line on what it did.
"""
import argparse
import json
import multiprocessing
import os
import queue
import random
import sys
import threading
import time

try:
    import numpy
except ImportError:
    numpy = None

WEIGHT_BYTES = 96 << 20
CLIENTS = 4


class PythonModel:
    """Matrix times vector in plain Python: slow, so the matrices are small."""
    name, width, layers = "python", 64, 2

    def __init__(self):
        self.ballast = bytearray(os.urandom(1 << 20)) * (WEIGHT_BYTES >> 20)
        self.weights = [[[random.uniform(-0.1, 0.1) for _ in range(self.width)] for _ in range(self.width)] for _ in range(self.layers)]

    def step(self, vector):
        for matrix in self.weights:
            vector = [max(0.0, sum(weight * value for weight, value in zip(row, vector))) for row in matrix]
        return vector

    def prefill(self, length):
        return [self.step([1.0] * self.width) for _ in range(length)]

    def decode(self, cache):
        cache.append(self.step(cache[-1]))


class NumpyModel:
    name, width, layers = "numpy", 1024, 24

    def __init__(self):
        self.weights = [numpy.full((self.width, self.width), 0.001, numpy.float32) for _ in range(self.layers)]

    def step(self, rows):
        for matrix in self.weights:
            rows = numpy.maximum(rows @ matrix, 0.0) + rows * 0.5
            rows /= 1.0 + numpy.abs(rows).max()
        return rows

    def prefill(self, length):
        return list(self.step(numpy.ones((length, self.width), numpy.float32)))

    def decode(self, cache):
        cache.append(self.step(cache[-1][None, :])[0])


def requests_until_none(requests, parent):
    """Ends too when the parent was killed: nobody would hand us None then, and we would stay."""
    while os.getppid() == parent:
        try:
            request = requests.get(timeout=1)
        except queue.Empty:
            continue
        if request is None:
            return
        yield request


def work(requests, answers, parent):
    """The worker: until it is handed None."""
    model = NumpyModel() if numpy else PythonModel()
    answers.put(("ready", model.name))
    for client, prompt_tokens, answer_tokens in requests_until_none(requests, parent):
        cache = model.prefill(prompt_tokens)
        for _ in range(answer_tokens):
            model.decode(cache)
        answers.put((client, answer_tokens))


class Front:
    """Waits for answers in one thread, lets clients ask in others."""

    def __init__(self, requests, answers, end):
        self.requests, self.answers, self.end = requests, answers, end
        self.inboxes = [queue.Queue() for _ in range(CLIENTS)]
        self.done = [0] * CLIENTS
        self.tokens = [0] * CLIENTS

    def dispatch(self):
        for client, tokens in iter(self.answers.get, None):
            self.inboxes[client].put(tokens)

    def client(self, number):
        dice = random.Random(number)
        while time.monotonic() < self.end:
            self.requests.put((number, dice.randint(64, 192), dice.randint(16, 64)))
            self.tokens[number] += self.inboxes[number].get(timeout=60)
            self.done[number] += 1
            time.sleep(dice.uniform(0.0, 0.2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()

    start = time.monotonic()
    processes = multiprocessing.get_context("fork")
    requests, answers = processes.Queue(), processes.Queue()
    worker = processes.Process(target=work, args=(requests, answers, os.getpid()), daemon=True)
    worker.start()
    _, model = answers.get()
    front = Front(requests, answers, start + options.seconds)
    dispatcher = threading.Thread(target=front.dispatch, daemon=True)
    clients = [threading.Thread(target=front.client, args=(number,)) for number in range(CLIENTS)]
    for thread in [dispatcher, *clients]:
        thread.start()
    for thread in clients:
        thread.join()
    requests.put(None)
    worker.join()
    answers.put(None)
    dispatcher.join()

    seconds = time.monotonic() - start
    print(json.dumps({
        "load": "fallback", "model": model, "seconds": round(seconds, 1), "processes": 2, "client_threads": CLIENTS,
        "requests": sum(front.done), "tokens": sum(front.tokens), "tokens_per_s": round(sum(front.tokens) / seconds, 1),
    }))


if __name__ == "__main__":
    sys.exit(main())
