#!/usr/bin/env python3
"""Makes corpus/symbols, corpus/jit and corpus/symbol_name anew: small programs of every shape that is read, maps and names."""
import pathlib
import struct
import subprocess
import tempfile

import make_unwind_corpus

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
SOURCE = """
int other(int);
__attribute__((noinline)) static int local_one(int x) { return other(x) * 3; }
int exported(int x) { return local_one(x) + other(x + 1); }
__asm__(".globl sizeless\\nsizeless:\\n nop\\n nop\\n ret\\n");
"""


def run(*words, **more):
    subprocess.run([str(word) for word in words], check=True, **more)


def claims(data):
    first, n = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    parts = [data[first + 56 * i : first + 56 * (i + 1)] for i in range(n)]
    dynamic = next(part for part in parts if part[:4] == b"\2\0\0\0")
    for at in range(struct.unpack_from("<Q", dynamic, 8)[0], len(data) - 16, 16):
        if struct.unpack_from("<Q", data, at)[0] == 0x6FFFFEF5:
            struct.pack_into("<I", data, struct.unpack_from("<Q", data, at + 8)[0], 0xFFFFFF)
            break
    struct.pack_into("<Q", data, 32, len(data))
    struct.pack_into("<H", data, 56, 64 * n)
    return bytes(data) + b"".join(parts) * 64


def elf():
    folder = HERE / "symbols"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        (temp / "a.c").write_text(SOURCE)
        common = ["gcc", "-O1", "-nostdlib", "-shared", "-fPIC", temp / "a.c", "-Wl,-z,noseparate-code", "-Wl,--build-id=0x0102030405"]
        run(*common, "-o", temp / "whole", "-fcf-protection=full", "-Wl,-z,ibtplt")
        run(*common, "-o", temp / "lazy", "-Wl,-z,lazy")
        run("strip", "-o", temp / "stripped", temp / "whole")
        run("objcopy", "--only-keep-debug", temp / "whole", temp / "x.debug")
        run("objcopy", "--add-gnu-debuglink=x.debug", temp / "stripped", temp / "linked", cwd=temp)
        run("nm", "-D", temp / "whole", stdout=subprocess.DEVNULL)
        run("objcopy", "-S", "--keep-symbol=local_one", temp / "whole", temp / "mini")
        run("xz", "-k", temp / "mini")
        run("objcopy", "--add-section", f".gnu_debugdata={temp}/mini.xz", temp / "stripped", temp / "packed")
        for name in "whole", "lazy", "stripped", "linked", "packed", "x.debug":
            (folder / name).write_bytes((temp / name).read_bytes())
        torn = (temp / "whole").read_bytes()
        (folder / "torn").write_bytes(torn[: len(torn) // 2])
        for style in "gnu", "sysv":  # without section headers: by what the loader goes by
            run(*common, "-o", temp / style, f"-Wl,--hash-style={style}")
            data = bytearray((temp / style).read_bytes())
            struct.pack_into("<Q", data, 40, 0)
            struct.pack_into("<HHH", data, 58, 64, 0, 0)
            (folder / f"no-sections-{style}").write_bytes(data)
            if style == "gnu":  # claims 16 million buckets, and has each part 64 times: a look-up a bucket never ends
                (folder / "no-sections-claims").write_bytes(claims(data))
    for version in make_unwind_corpus.GO_MAGIC:
        (folder / f"go-{version}").write_bytes(make_unwind_corpus.go_elf(version))


def jit():
    folder = HERE / "jit"
    folder.mkdir(exist_ok=True)
    (folder / "map").write_bytes(b"\0\x80" + b"1000 20 first one\n1000 10 second\nrubbish\n0x2000 zz bad\nfffffffffffff000 2000 wraps\n3000 1 torn")
    for order in "<", ">":
        head = struct.pack(order + "IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, 1, 5, 0)
        lines = struct.pack(order + "QQ", 0x1000, 2) + struct.pack(order + "QII", 0x1000, 3, 0) + b"a.py\0" + struct.pack(order + "QII", 0x1004, 4, 0) + b"\xff\0"
        load = struct.pack(order + "IIQQQQ", 1, 1, 0x1000, 0x1000, 8, 1) + b"py::f\0" + b"\xc3" * 8
        move = struct.pack(order + "IIQQQQQ", 1, 1, 0x1000, 0x1000, 0x3000, 8, 1)
        records = b"".join(struct.pack(order + "IIQ", kind, 16 + len(body), 10 + kind) + body for kind, body in ((2, lines), (0, load), (1, move), (3, b"")))
        (folder / ("dump-little" if order == "<" else "dump-big")).write_bytes(b"\1\x90" + head + records)


def names():  # too-long was found by the fuzzer
    folder = HERE / "symbol_name"
    folder.mkdir(exist_ok=True)
    for i, name in enumerate((b"_ZNK4acme3BoxIiE3getEi.isra.0", b"_ZZ5outeriENKUliE_clEi", b"_RNvMs_NtCs1234_7mycrate3barNtB4_3Bar3baz",
                              b"_ZN4core3fmt9Formatter3pad17h4a8a1a9e6f2b0c3dE", b"a\nb\x1b[31m\xff\\\xc2\x85",
                              b"_Z1f1XIiiE" + b"".join(b"S_IS%c_S%c_E" % (c, c) for c in b"0123456789ABCDEFGHIJ"))):
        (folder / str(i)).write_bytes(name)


if __name__ == "__main__":
    elf()
    jit()
    names()
