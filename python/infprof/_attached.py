"""What _attach runs in a process that it loads this package into."""


def begin(torch):
    """torch: a text of INFPROF_TORCH, or None. Returns what went wrong, "" for nothing."""
    import sys

    import infprof
    from infprof import _profiling, _start

    infprof.enable()
    _start.start()
    if torch and "torch" in sys.modules:
        _profiling.begin(torch, "attach")
    elif torch:
        _profiling.wait_for_torch(torch, "attach")
    return ""
