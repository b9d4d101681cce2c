"""The Python frames of this moment, from inside; `infprof backtrace --pid PID` shows native ones, too, and any process."""
import sys
import time
from os import getpid

from infprof import _stacks


def backtrace():
    """What all threads of this process do now: a list with a dictionary a frame. depth 0 is the innermost frame of its thread."""
    threads = _stacks.known_threads()
    now, t_ns, pid = time.time(), time.monotonic_ns(), getpid()
    rows = []
    for ident, frame in sys._current_frames().items():
        tid, name = threads.get(ident, (None, None))
        if frame.f_code is backtrace.__code__:
            frame = frame.f_back
        for depth, (code, line, _) in enumerate(_stacks.walk(frame, sys.maxsize)):
            rows.append({"time": now, "t_ns": t_ns, "pid": pid, "tid": tid, "thread": name, "depth": depth,
                         "func": _stacks.name_of(code), "file": code.co_filename, "lineno": line, "frame_type": "Python"})
    return rows
