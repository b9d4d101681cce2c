#!/usr/bin/env python3
"""Nothing ends at a constant silently: a loop over data that also ends at a constant, and a list that takes no more than a constant,
say in a comment `/* bound: ... */` on one of the lines around why no more can come, or where what is left out is counted."""
import pathlib
import re
import sys

FOLDERS = ("model", "query", "analyze", "view", "finish", "import", "load", "collect", "collectors", "fetch", "record", "store", "cli",
           "app", "push")
CONSTANT = r"(?:INFP_COUNT\([^()]*\)|sizeof[ (][^;&|]*|[A-Z][A-Z0-9_]{2,}|[1-9]\d+|cap)(?: - 1)?"
ENDS_AT = re.compile(r"^[(!]*(?:[\w>.\[\]-]|->)+(?: \+ \w+)? (?:<|<=|!=) " + CONSTANT + r"\)*$")
# Another end: what the data has.
HAS_DATA = re.compile(r"^\(*[\w>.\[\]-]+(?: \+ \w+)? < \(?[a-z]|= \w+\(|\w*(?:_next|_line|_word|_words|strsep|readdir)\(|^\*")
COUNTER = r"(?:\+\+)?(?:\w+(?:->|\.))*(?:n|n_\w+|used|count)"
IS_FULL = re.compile(r"\bif \((?:.*(?:&&|\|\|) )?\(?" + COUNTER + r"(?: \+ 1)? (?:==|>=|>) " + CONSTANT + r"\)?(?: (?:&&|\|\|).*)?\)(?: \{)?$")
HAS_ROOM = re.compile(r"\bif \((?:.*&& )?" + COUNTER + r" < " + CONSTANT + r"(?: &&.*)?\)$")
DROPS = re.compile(r"^(?:return(?: 0| false| NULL| -1)?|break|continue);")
# Types and steps that only look like bounds.
NO_BOUND = re.compile(r"\bINFP_LIMIT_\w+|\b(?:INT(?:8|16|32|64)_MAX|UINT(?:8|16|32|64)_MAX|INFP_FIXED_COLUMNS|NULL|INFP_NS_PER_\w+)\b")


def condition(text, at):
    """The text between the bracket before `at` and the one that closes it."""
    depth, end = 1, at
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[at:end - 1]


def loops(text):
    for found in re.finditer(r"\b(for|while) \(", text):
        head = condition(text, found.end())
        if found[1] == "for":
            parts = head.split(";")
            head = parts[1] if len(parts) == 3 else ""
        parts = [" ".join(part.split()) for part in head.split("&&")]
        bounds = [part for part in parts if ENDS_AT.match(part) and not NO_BOUND.search(part)]
        if bounds and any(HAS_DATA.search(part) for part in parts if part not in bounds):
            yield text.count("\n", 0, found.start()) + 1, "a loop over data ends at a constant: " + " ".join(head.split())


def lists(lines):
    for number, line in enumerate(lines, 1):
        after = lines[number].strip() if number < len(lines) else ""
        if NO_BOUND.search(line):
            continue
        if (IS_FULL.search(line) and DROPS.match(after)) or (HAS_ROOM.search(line) and "++" in after and "else" not in lines[number + 1]):
            yield number, "what comes after a constant is dropped: " + line.strip()


def is_explained(lines, number):
    return any("bound:" in line for line in lines[max(0, number - 4):number + 2])


def faults(text):
    lines = text.split("\n")
    return [(number, why) for number, why in sorted([*loops(text), *lists(lines)]) if not is_explained(lines, number)]


def check_itself():
    """What it has to see, and what it has not."""
    silent = ["for (unsigned i = 0; i < width && i < INFP_COUNT(families); i++) {", "for (; *wanted && n + 1 < INFP_COUNT(names); wanted++)",
              "while (n < MAX_FILES && (entry = readdir(dir))) {", "if (list->n == MOST)\n        return 0;",
              "if (list->n < MOST)\n        list->at[list->n++] = more;\n}"]
    good = ["for (unsigned i = 0; i < INFP_COUNT(names); i++)", "for (unsigned i = 0; i < N_KEYS && r >= 0; i++)",
            "if (list->n == MOST)\n        return -E2BIG;", "/* bound: there are no more */\nwhile (n < MAX_FILES && (entry = readdir(dir))) {"]
    return all(faults(text + "\n\n") for text in silent) and not any(faults(text + "\n\n") for text in good)


def main():
    top = pathlib.Path(__file__).resolve().parents[2] / "src"
    files = [path for folder in FOLDERS for path in sorted((top / folder).rglob("*.c"))]
    found = [f"src/{path.relative_to(top)}:{number}: {why}" for path in files for number, why in faults(path.read_text())]
    print("\n".join(found))
    if not check_itself():
        print("bounds.py does not see what it is for")
        return 1
    if len(files) < 100:
        print(f"only {len(files)} files: the check reads the wrong place")
        return 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
