"""What the modules of PyTorch cost: hooks that stand on sampled steps alone. docs/python.md says what is recorded.

torch is never imported here: the program has done so before it calls start(), or infprof's finder has seen it do so.
"""
import atexit
import os
import sys
import threading

from .options import Options

_lock = threading.RLock()
_profiler = None
_has_fork_hook = False


def start(options=None, devices=None):
    """options: a text as PROBING_TORCH_PROFILING has it, or a dictionary of the same words. Started again, it begins anew with these.
    Returns whether profiling is on; what was not understood of the options is one warning."""
    global _profiler, _has_fork_hook
    torch = sys.modules.get("torch")
    options = Options(**options) if isinstance(options, dict) else Options("on" if options is None else options)
    if options.warning():
        sys.stderr.write(options.warning() + "\n")
    with _lock:
        stop()
        if torch is None or not options.is_on:
            return False
        from .profiler import Profiler

        if not _has_fork_hook:
            _has_fork_hook = True
            os.register_at_fork(after_in_child=_forked)
            atexit.register(stop)
        _profiler = Profiler(torch, options, devices)
        try:
            _profiler.start()
        except Exception:
            stop()  # half of it must not stay
            raise
        return True


def stop():
    global _profiler
    with _lock:
        if _profiler is not None:
            _profiler.stop()
            _profiler = None


def pause():
    """As stop(), but for what sees that profiling is to go on (Profiler._run): `infprof config`."""
    with _lock:
        if _profiler is not None:
            _profiler.stop(True)


def is_on():
    return _profiler is not None and _profiler.is_on


def step():
    """A step ends here, and the next begins; from the first call on no other steps are counted."""
    if _profiler is not None:
        _profiler.step()


def _forked():
    global _lock
    _lock = threading.RLock()
    if _profiler is not None:
        _profiler.forked()
