"""Where an optimizer's step begins and ends: by torch's own global hooks (torch 2.1), before them by a wrapper around `step` of the
classes of optimizers, also those that are made later."""
import functools
import sys

from .hooks import thread


class Optimizers:
    def __init__(self, begin, end):
        self._begin, self._end = begin, end
        self._handles = ()
        self._classes = {}  # class: the wrapper, and what it stands for
        self._patch_name = None

    def watch(self):
        module = sys.modules.get("torch.optim.optimizer")  # torch.optim takes the name away
        if module is None:
            return
        if hasattr(module, "register_optimizer_step_post_hook"):
            begin, end = self._begin, self._end
            self._handles = (
                module.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: begin(optimizer)),
                module.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: end(optimizer)),
            )
            return
        self._watch_classes(module.Optimizer)

    def _watch_classes(self, base):
        """torch wraps `step` of a class when its first optimizer is made; ours goes on top of that."""
        name = "_patch_step_function" if "_patch_step_function" in base.__dict__ else "_hook_for_profile"
        original = base.__dict__.get(name)
        for cls in _subclasses(base):
            if getattr(cls.__dict__.get("step"), "hooked", None):
                self._wrap(cls)
        if original is None:
            return
        wrap, classes = self._wrap, self._classes

        @functools.wraps(original)
        def patch(self):
            original(self)
            if classes is not None and type(self) not in classes:
                wrap(type(self))

        self._patch_name, self._patch = name, (base, original, patch)
        setattr(base, name, patch)

    def _wrap(self, cls):
        original = cls.__dict__.get("step")
        if original is None:  # inherited, and wrapped there when it is called
            return
        optimizers = self

        @functools.wraps(original)  # with `hooked`, by which torch knows that it has been here
        def step(self, *args, **kwargs):
            if optimizers._classes is None or thread.is_in_optimizer:
                return original(self, *args, **kwargs)  # in another one's: a class that calls the step of the one that it is made of
            thread.is_in_optimizer = True
            optimizers._begin(self)
            try:
                return original(self, *args, **kwargs)
            finally:
                thread.is_in_optimizer = False
                optimizers._end(self)

        self._classes[cls] = step, original
        cls.step = step

    def leave(self):
        for handle in self._handles:
            handle.remove()
        self._handles = ()
        if self._patch_name:
            base, original, patch = self._patch
            if base.__dict__.get(self._patch_name) is patch:
                setattr(base, self._patch_name, original)
            self._patch_name = None
        for cls, (wrapper, original) in (self._classes or {}).items():
            if cls.__dict__.get("step") is wrapper:
                cls.step = original
        self._classes = None  # wrappers that a scheduler keeps in its optimizer only pass on


def _subclasses(cls):
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)
