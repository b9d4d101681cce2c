#!/usr/bin/env python3
"""Makes tests/fuzz/corpus/python: memory with an interpreter, two threads, frames and a code object, for fuzz_python.c; and such
that begins with a task of asyncio, its coroutine and a callback."""
import pathlib
import struct

BASE = 0x10000
# Offsets of src/unwind/python/layout.c, and the words of _Py_DebugOffsets of 3.13.0.
WORDS_13 = [
    0x7967756265647078, 0x30d00f0, 0, 283320, 608, 632, 194968, 1272, 1264, 1344, 1400, 1656, 1640, 1648, 16, 752, 0, 768, 760, 304, 0, 8, 16,
    72, 152, 160, 232, 32, 80, 8, 0, 56, 72, 70, 208, 112, 120, 128, 136, 68, 52, 96, 104, 200, 16, 8, 416, 24, 88, 168, 32, 24, 16, 40, 24, 16,
    48, 32, 40, 24, 16, 32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 240, 200]
VERSIONS = {
    8: dict(runtime=32, next=0, threads=8, thread_frame=24, cframe=None, chunk=None, previous=24, code=32, instruction=104, owner=None,
            file=104, name=112, qualname=None, line=40, table=120, ascii=48, units=None),
    10: dict(runtime=32, next=0, threads=8, thread_frame=24, cframe=None, chunk=None, previous=24, code=32, instruction=96, owner=None,
             file=104, name=112, qualname=None, line=40, table=120, ascii=48, units=None),
    11: dict(runtime=40, next=0, threads=16, thread_frame=56, cframe=8, chunk=296, previous=48, code=32, instruction=56, owner=69,
             file=112, name=120, qualname=128, line=72, table=136, ascii=48, units=16),
    12: dict(runtime=40, next=0, threads=72, thread_frame=56, cframe=0, chunk=232, previous=8, code=0, instruction=56, owner=70,
             file=112, name=120, qualname=128, line=68, table=136, ascii=40, units=16),
    13: dict(runtime=632, next=1264, threads=1344, thread_frame=72, cframe=None, chunk=232, previous=8, code=0, instruction=56, owner=70,
             file=112, name=120, qualname=128, line=68, table=136, ascii=40, units=16),
}


class Memory:
    def __init__(self, head):
        self.bytes = bytearray(head)

    def take(self, size):
        at = len(self.bytes)
        self.bytes += bytes(size + -size % 16)
        return BASE + at

    def put(self, address, value, form="<Q"):
        struct.pack_into(form, self.bytes, address - BASE, value)


def text(memory, at, value):
    address = memory.take(at["ascii"] + len(value))
    memory.put(address + 16, len(value))
    memory.put(address + 32, (1 | 8 | 16) << 2, "<I")
    memory.bytes[address - BASE + at["ascii"]:address - BASE + at["ascii"] + len(value)] = value
    return address


def make(minor, is_cycle):
    at = VERSIONS[minor]
    memory = Memory(struct.pack(f"<{len(WORDS_13)}Q", *WORDS_13) + bytes(256) if minor == 13 else bytes(256))
    interpreter, threads = memory.take(1600), [memory.take(320), memory.take(320)]
    table = memory.take(64)
    memory.put(table + 16, 6)
    memory.bytes[table - BASE + 32:table - BASE + 38] = bytes([0x80, 0, 0xd9, 5, 6, 0x40]) if minor > 10 else bytes([4, 1, 4, 1, 6, 0x80])
    code = memory.take(256)
    memory.put(code + at["file"], text(memory, at, b"model.py"))
    memory.put(code + at["name"], text(memory, at, b"forward"))
    if at["qualname"]:
        memory.put(code + at["qualname"], text(memory, at, b"Model.forward"))
        memory.put(code + at["units"], 20)
    memory.put(code + at["table"], table)
    memory.put(code + at["line"], 7, "<I")
    chunk = memory.take(1024)
    memory.put(chunk + 8, 1024)
    previous = chunk + 64 if is_cycle else 0
    for frame in (chunk + 64, chunk + 192, chunk + 320):
        memory.put(frame + at["code"], code)
        memory.put(frame + at["previous"], previous)
        memory.put(frame + at["instruction"], code + 200 if at["chunk"] else 2, "<Q" if at["chunk"] else "<I")
        previous = frame
    memory.put(BASE + at["runtime"], interpreter)
    memory.put(interpreter + at["threads"], threads[0])
    memory.put(threads[0] + 8, threads[1])
    for thread in threads:
        memory.put(thread + 16, interpreter)
        if at["chunk"]:
            memory.put(thread + at["chunk"], chunk)
        if at["cframe"] is None:
            memory.put(thread + at["thread_frame"], previous)
        else:
            cframe = memory.take(32)
            memory.put(cframe + at["cframe"], previous)
            memory.put(thread + at["thread_frame"], cframe)
    return bytes([minor - 8]) + memory.bytes


# Of a task: its waiter (then the coroutine, the name); of a coroutine: its frame, its state.
TASKS = {8: (104, 16, None), 10: (152, 16, None), 11: (128, 80, 75), 12: (128, 72, 67)}


def new_type(memory, name, flags=0):
    address, at = memory.take(512), memory.take(len(name) + 1)
    memory.bytes[at - BASE:at - BASE + len(name)] = name
    memory.put(address + 24, at)
    memory.put(address + 32, 200)
    memory.put(address + 168, flags)
    return address


def make_task(minor):
    waiter, frame, state = TASKS[minor]
    memory = Memory(bytes(256))
    coroutine, method, pairs, pair = memory.take(512), memory.take(64), memory.take(48), memory.take(48)
    memory.put(BASE + 8, new_type(memory, b"_asyncio.Task"))
    memory.put(BASE + 24, method)
    memory.put(BASE + 40, pairs)
    memory.put(BASE + waiter, BASE)
    memory.put(BASE + waiter + 8, coroutine)
    name = text(memory, VERSIONS[minor], b"Task-1")
    memory.put(name + 8, new_type(memory, b"str"))
    memory.put(BASE + waiter + 16, name)
    memory.put(coroutine + 8, new_type(memory, b"coroutine"))
    if state:
        memory.put(coroutine + state, 255, "<B")
    else:
        memory.put(coroutine + frame, coroutine + 128)
    memory.put(method + 8, new_type(memory, b"method"))
    memory.put(method + 24, BASE)
    is_tuple = new_type(memory, b"tuple", 1 << 26)
    for address, size, item in ((pairs, 1, pair), (pair, 2, method)):
        memory.put(address + 8, is_tuple)
        memory.put(address + 16, size)
        memory.put(address + 24, item)
    return bytes([minor - 8]) + memory.bytes


folder = pathlib.Path(__file__).parent / "corpus" / "python"
folder.mkdir(exist_ok=True)
for number in VERSIONS:
    (folder / f"python-3.{number}").write_bytes(make(number, False))
    (folder / f"cycle-3.{number}").write_bytes(make(number, True))
for number in TASKS:
    (folder / f"task-3.{number}").write_bytes(make_task(number))
(folder / "words").write_bytes(bytes([7]) + struct.pack(f"<{len(WORDS_13)}Q", *WORDS_13) * 4)
