"""What makes this process take stacks of itself: a period, or an event. Nothing stands, and nothing runs, for what is off.

A trigger must not reach the program: what fails in it is dropped, and one that comes while its thread is in another is left out.
"""
import atexit
import math
import os
import signal
import sys
import threading
import time

from infprof import _core, _events, _stacks, _variables

ON, OFF = ("on", ""), ("off", "0", "no", "false")
DEFAULT_S, LEAST_S, MOST_S = 0.1, 0.001, 3600.0
LOOK_S = 0.1  # `infprof config` is seen within 0.2 s
MOST_A_SECOND = 10  # stacks of one kind of event
LEAST_STEPS = 100  # before a step is slower than most
MOST_CLASSES = 128  # of steps
SIGNALS = ("USR1", "USR2")
WHAT = "it is off, or of module=20ms, step, exception, signal=USR2, with commas between them"


def _of_system(name):
    """Of the module _thread, also where gevent has put its own into it: a greenlet would not run beside what blocks its thread."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None:
        return gevent.get_original("_thread", name)
    import _thread

    return getattr(_thread, name)


def _this_ident():
    return _of_system("get_ident")()


def has_gil():
    return getattr(sys, "_is_gil_enabled", lambda: True)()


# ---- stacks ----

_busy = set()  # idents of threads that are in a trigger


def _fire(trigger, cause, stacks, step=None):
    """cause(): a text, or None. stacks(): [(thread, frames)]."""
    ident = threading.get_ident()
    if ident in _busy or not _core.is_recording():
        return
    _busy.add(ident)
    try:
        t_ns, why = _core.now_ns(), cause()
        for thread, frames in stacks():
            number = _stacks.put(t_ns, thread, trigger, why, frames)
            _variables.of_frames(t_ns, thread, trigger, frames, step, number)
    except Exception:
        pass
    finally:
        _busy.discard(ident)


def _here(frame):
    return lambda: [(_stacks.this_thread(), _stacks.walk(_stacks.outside(frame)))]


class Limit:
    """Of one kind of event."""

    def __init__(self):
        self._began_ns = self._n = self._lost = 0

    def takes(self):
        now = time.monotonic_ns()
        if now - self._began_ns >= 1_000_000_000:
            self._began_ns, self._n = now, 0
        self._n += 1
        self._lost += self._n > MOST_A_SECOND
        return self._n <= MOST_A_SECOND

    def said(self):
        """Of those that were left out since the last one."""
        lost, self._lost = self._lost, 0
        return f"; {lost} before it were left out" if lost else ""


# ---- periodic ----


class Periodic:
    """A thread, which threading.enumerate() does not show to the program."""

    def __init__(self, seconds):
        self.seconds = seconds
        self._stopped, self._ended = _of_system("allocate_lock")(), _of_system("allocate_lock")()
        self._stopped.acquire()
        self._ended.acquire()
        self.ident = None
        _of_system("start_new_thread")(self._run, ())

    def stop(self):
        self._stopped.release()
        if self.ident != _this_ident():
            self._ended.acquire(True, 1)

    def _run(self):
        self.ident = _this_ident()
        try:
            due = time.monotonic() + self.seconds
            while not self._stopped.acquire(True, min(max(due - time.monotonic(), 0), LOOK_S)):
                _core.look()
                now = time.monotonic()
                if now >= due and self is _periodic:
                    due = max(due + self.seconds, now)
                    _fire("periodic", lambda: None, lambda: _stacks.of_all((self.ident,)))
        finally:
            self._ended.release()


_lock = threading.RLock()
_periodic = None
_has_hooks = False


def _watch_process():
    global _has_hooks
    if not _has_hooks:
        _has_hooks = True
        os.register_at_fork(after_in_child=_forked)
        atexit.register(_end)


def _forked():
    """The parent's thread is not here."""
    global _lock, _periodic
    _lock = threading.RLock()
    _busy.clear()
    if _periodic is not None:
        try:
            _periodic = Periodic(_periodic.seconds)
        except Exception:
            _periodic = None


def _end():
    set_period("off")


