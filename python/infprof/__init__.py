"""Marks, spans, counters and gauges of a Python program, on the clock of the recording that watches it.

    import infprof

    tokens = infprof.counter("tokens", "tokens", "tokens that were generated")
    infprof.mark("warm")                            # a point on the time line
    with infprof.span("decode", batch=8) as span:   # a stretch of time; also a decorator, also of async functions
        tokens.add(8)
        span.set(finished=3)

A process records when `infprof record` started it, when INFPROF_RING=1 is in its environment, or after infprof.enable(). Else a call
does nothing. `infprof query --pid PID "FROM spans"` reads a running program, and so does infprof.table("spans") from inside.
"""
# Nothing is loaded before it is used: each Python that `record --python` starts imports this package.
_PLACES = {
    **dict.fromkeys(("enable", "disable", "is_recording", "now_ns", "mark", "thread_name", "counter", "gauge", "span",
                     "current_span_id"), "_core"),
    **dict.fromkeys(("table", "query"), "_table"),
    "attach": "_attach",
    "backtrace": "_backtrace",
    **dict.fromkeys(("enable_backtraces", "disable_backtraces", "enable_variables", "disable_variables"), "_watch"),
    **dict.fromkeys(("enable_torch_profiling", "disable_torch_profiling", "step"), "_profiling"),
}
__all__ = sorted(_PLACES)


def __getattr__(name):
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'infprof' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"infprof.{_PLACES[name]}"), name)
    return value


def __dir__():
    return sorted({*globals(), *_PLACES})
