"""Whether torch.compile is at work. Hooks would make it compile again, or break its graphs, so none are installed then, unless forced."""
import functools
import sys

REASON = "torch.compile is in use: hooks would make it compile again, so only steps are recorded (force installs them)"
GRAPH_REASON = "CUDA graphs are captured: hooks see nothing of their replays, so only steps are recorded (force installs them)"


def is_compiled(module):
    """The module itself is: by torch.compile(module), or by its own compile()."""
    return type(module).__module__.startswith("torch._dynamo") or module.__dict__.get("_compiled_call_impl") is not None


def was_used():
    """Something was compiled in this process."""
    try:
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        return bool(counters and counters.get("frames", {}).get("total"))
    except Exception:
        return False


class Watch:
    """Calls `seen` before something is compiled: by then no hook may stand."""

    def __init__(self, torch, seen):
        self._places = [(torch, "compile"), (torch.nn.Module, "compile")]
        self._seen = seen
        self._wrapped = []

    def watch(self):
        for owner, name in self._places:
            original = vars(owner).get(name)
            if original is not None:
                wrapper = self._wrap(original)
                setattr(owner, name, wrapper)
                self._wrapped.append((owner, name, original, wrapper))

    def _wrap(self, original):
        seen = self._seen

        @functools.wraps(original)
        def compile(*args, **kwargs):
            seen()
            return original(*args, **kwargs)

        return compile

    def leave(self):
        for owner, name, original, wrapper in self._wrapped:
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, original)
        self._wrapped = []
