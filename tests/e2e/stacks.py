"""Stacks of a run, read from its tables and named by nm(1): what the sampler recorded, without infprof's own symbols and SQL."""
import bisect
import collections
import gzip
import math
import os
import re
import subprocess

# The most of a computing program's time that the kernel may need (2.5 percent were measured): samples of a normal user lack it.
KERNEL_PART = 0.06
UNSEEN = 0 if os.geteuid() == 0 else KERNEL_PART
Sample = collections.namedtuple("Sample", "names tid process cpu weight state mode is_truncated is_guessed objects address")


class Names:
    """Functions of an ELF file by address."""

    def __init__(self, path):
        lines = subprocess.run(["nm", "-n", "--defined-only", str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout
        found = [line.split() for line in lines.splitlines()]
        self.at = [(int(words[0], 16), words[2]) for words in found if len(words) == 3 and words[1] in "tTwWiV"]
        self.begins = [address for address, _ in self.at]

    def __getitem__(self, address):
        index = bisect.bisect_right(self.begins, address) - 1
        return self.at[index][1] if index >= 0 else hex(address)


def is_share(k, n, p, extra=0.0):
    """Whether k of n independent draws may be those of a share within `extra` of p. By the exact binomial distribution: true values
    fail once in a million times. Samples at even distances scatter less than independent ones."""
    def chance(share, counts):
        return sum(math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(share) +
                            (n - i) * math.log1p(-share)) for i in counts)

    low, high = max(p - extra, 1e-9), min(p + extra, 1 - 1e-9)
    if low * n <= k <= high * n:
        return True
    return (chance(low, range(k + 1)) if k < low * n else chance(high, range(k, n + 1))) >= 5e-7


def object_name(path):
    """The last word of an object's path as the kernel says it."""
    return os.path.basename(re.sub(r" \(deleted\)$", "", path or "?"))


class Profile:
    """binaries: {base name of an object: an ELF file whose symbols are its}. Frames of other objects are "OBJECT+"."""

    def __init__(self, run, binaries=None, mode="cpu"):
        names = {name: Names(path) for name, path in (binaries or {}).items()}
        self.frames = {row["id"]: row for row in run.table("frames")}
        self.nodes = {row["id"]: row for row in run.table("stacks")}
        self.mappings = run.table("mappings")
        self.threads = {row["id"]: row for row in run.table("threads")}
        self.sampler = run.table("sampler")
        named, known = {}, {}

        def name(frame_id):
            if frame_id not in named:
                frame = self.frames[frame_id]
                where = object_name(frame["fObject"])
                if frame["fKind"] == "kernel":
                    text = "[kernel]"
                elif where in names and frame["fAddress"] is not None:
                    text = names[where][frame["fAddress"]]
                else:
                    text = f"{where}+"
                named[frame_id] = (text, bool(frame["fIsGuessed"]), where)
            return named[frame_id]

        def path(node_id):
            todo = []
            while node_id is not None and node_id not in known:
                todo.append(node_id)
                node_id = self.nodes[node_id]["parent"]
            for node in reversed(todo):
                parent = self.nodes[node]["parent"]
                known[node] = (known[parent] if parent is not None else ()) + (name(self.nodes[node]["frame"]),)
            return known[todo[0] if todo else node_id]

        self.samples = []
        for row in run.table("stack_samples"):
            if row["mode"] != mode:
                continue
            frames = path(row["stack"]) if row["stack"] is not None else ()
            assert row["samples"] == 1, row
            self.samples.append(Sample(tuple(text for text, _, _ in frames), row["tid"], row["process"], row["cpu"], row["weight"],
                                       row["state"], row["mode"], bool(row["is_truncated"]), any(guess for _, guess, _ in frames),
                                       tuple(where for _, _, where in frames), self.address(row["stack"])))

    def address(self, node):
        """Of the innermost instruction, in its object."""
        return self.frames[self.nodes[node]["frame"]]["fAddress"] if node is not None else None

    def last(self, pattern):
        """Samples by the innermost function that matches; those without one are left out."""
        counts = collections.Counter()
        for sample in self.samples:
            for text in reversed(sample.names):
                if re.fullmatch(pattern, text):
                    counts[text] += 1
                    break
        return counts

    def counter(self, column):
        """The last value of a counter of the table sampler, over its modes."""
        return sum({row["mode"]: row[column] or 0 for row in self.sampler}.values())


def folded(text):
    """(names root first, count) of folded stacks."""
    rows = []
    for line in text.splitlines():
        stack, count = line.rsplit(" ", 1)
        rows.append((tuple(stack.split(";")), int(count)))
    return rows


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """(number, value) of a protocol buffer: integers, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = 8 if key & 7 == 1 else 4
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def packed(value):
    if isinstance(value, int):
        return [value]
    values, at = [], 0
    while at < len(value):
        one, at = varint(value, at)
        values.append(one)
    return values


def pprof(data):
    """(names root first, first value) of a profile of pprof, inlined functions as frames of their own."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    samples, locations, functions, strings = [], {}, {}, []
    for number, value in fields(data):
        if number == 2:
            ids, values = [], []
            for field, part in fields(value):
                if field == 1:
                    ids += packed(part)
                elif field == 2:
                    values += packed(part)
            samples.append((ids, values))
        elif number == 4:
            parts = list(fields(value))
            lines = [dict(fields(part)) for field, part in parts if field == 4]
            locations[dict(parts)[1]] = [line.get(1) for line in lines]  # the innermost inlined function first
        elif number == 5:
            function = dict(fields(value))
            functions[function[1]] = function.get(2, 0)
        elif number == 6:
            strings.append(value.decode())
    rows = []
    for ids, values in samples:
        names = [strings[functions[function]] for location in ids for function in locations[location]]
        rows.append((tuple(reversed(names)), values[0]))
    return rows
