"""The Python frames of this moment, from inside; `infprof backtrace --pid PID` shows native ones, too, and any process."""
import sys
import threading
import time
from os import getpid


def backtrace():
    """What all threads of this process do now: a list with a dictionary a frame. depth 0 is the innermost frame of its thread."""
    threads = {thread.ident: thread for thread in threading.enumerate()}
    now, t_ns, pid = time.time(), time.monotonic_ns(), getpid()
    rows = []
    for ident, frame in sys._current_frames().items():
        thread = threads.get(ident)
        if frame.f_code is backtrace.__code__:
            frame = frame.f_back
        depth = 0
        while frame is not None:
            code = frame.f_code
            rows.append({"time": now, "t_ns": t_ns, "pid": pid, "tid": getattr(thread, "native_id", None),
                         "thread": thread.name if thread else None, "depth": depth, "func": getattr(code, "co_qualname", code.co_name),
                         "file": code.co_filename, "lineno": frame.f_lineno, "frame_type": "Python"})
            frame, depth = frame.f_back, depth + 1
    return rows
