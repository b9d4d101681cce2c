#!/usr/bin/env python3
"""A small language model in PyTorch, for the demo: random weights, the tokens mean nothing. Requests come one after the other, each a prefill
of 48 tokens and 32 steps of decoding with a cache of keys and values. Its modules have the names that checkpoints of Llama have.

  demo_torch.py [--seconds 8]
"""
import argparse
import time

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, WORDS, PROMPT, ANSWER = 256, 4, 4, 4000, 48, 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv_proj, self.o_proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, cache):
        batch, words, _ = x.shape
        query, *kept = (part.view(batch, words, HEADS, -1).transpose(1, 2) for part in self.qkv_proj(x).chunk(3, -1))
        key, value = cache[:] = [torch.cat((old, new), 2) for old, new in zip(cache, kept)] if cache else kept
        scores = query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        if words > 1:
            scores = scores + torch.full((words, key.shape[2]), float("-inf")).triu(key.shape[2] - words + 1)
        return self.o_proj((scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, words, WIDTH))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (nn.Linear(*shape, bias=False) for shape in
                                                        ((WIDTH, 3 * WIDTH), (WIDTH, 3 * WIDTH), (3 * WIDTH, WIDTH)))

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.self_attn, self.post_attention_layernorm, self.mlp = \
            nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), FeedForward()

    def forward(self, x, cache):
        x = x + self.self_attn(self.input_layernorm(x), cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.norm, self.lm_head = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, words, caches):
        x = self.embed_tokens(words)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache)
        return self.lm_head(self.norm(x[:, -1:])).argmax(-1)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8)
    end = time.monotonic() + parser.parse_args().seconds
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model, answered = Model().eval(), 0
    while time.monotonic() < end:
        caches = [[] for _ in range(LAYERS)]
        word = model(torch.randint(WORDS, (1, PROMPT)), caches)
        for _ in range(ANSWER):
            word = model(word, caches)
        answered += 1
    print(f"{answered} requests, {answered * (ANSWER + 1)} tokens")


if __name__ == "__main__":
    main()
