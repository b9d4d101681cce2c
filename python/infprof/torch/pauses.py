"""What stops a step that is no part of the model: collections of garbage, and waiting for the data loader."""
import functools
import gc
import sys

from .hooks import now_ns, thread

SHORT_NS = 100_000  # collections of young objects that are shorter than this are counted in the next row


class Collections:
    """gc.callbacks: table gc. `total_ns` of all of them so far."""

    def __init__(self, write, seen):
        self._write, self._seen = write, seen
        self._began = 0
        self._short = self._short_ns = 0
        self.total_ns = 0

    def watch(self):
        gc.callbacks.append(self)

    def leave(self):
        if self in gc.callbacks:
            gc.callbacks.remove(self)

    def __call__(self, phase, info):
        if phase == "start":
            self._began = now_ns()
            return
        ended = now_ns()
        if not self._began:
            return  # began before we were told
        took = ended - self._began
        self.total_ns += took
        if took < SHORT_NS and info["generation"] < 2:
            self._short, self._short_ns = self._short + 1, self._short_ns + took
        else:
            self._write(self._began, info["generation"], took * 1e-9, info["collected"], info["uncollectable"], self._short,
                        self._short_ns * 1e-9)
            self._short = self._short_ns = 0
        self._began = 0
        self._seen(ended)


class Loader:
    """Time in the data loader's iterator, of each thread since its last step: `thread.data_ns`."""

    def __init__(self):
        self._cls = self._original = self._wrapper = None

    def watch(self):
        cls = getattr(sys.modules.get("torch.utils.data.dataloader"), "_BaseDataLoaderIter", None)
        original = cls.__dict__.get("__next__") if cls else None
        if original is None or self._cls:
            return

        @functools.wraps(original)
        def __next__(self):
            began = now_ns()
            try:
                return original(self)
            finally:
                thread.data_ns += now_ns() - began

        self._cls, self._original, self._wrapper = cls, original, __next__
        cls.__next__ = __next__

    def leave(self):
        if self._cls and self._cls.__dict__.get("__next__") is self._wrapper:
            self._cls.__next__ = self._original
        self._cls = None
