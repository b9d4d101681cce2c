#!/usr/bin/env python3
"""Words of STYLE.md: the commonest kinds of sentence at which a reader stumbles, in what users and contributors read (docs, help,
messages, pages, comments of src), and lines of prose that are too long. Few patterns, each without a false alarm."""
import pathlib
import re
import subprocess
import sys

MAX_PROSE = 400
SUFFIXES = {".md", ".c", ".h", ".js", ".css"}
# STYLE.md quotes the words that it forbids.
QUOTES = {"STYLE.md"}
# "Left behind", "falls behind", a table behind a chart and the like are English; `behind` in code is a variable.
BEHIND = re.compile(r"\b(?:fall(?:s|ing)?|is|was|left|leave[s]?|lags?|them|nothing|tables?|file|functions?|columns|selected span,|reason"
                    r"|made|stands|and) behind\b")
WORDS = [
    (re.compile(r"\b[Ss]eldom\b"), "rarely, less often"),
    (re.compile(r"\bdear(?:er|est)?\b"), "expensive, costly"),
    (re.compile(r"\b[Ww]hoever\b"), "name who it is: the reader, the caller, a user who"),
    (re.compile(r"\bto be had\b"), "available"),
    (re.compile(r"\b(?:this|that|which|it) (?:is|are) none\b(?! of)"), "is not a ..."),
    (re.compile(r"\btells (?:of|it|nothing|none|no)\b"), "reports, shows"),
    (re.compile(r"(?<![Tt]here )\b(?:is|are) no (?:number|sample|URL|label)s?\b"), "is not a ..."),
    (re.compile(r"\b(?:right|just|one|comes?|begins?|stands?|lies|goes|row|those|wait) behind (?:it|its|them|that|this|the|each)\b"), "after"),
]


def prose(text):
    """(number, line) of a Markdown text without its code and tables."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith(("|", "    ")):
            yield number, line


def check(name, text):
    if name.endswith(".md"):
        for number, line in prose(text):
            if len(line) > MAX_PROSE:
                yield f"{name}:{number}: {len(line)} characters in a line of prose; at most {MAX_PROSE}"
    if name in QUOTES:
        return
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in WORDS:
            found = pattern.search(line)
            if found and not (" behind " in found[0] and BEHIND.search(found[0])):
                yield f'{name}:{number}: "{found[0]}": {instead}'


def main():
    top = pathlib.Path(__file__).resolve().parents[2]
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "*.md", "src", "include", "web"], cwd=top,
                            stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    names = [name for name in listed if name and pathlib.Path(name).suffix in SUFFIXES and (top / name).is_file()]
    faults = [fault for name in names for fault in check(name, (top / name).read_text())]
    print("\n".join(faults))
    if len(names) < 50:
        print(f"only {len(names)} files are tracked: the check reads the wrong place")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
