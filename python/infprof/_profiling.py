"""PyTorch profiling on and off, and its steps: infprof.torch does it, once the program itself has imported torch."""
import os
import sys

from infprof import _core, _settings

_waiting = []  # the finder that waits for torch


def begin(options, source="program"):
    """torch is there. options: the text of a variable, or the keywords of enable_torch_profiling."""
    from infprof.torch import start

    if os.environ.get("INFPROF_RING") != "0" and source != "config":
        _core.enable()
    start(options)
    _settings.say(_core.torch_setting, options, source)


def wait_for_torch(options, source="program"):
    """source: environment, attach, program or config. But for the program nobody called us, so that what goes wrong is a line on standard
    error, and the program runs on."""
    from infprof._start import AfterImport

    def call():
        try:
            begin(options, source)
        except Exception as error:
            if source == "program":
                raise
            print(f"infprof: PyTorch is not profiled: {error}", file=sys.stderr)

    stop_waiting()
    finder = AfterImport("torch", call)
    _waiting.append(finder)
    sys.meta_path.insert(0, finder)
    _settings.say(_core.torch_setting, options, source)


def stop_waiting():
    while _waiting:
        finder = _waiting.pop()
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


def step():
    """One more step of this process (iteration, batch, token). Returns its number, from 1; 0: not recording."""
    torch = sys.modules.get("infprof.torch")
    if torch is not None:
        torch.step()
    return _core.step()


def enable_torch_profiling(**options):
    """Profiles PyTorch modules from now on, or as soon as torch is imported: table python.torch_trace. See docs/python.md for options."""
    if "torch" in sys.modules:
        begin(options)
    else:
        wait_for_torch(options)


def disable_torch_profiling():
    """Stops that, and takes all hooks away."""
    stop_waiting()
    if "infprof.torch" in sys.modules:
        sys.modules["infprof.torch"].stop()
    _settings.say(_core.torch_setting, "off", "program")