def set_period(text):
    """Seconds. Returns what there is now. ValueError: they make no sense; RuntimeError: there can be no thread."""
    global _periodic
    text = text.lower()
    seconds = None if text in OFF else DEFAULT_S if text in ON else _seconds(text)
    if seconds is not None and not (math.isfinite(seconds) and LEAST_S <= seconds <= MOST_S):
        raise ValueError(f"it is a number of seconds from {LEAST_S} to {MOST_S:.0f}, on or off")
    if seconds is not None and not has_gil():
        raise ValueError("this Python has no GIL, so that stacks of its running threads cannot be read from inside")
    with _lock:
        if _periodic is not None:
            old, _periodic = _periodic, None
            old.stop()
        if seconds is not None:
            _watch_process()
            _periodic = Periodic(seconds)
    return "off" if seconds is None else f"{seconds:g}"


def _seconds(text, unit=1.0):
    for end, factor in (("ms", 1e-3), ("us", 1e-6), ("s", 1.0)):
        if text.endswith(end):
            return float(text[:-len(end)]) * factor
    try:
        return float(text) * unit
    except ValueError:
        raise ValueError(f"{text} is no time") from None


# ---- events ----


class Asked:
    """What set_triggers() was given."""

    module_ns = signal = None
    step = exception = False

    def __init__(self, text):
        for word in text.split(","):
            key, _, value = (part.strip() for part in word.partition("="))
            if key.lower() in OFF or not key:
                continue
            take = getattr(self, f"_take_{key}", None)
            if take is None:
                raise ValueError(WHAT)
            take(value)

    def is_any(self):
        return self.step or self.exception or self.module_ns is not None or self.signal is not None

    def _take_module(self, value):
        seconds = _seconds(value or "?", 1e-3)
        if not 0 < seconds <= MOST_S:
            raise ValueError("module is a time, as module=20ms")
        self.module_ns = int(seconds * 1e9)

    def _take_step(self, value):
        self.step = _is_alone(value, "p99")

    def _take_exception(self, value):
        self.exception = _is_alone(value)

    def _take_signal(self, value):
        name = (value or "USR2").upper()
        name = name[3:] if name.startswith("SIG") else name
        if name not in SIGNALS:
            raise ValueError("signal is " + " or ".join(SIGNALS))
        self.signal = getattr(signal, f"SIG{name}")


def _is_alone(value, *words):
    if value and value not in words:
        raise ValueError(WHAT)
    return True


_asked = Asked("off")
_limits = {name: Limit() for name in ("module", "step", "exception")}


class Slowest:
    """The 99th percentile of durations so far, within 1 %: counts in classes of 1 %."""

    def __init__(self):
        self._counts = {}
        self._n = self._above = 0
        self._at = None

    def takes(self, seconds):
        """Adds one. What it was slower than; None: it was not, or there were too few."""
        at = math.floor(math.log(max(seconds, 1e-9)) * 100)
        p99 = self._at if self._n >= LEAST_STEPS else None
        self._counts[at] = self._counts.get(at, 0) + 1
        self._n += 1
        if self._at is None:
            self._at = at
        self._above += at > self._at
        # At most a hundredth may lie above the place that is kept, and with its own class more than that.
        while self._above * 100 > self._n:
            self._at += 1
            self._above -= self._counts.get(self._at, 0)
        while (self._above + self._counts.get(self._at, 0)) * 100 <= self._n:
            self._above += self._counts.get(self._at, 0)
            self._at -= 1
        return math.exp((p99 + 1) / 100) if p99 is not None and at > p99 else None


_slowest = {}  # class of steps


def _module_ended(info, module, inputs, output, ended_ns, took_ns, step):
    is_slow = _asked.module_ns is not None and took_ns > _asked.module_ns
    try:
        _variables.of_module(info, module, inputs, output, ended_ns, step, "module" if is_slow else "forward")
    except Exception:
        pass
    if is_slow and _limits["module"].takes():
        _fire("module", lambda: f"{info.name} took {took_ns / 1e6:.3f} ms{_limits['module'].said()}", _here(sys._getframe()), step)


