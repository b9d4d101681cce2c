"""What runs when Python starts, from start/sitecustomize.py or infprof.pth: finders in sys.meta_path, and nothing else. infprof.pth
itself is there at each start of each Python, and imports nothing unless it is needed."""
import os
import sys

VARIABLES = ("INFPROF_TORCH", "PROBING_TORCH_PROFILING")
# In the order of _watch.SETTERS.
WATCHES = ("INFPROF_BACKTRACE_PERIOD", "INFPROF_BACKTRACE_TRIGGERS", "INFPROF_PYTHON_VARIABLES")
OFF = ("", "0", "off", "no", "false")
_has_started = False


class Probing:
    """Answers `import probing` where no finder before it does: programs for the profiler of that name run with this one."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, Probing, origin="infprof") if name == "probing" else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        import infprof

        module.__doc__ = infprof.__doc__
        module.__all__ = infprof.__all__
        module.__getattr__ = lambda name: getattr(infprof, name)
        module.__dir__ = lambda: dir(infprof)


class AfterImport:
    """Stands first in sys.meta_path until the program has imported a module, and calls back then. The module is found and loaded by
    those who would do so without it, and has their spec and loader."""

    def __init__(self, name, call):
        self.name, self.call, self.asks = name, call, False

    def find_spec(self, name, path=None, target=None):
        if name != self.name or self.asks:  # a finder that asks all others asks us, too
            return None
        self.asks = True
        try:
            for finder in list(sys.meta_path):
                spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
                if spec is not None:
                    self.follow(spec.loader)
                    return spec
        finally:
            self.asks = False
        return None

    def follow(self, loader):
        load = getattr(loader, "exec_module", None)

        def exec_module(module):
            del loader.exec_module
            load(module)
            if self in sys.meta_path:  # else it has called back already, or is no longer wanted
                sys.meta_path.remove(self)
                self.call()

        if load is not None and hasattr(loader, "__dict__"):
            loader.exec_module = exec_module


def torch_options():
    """What the environment asks for; "" for nothing."""
    for name in VARIABLES:
        text = os.environ.get(name)
        if text is not None:
            return "" if text.strip().lower() in OFF else text.strip()
    return ""


def start():
    """Once a process: a package in site-packages and `infprof record --python` may both call it."""
    global _has_started

    if _has_started or sys.flags.ignore_environment:  # -E and -I: the environment is not to change what Python does
        return
    _has_started = True
    sys.meta_path.append(Probing)
    options = torch_options()
    if options:
        from infprof._profiling import wait_for_torch

        wait_for_torch(options, "environment")
    if any(map(os.environ.get, WATCHES)):
        from infprof._watch import from_environment

        from_environment()
