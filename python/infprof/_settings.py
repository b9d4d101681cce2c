"""What `infprof config PID torch.profiling=...` asks of this process. _core.look() comes here when something was asked for: from spans,
marks and steps, and from each step that the torch profiler sees."""
import sys

from infprof import _core


def look():
    wanted = _core.setting_asked(_core.torch_setting)
    if wanted is not None:
        _core.setting_answer(_core.torch_setting, set_torch(wanted.strip()))


def set_torch(text):
    """Returns why not, None: it is done."""
    from infprof import _profiling
    from infprof.torch.options import Options

    options = Options(text)
    if options.ignored:
        return "it does not know " + ", ".join(options.ignored)
    try:
        if not options.is_on:
            _profiling.stop_waiting()
            if "infprof.torch" in sys.modules:
                sys.modules["infprof.torch"].pause()
        elif "torch" in sys.modules:
            from infprof.torch import start

            start(text)
        else:
            _profiling.wait_for_torch(text, "config")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    say(text or "on", "config")
    return None


def say(options, source):
    """options: a text, or the keywords of enable_torch_profiling."""
    if isinstance(options, dict):
        options = ",".join(f"{key}={value}" for key, value in options.items()) or "on"
    _core.setting_is(_core.torch_setting, options.encode("ascii", "replace").decode("ascii").replace("\0", "?"), source)
