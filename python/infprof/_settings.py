"""What `infprof config PID key=value` asks of this process. _core.look() comes here when something was asked for: from spans, marks and
steps, from each step that the torch profiler sees, and from the thread that takes stacks periodically."""
import sys

from infprof import _core


def look():
    from infprof._watch import SETTERS, switch

    for setting in (_core.torch_setting, *SETTERS):
        wanted = _core.setting_asked(setting)
        if wanted is not None:
            try:
                refused = set_torch(wanted.strip()) if setting == _core.torch_setting else switch(setting, wanted, "config")
            except ValueError as error:
                refused = str(error)
            except Exception as error:
                refused = f"{type(error).__name__}: {error}"
            _core.setting_answer(setting, refused)


def set_torch(text):
    """Returns why not, None: it is done."""
    from infprof import _profiling
    from infprof.torch.options import Options

    options = Options(text)
    if options.ignored:
        return "it does not know " + ", ".join(options.ignored)
    if not options.is_on:
        _profiling.stop_waiting()
        if "infprof.torch" in sys.modules:
            sys.modules["infprof.torch"].pause()
    elif "torch" in sys.modules:
        from infprof.torch import start

        start(text)
    else:
        _profiling.wait_for_torch(text, "config")
    say(_core.torch_setting, text or "on", "config")
    return None


def say(setting, value, source):
    """value: a text, or the keywords of enable_torch_profiling."""
    if isinstance(value, dict):
        value = ",".join(f"{key}={value}" for key, value in value.items()) or "on"
    _core.setting_is(setting, value.encode("ascii", "replace").decode("ascii").replace("\0", "?"), source)
