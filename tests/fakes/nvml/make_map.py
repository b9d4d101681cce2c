#!/usr/bin/env python3
"""Writes the linker's version script of one variant of the fake: which symbols a driver of that branch exports.

  make_map.py SINCE.txt OUTPUT VARIANT

VARIANT: a branch (470, 580); "old-lists" (470 with the process lists of one version only, records of 16 bytes); "no-lists" (580
without the list of details); "bare" (580 with nothing but what every monitor needs); "broken" (580 without nvmlInit_v2).
"""
import pathlib
import sys

NEEDED = ("nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2")
LISTS = [f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")]


def hidden(since, variant):
    """The symbols that this variant lacks; None: all but those needed."""
    branch = int(variant) if variant.isdigit() else 470 if variant == "old-lists" else 580
    names = [name for name, first in since if first > branch]
    if variant == "old-lists":
        names += [f"{name}_v2" for name in LISTS]
    elif variant == "no-lists":
        names.append("nvmlDeviceGetRunningProcessDetailList")
    elif variant == "broken":
        names.append("nvmlInit_v2")
    elif variant == "bare":
        return None
    elif not variant.isdigit():
        sys.exit(f"no variant {variant}")
    return names


def main():
    source, output, variant = sys.argv[1:]
    lines = [line.split() for line in pathlib.Path(source).read_text().splitlines() if line and not line.startswith("#")]
    since = [(name, int(first)) for name, first in lines]
    names = hidden(since, variant)
    shown = NEEDED if names is None else ("nvml*",)
    text = "{\nglobal:\n" + "".join(f"        {name};\n" for name in shown) + "local:\n"
    text += "".join(f"        {name};\n" for name in names or ()) + "        *;\n};\n"
    pathlib.Path(output).write_text(text)


if __name__ == "__main__":
    main()
