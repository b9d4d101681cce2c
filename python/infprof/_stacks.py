"""Stacks of this process's own threads: reading them, and rows of table python.own_stacks. No code of the program runs for it: no lock
of its threads is taken, and of their objects only what Python itself has put there is read."""
import itertools
import os
import sys
import threading
from _thread import get_ident, get_native_id

from infprof import _core

MOST_FRAMES = 128
COLUMNS = "tid thread trigger cause sample depth func file lineno"

_OWN = os.path.dirname((lambda: 0).__code__.co_filename) + os.sep
# A class of the program may have a __dict__ of its own, and gevent's Thread has none.
_dict_of = next(cls.__dict__["__dict__"] for cls in threading.Thread.__mro__ if "__dict__" in cls.__dict__).__get__
_numbers = itertools.count(1)
_write = None


def known_threads():
    """{ident: (tid, name)} of those that the module threading knows. Not by threading.enumerate(): its lock may be held by the thread
    that a signal has interrupted."""
    return {ident: _what(thread) for ident, thread in list(threading._active.items())}


def this_thread():
    """(tid, name)"""
    thread = threading._active.get(get_ident())
    return get_native_id(), _what(thread)[1] if thread is not None else None


def _what(thread):
    try:
        own = _dict_of(thread)
    except TypeError:  # no Thread: a library's own
        return None, None
    tid, name = own.get("_native_id"), own.get("_name")
    return tid if type(tid) is int else None, name if type(name) is str else None


keeps_frames = False  # for variables: what is kept may be the last that keeps a thread's objects, which then end in this thread


def walk(frame, most=MOST_FRAMES):
    """[(code, line, frame or None)], the innermost first, from `frame` outward."""
    found = []
    while frame is not None and len(found) < most:
        found.append((frame.f_code, frame.f_lineno, frame if keeps_frames else None))
        frame = frame.f_back
    return found


def outside(frame):
    """The first frame from here outward that is not of this package."""
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame


def of_traceback(traceback):
    """The frames that an exception has passed, the innermost first."""
    found = []
    while traceback is not None:
        found.append((traceback.tb_frame.f_code, traceback.tb_lineno, traceback.tb_frame))
        traceback = traceback.tb_next
    found.reverse()
    return found[:MOST_FRAMES]


def of_all(without):
    """[((tid, name), what walk() gives)] of all threads but those of these idents."""
    threads = known_threads()
    return [(threads.get(ident, (None, None)), walk(frame)) for ident, frame in sys._current_frames().items() if ident not in without]


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def put(t_ns, thread, trigger, cause, frames):
    """Writes the rows of one stack; returns its number."""
    global _write
    if _write is None:
        _write = _core.open_table("own_stacks", COLUMNS).write
    tid, name = thread
    number = next(_numbers)
    cause = None if cause is None else cause.encode("utf-8", "replace")  # bytes: it does not come again
    for depth, (code, line, _) in enumerate(frames):
        _write(t_ns, tid, name, trigger, cause, number, depth, name_of(code), code.co_filename, line)
    return number
