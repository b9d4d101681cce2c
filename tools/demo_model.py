#!/usr/bin/env python3
"""A Python inference loop in the shape of a language model, for the demo: numpy alone, random weights, the numbers mean nothing. What
counts is where its time goes: Python functions of their own names and lines, with numpy's and BLAS's native code below them.

  demo_model.py [--seconds 8]

Each step runs the layers of a small transformer on one token, with a cache of keys and values, and samples the next one. Prints
one line on what it did.
"""
import argparse
import os
import time

# Matrices of this size are done before a second thread has begun: it would only wait busily.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy  # noqa: E402

WIDTH, HEADS, LAYERS, WORDS, CONTEXT = 512, 8, 6, 8000, 256
rng = numpy.random.default_rng(1)


def weights(*shape):
    return rng.standard_normal(shape, dtype=numpy.float32) / numpy.float32(shape[0] ** 0.5)


def normalise(x):
    return x / numpy.sqrt(numpy.mean(x * x) + 1e-6)


def softmax(x):
    x = numpy.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


class Layer:
    def __init__(self):
        self.qkv, self.out = weights(WIDTH, 3 * WIDTH), weights(WIDTH, WIDTH)
        self.up, self.down = weights(WIDTH, 4 * WIDTH), weights(4 * WIDTH, WIDTH)
        self.keys = numpy.zeros((CONTEXT, HEADS, WIDTH // HEADS), numpy.float32)
        self.values = numpy.zeros_like(self.keys)

    def attention(self, x, n):
        q, k, v = (x @ self.qkv).reshape(3, HEADS, -1)
        self.keys[n], self.values[n] = k, v
        scores = numpy.einsum("hd,thd->ht", q, self.keys[:n + 1]) / q.shape[-1] ** 0.5
        return numpy.einsum("ht,thd->hd", softmax(scores), self.values[:n + 1]).reshape(-1) @ self.out

    def feed_forward(self, x):
        hidden = x @ self.up
        return numpy.maximum(hidden, 0) @ self.down

    def forward(self, x, n):
        x = x + self.attention(normalise(x), n)
        return x + self.feed_forward(normalise(x))


class Model:
    def __init__(self):
        self.words, self.layers = weights(WORDS, WIDTH), [Layer() for _ in range(LAYERS)]

    def sample(self, x):
        chances = softmax(self.words @ normalise(x))
        return int(numpy.searchsorted(numpy.cumsum(chances), rng.random() * chances.sum(), side="right")) % WORDS

    def decode(self, word, n):
        x = self.words[word]
        for layer in self.layers:
            x = layer.forward(x, n)
        return self.sample(x)


def generate(model, until):
    tokens = 0
    while time.monotonic() < until:
        word = 1
        for n in range(CONTEXT):
            word = model.decode(word, n)
            tokens += 1
            if time.monotonic() >= until:
                break
    return tokens


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8)
    seconds = parser.parse_args().seconds
    tokens = generate(Model(), time.monotonic() + seconds)
    print(f"{tokens} tokens, {tokens / seconds:.0f} a second, by numpy {numpy.__version__}")


main()
