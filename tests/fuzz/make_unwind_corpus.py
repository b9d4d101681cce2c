#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/unwind: call frame information, ELF files and patched tables, made from what the formats say.

  make_unwind_corpus.py [FOLDER]
"""
import pathlib
import struct
import sys

TEXT, FRAME = 0x10000, 0x40000  # as tests/unit/unwind_bytes.h


def entry(body, pad=8):
    size = 4 + len(body)
    body += bytes(-size % pad)
    return struct.pack("<I", len(body)) + body


def cie(debug=False, version=1, augmentation=b"zR", data=b"\x1b", program=b"\x0c\x07\x08\x90\x01"):
    extra = b"\x08\x00" if version == 4 else b""
    sized = bytes([len(data)]) + data if augmentation.startswith(b"z") else b""
    return entry((b"\xff\xff\xff\xff" if debug else bytes(4)) + bytes([version]) + augmentation + b"\0" + extra + b"\x01\x78\x10" + sized + program)


def fde(at, cie_at, begin, size, program, debug=False, encoding=0x1b):
    """at: where it stands in the section."""
    where = at + 8
    if debug:
        return entry(struct.pack("<IQQ", cie_at, begin, size) + program)
    begin = begin - (FRAME + where) if encoding & 0x10 else begin
    form = "q" if encoding & 15 in (0, 12) else "i"
    return entry(struct.pack("<I" + form * 2, at + 4 - cie_at, begin, size) + b"\0" + program)


PROGRAMS = {
    "push": b"\x41\x0e\x10\x83\x02\x44\x0e\x40\x0a\x50\x0e\x10\xc3\x41\x0e\x08\x41\x0b",
    "frame": b"\x41\x0e\x10\x86\x02\x43\x0d\x06\x50\x0c\x07\x08",
    "drap": b"\x45\x0c\x0a\x00\x49\x10\x06\x02\x76\x00\x42\x0f\x03\x76\x78\x06\x10\x03\x02\x76\x70",
    "plt": b"\x0e\x10\x46\x0e\x18\x4a\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22",
    "signal": b"\x0f\x04\x77\xa0\x01\x06\x10\x10\x03\x77\xa8\x01\x10\x07\x03\x77\xa0\x01\x10\x03\x03\x77\x80\x01",
    "undefined": b"\x07\x10",
    "register": b"\x41\x09\x10\x05\x41\x06\x10\x41\x08\x03",
    "long": b"\x02\x40\x0e\x10\x03\x00\x01\x12\x07\x7e\x04\x00\x02\x00\x00\x13\x7d\x05\x0c\x03\x11\x0d\x04\x14\x0e\x05\x15\x0f\x06\x16\x03\x02\x77\x08\x2e\x10\x2f\x06\x02",
    "odd": b"\x0f\x05\x77\x08\x79\x00\x1e\x41\x10\x03\x01\x99\x41\x3f",
}


def section(kinds, debug=False, version=1, augmentation=b"zR", data=b"\x1b", encoding=0x1b, order=None, overlap=0):
    out = cie(debug, version, augmentation, data)
    kinds = list(kinds)
    for i in order or range(len(kinds)):
        out += fde(len(out), 0, TEXT + 64 * i, 64 + overlap, PROGRAMS[kinds[i]], debug, encoding)
    return out


def elf(frame, with_sections=True, with_header=True):
    loads = [struct.pack("<IIQQQQQQ", 1, 5, 0, TEXT, TEXT, 0x400, 0x10000, 0x1000),
             struct.pack("<IIQQQQQQ", 1, 4, 0x400, FRAME, FRAME, len(frame) + 4, len(frame) + 4, 0x1000),
             struct.pack("<IIQQQQQQ", 4, 4, 0x3c0, TEXT + 0x3c0, TEXT + 0x3c0, 24, 24, 4)]
    header = 0x400 + len(frame) + 4
    tail = b"\x01\x1b\xff\xff" + struct.pack("<i", FRAME - (FRAME + len(frame) + 4 + 4))
    loads[1] = struct.pack("<IIQQQQQQ", 1, 4, 0x400, FRAME, FRAME, len(frame) + 4 + len(tail), len(frame) + 4 + len(tail), 0x1000)
    if with_header:
        loads.append(struct.pack("<IIQQQQQQ", 0x6474e550, 4, header, FRAME + len(frame) + 4, FRAME + len(frame) + 4, 8, 8, 4))
    body = b"".join(loads)
    names = b"\0.eh_frame\0.plt\0.shstrtab\0"
    names_at = header + len(tail)
    sections_at = names_at + len(names)
    sections = struct.pack("<IIQQQQIIQQ", *[0] * 10)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 2, FRAME, 0x400, len(frame) + 4, 0, 0, 8, 0)
    sections += struct.pack("<IIQQQQIIQQ", 11, 1, 6, TEXT + 0x300, 0x300, 0x40, 0, 0, 16, 16)
    sections += struct.pack("<IIQQQQIIQQ", 16, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, TEXT, 64, sections_at if with_sections else 0, 0, 64, 56, len(loads), 64,
                               4 if with_sections else 0, 3 if with_sections else 0)
    out = (head + body).ljust(0x3c0, b"\0") + struct.pack("<III", 4, 8, 3) + b"GNU\0" + b"build-id"
    return out.ljust(0x400, b"\0") + frame + bytes(4) + tail + names + (sections if with_sections else b"")


GO_MAGIC = {2: 0xfffffffb, 16: 0xfffffffa, 18: 0xfffffff0, 20: 0xfffffff1}
# A goroutine's first function; one with a frame; its leaf; one that switches stacks. Begin, name, (bytes, lowered by)..., (bytes, line)...,
# (bytes, inlined)..., line of the begin, flags.
GO_FUNCTIONS = [(0x000, b"runtime.goexit", [(0x40, 0)], [(0x40, 3)], [], 3, 1), (0x040, b"main.outer", [(4, 0), (0x38, 24), (4, 0)], [(0x10, 7), (0x30, 8)], [(0x20, -1), (0x20, 0)], 6, 0),
                (0x080, b"main.leaf", [(0x40, 0)], [(0x40, 12)], [], 11, 0), (0x0c0, b"runtime.asmcgocall", [(0x40, 0)], [(0x40, 99)], [], 98, 6)]


def uleb(value):
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def go_values(pairs):
    out, now = b"", -1
    for size, value in pairs:
        change, now = value - now, value
        out += uleb(change << 1 if change >= 0 else (-change << 1) - 1) + uleb(size)
    return out + b"\0"


def go_table(version):
    """.gopclntab of functions at TEXT, as Go 1.N wrote it first."""
    texts = lambda names: (b"".join(name + b"\0" for name in names), [sum(len(n) + 1 for n in names[:i]) for i in range(len(names))])
    names, name_at = texts([f[1] for f in GO_FUNCTIONS])
    files, file_at = texts([b"/src/other.go", b"/src/main.go"])
    values, places = b"\0", []
    for _, _, *kinds, _, _ in GO_FUNCTIONS:
        places.append([])
        for pairs in (*kinds, [(0x40, 1)]):
            places[-1].append(len(values) if pairs else 0)
            values += go_values(pairs) if pairs else b""
    small = version >= 18
    base = 8 + 8 * (7 if version == 16 else 8) if version > 2 else 8 + 8 + 8 * (2 * len(GO_FUNCTIONS) + 1) + 4
    head_names, units = base, base + len(names)
    head_files = units + 4 * len(file_at)
    head_values = head_files + len(files)
    head_functions = head_values + len(values)
    one = struct.calcsize("<II" if small else "<QQ")
    entries, functions = b"", b""
    first = one * len(GO_FUNCTIONS) + one // 2 if version > 2 else head_functions
    origin = 0 if small else TEXT
    for (begin, _, _, _, inlined, line, flags), at, (stack, lines, inline, file) in zip(GO_FUNCTIONS, name_at, places):
        entries += struct.pack("<II" if small else "<QQ", origin + begin, first + len(functions))
        shift = 0 if version > 2 else 1
        functions += struct.pack("<I" if small else "<Q", origin + begin) + struct.pack(
            "<7I", at + shift * head_names, 0, 0, stack + shift * head_values, file + shift * head_values, lines + shift * head_values, 3 if inlined else 0)
        functions += b"" if version == 2 else struct.pack("<I", 0)
        functions += struct.pack("<I", line) if version == 20 else b""
        functions += bytes([0, flags if version > 2 else 0, 0, 0]) + (struct.pack("<3I", 0, 0, inline + shift * head_values) if inlined else b"")
    entries += struct.pack("<I" if small else "<Q", origin + 0x100)
    head = struct.pack("<IBBBBQ", GO_MAGIC[version], 0, 0, 1, 8, len(GO_FUNCTIONS))
    offsets = struct.pack("<2I", *file_at) if version > 2 else struct.pack("<2I", *(head_files + at for at in file_at))
    if version == 2:
        return head + entries + struct.pack("<I", units) + names + offsets + files + values + functions
    head += struct.pack("<Q", len(file_at)) + (struct.pack("<Q", 0) if small else b"")
    return head + struct.pack("<5Q", head_names, units, head_files, head_values, head_functions) + names + offsets + files + values + entries + functions


def go_elf(version, is_relocated=False):
    """A program without section headers: code, and data with the table and the runtime's description of the module."""
    table = go_table(version)
    table += bytes(-len(table) % 8)
    names = struct.unpack_from("<Q", table, 8 + 8 * (3 if version >= 18 else 2))[0] if version > 2 else 0
    words = {0: FRAME, 1: FRAME + names, 22: TEXT}
    module = b"".join(struct.pack("<Q", 0 if is_relocated else words.get(i, 0)) for i in range(24))
    relocations = b"".join(struct.pack("<QQq", FRAME + len(table) + 8 * i, 8, word) for i, word in words.items())
    at = FRAME + len(table) + len(module)
    dynamic = struct.pack("<6Q", 7, at, 8, len(relocations), 0, 0)
    data = table + module + relocations + dynamic
    loads = [struct.pack("<IIQQQQQQ", 1, 5, 0, TEXT, TEXT, 0x400, 0x10000, 0x1000),
             struct.pack("<IIQQQQQQ", 1, 6, 0x400, FRAME, FRAME, len(data), len(data), 0x1000),
             struct.pack("<IIQQQQQQ", 4, 4, 0x3c0, TEXT + 0x3c0, TEXT + 0x3c0, 24, 24, 4)]
    if is_relocated:
        loads.append(struct.pack("<IIQQQQQQ", 2, 6, 0x400 + len(data) - len(dynamic), at + len(relocations), at + len(relocations), len(dynamic), len(dynamic), 8))
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, TEXT, 64, 0, 0, 64, 56, len(loads), 64, 0, 0)
    out = (head + b"".join(loads)).ljust(0x3c0, b"\0") + struct.pack("<III", 4, 8, 4) + b"Go\0\0" + b"build-id"
    return out.ljust(0x400, b"\0") + data


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus" / "unwind")
    folder.mkdir(parents=True, exist_ok=True)
    all_kinds = list(PROGRAMS)
    frame = section(all_kinds)
    signal = section(["signal"], augmentation=b"zRS")
    seeds = {"all": b"\0" + frame, "signal": b"\0" + signal, "unsorted": b"\0" + section(all_kinds, order=range(len(all_kinds) - 1, -1, -1)),
             "overlapping": b"\0" + section(all_kinds, overlap=96), "personality": b"\0" + section(["push"], augmentation=b"zPLR", data=b"\x9b\1\2\3\4\x1b\x1b"),
             "absolute": b"\0" + section(all_kinds, data=b"\0", encoding=0), "version3": b"\0" + section(["frame"], version=3),
             "debug": b"\1" + section(all_kinds, debug=True, version=4, augmentation=b""), "debug1": b"\1" + section(["push"], debug=True, augmentation=b""),
             "unknown-end": b"\4" + frame + bytes(4) + frame, "cut": b"\0" + frame[:-5], "elf": b"\2" + elf(frame),
             "elf-no-sections": b"\2" + elf(frame, with_sections=False), "elf-no-header": b"\2" + elf(frame, with_header=False),
             "table": b"\3", "table-patched": b"\3\x20\0\4\xff\xff\xff\xff\x68\0\2\1\1", "table-buckets": b"\3" + bytes([0, 2, 64]) + bytes(64)}
    seeds |= {f"go-{version}": b"\2" + go_elf(version) for version in GO_MAGIC} | {"go-relocated": b"\2" + go_elf(20, True)}
    for name, text in [*((f"one-{kind}", b"\0" + section([kind])) for kind in all_kinds), *seeds.items()]:
        (folder / name).write_bytes(text)


if __name__ == "__main__":
    main()