def _step_ended(step, seconds):
    if step.kind == "hooked" and _variables.is_on():
        try:
            [(thread, frames)] = _here(sys._getframe())()
            _variables.of_frames(_core.now_ns(), thread, "forward", frames, step.number)
        except Exception:
            pass
    p99 = None if step.kind == "first" else _slower_than(step.key, seconds)
    if p99 is not None and _limits["step"].takes():
        _fire("step", lambda: f"step {step.number} took {seconds * 1e3:.3f} ms, p99 was {p99 * 1e3:.3f} ms{_limits['step'].said()}",
              _here(sys._getframe()), step.number)


def _slower_than(key, seconds):
    if not _asked.step:
        return None
    slowest = _slowest.get(key)
    if slowest is None:
        slowest = _slowest.setdefault(key if len(_slowest) < MOST_CLASSES else None, Slowest())
    return slowest.takes(seconds)


def tell_profiler():
    """Whether PyTorch's hooks come here."""
    has_variables = _variables.is_on()
    _events.module_ended = _module_ended if has_variables or _asked.module_ns is not None else None
    _events.step_ended = _step_ended if has_variables or _asked.step else None
    if not _asked.step:
        _slowest.clear()


# Unhandled exceptions, of the program and of its threads. A hook that something else was put on top of stays there, and only passes on.

_hooks = {}  # module: ours, which records


def _raised(kind, traceback):
    if _limits["exception"].takes():
        _fire("exception", lambda: _variables.name_of_type(kind) + _limits["exception"].said(),
              lambda: [(_stacks.this_thread(), _stacks.of_traceback(traceback))])


def _hook_of(module, raised):
    before = module.excepthook

    def hook(*arguments):
        if _hooks.get(module, (None,))[0] is hook:
            raised(*arguments)
        before(*arguments)

    return hook, before


def _thread_raised(arguments):
    if arguments.exc_type is not SystemExit:
        _raised(arguments.exc_type, arguments.exc_traceback)


def _set_exceptions(is_on):
    for module, raised in ((sys, lambda kind, value, traceback: _raised(kind, traceback)), (threading, _thread_raised)):
        hook, before = _hooks.get(module, (None, None))
        is_first = hook is not None and module.excepthook is hook
        if is_on and not is_first:
            hook, before = _hooks[module] = _hook_of(module, raised)
            module.excepthook = hook
        elif not is_on and hook is not None:
            del _hooks[module]
            if is_first:
                module.excepthook = before


# A signal, in the same way.

_handlers = {}  # number: ours, and the one that was there


def _handler_of(number):
    previous = signal.getsignal(number)

    def handler(number, frame):
        if _handlers.get(number, (None,))[0] is handler:
            _fire("signal", lambda: signal.Signals(number).name, lambda: _of_all(frame))
        if callable(previous):
            previous(number, frame)

    return handler, previous


def _of_all(frame):
    """This thread's from `frame` outward, and those of the others."""
    this = _stacks.this_thread(), _stacks.walk(_stacks.outside(frame))
    ours = _periodic.ident if _periodic is not None else None
    return [this, *(_stacks.of_all((_this_ident(), ours)) if has_gil() else ())]


def _is_main():
    return threading.get_ident() == threading.main_thread().ident


def _set_signal(number):
    """ValueError: why not; then all is as it was."""
    handler = _handlers.get(number, (None,))[0]
    is_new = number is not None and (handler is None or signal.getsignal(number) is not handler)
    if is_new and signal.getsignal(number) is None:
        raise ValueError("the signal has a handler that Python did not install")
    if is_new and not _is_main():
        raise ValueError("only the main thread can take a signal: ask when the program starts, or from its code")
    for old in [old for old in _handlers if old != number]:
        handler, previous = _handlers.pop(old)
        if _is_main() and signal.getsignal(old) is handler:
            signal.signal(old, previous)
    if is_new:
        _handlers[number] = _handler_of(number)
        signal.signal(number, _handlers[number][0])


def set_triggers(text):
    """Returns what there is now. ValueError: why not; then all is as it was."""
    global _asked
    asked = Asked(text)
    with _lock:
        _set_signal(asked.signal)
        _set_exceptions(asked.exception)
        _asked = asked
        tell_profiler()
    return text if asked.is_any() else "off"
