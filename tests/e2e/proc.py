"""/proc, of which any part may be gone once it is named: a thread ends, a descriptor is closed, a process is reaped."""
import os


def texts(folder, name):
    """{number: text of its file} of the numbered folders in `folder`: threads in /proc/PID/task, processes in /proc."""
    found = {}
    for number in numbers(folder):
        try:
            with open(f"{folder}/{number}/{name}", errors="replace") as file:
                found[number] = file.read()
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def numbers(folder):
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except (FileNotFoundError, ProcessLookupError):
        return []


def threads(pid):
    return numbers(f"/proc/{pid}/task")


def thread_texts(pid, name):
    """{tid: text of /proc/PID/task/TID/name}"""
    return texts(f"/proc/{pid}/task", name)


def states(pid):
    """{tid: letter of its state}"""
    return {tid: text.rsplit(")", 1)[1].split()[0] for tid, text in thread_texts(pid, "stat").items()}


def descriptors(pid):
    """{number: what it leads to}"""
    found = {}
    for number in numbers(f"/proc/{pid}/fd"):
        try:
            found[number] = os.readlink(f"/proc/{pid}/fd/{number}")
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found
