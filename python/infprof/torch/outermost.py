"""Where steps begin and end between the sampled ones: in the outermost call of a model, or of an engine's iteration.

The class of a model gets a `__call__` that looks whether it is that model and the outermost call, once for all: no module's own
dictionary is touched, so copies and saved models have nothing of it, and what `forward` takes is seen by name as well. It is set once
and not step by step, since CPython gives up to cache the attributes of a class that is changed again and again.
"""
import functools
import sys
import weakref

from .hooks import thread

MOST_SKIP = 10_000
MOST_MODELS = 16  # a program that calls its layers one by one has no outermost module
# Iterations of engines, whose model may run without any Python of ours (graphs): module, class, method.
ENGINES = (
    ("vllm.v1.worker.gpu_model_runner", "GPUModelRunner", "execute_model"),
    ("sglang.srt.model_executor.model_runner", "ModelRunner", "forward"),
)


class Model:
    """An outermost module, or an engine's class. `skip`: steps to come that are not looked at, since they are too short for it."""

    __slots__ = ("ref", "info", "skip", "last_skip", "is_engine", "ended_ns", "n_steps", "batches", "key", "_own_ns", "_step_ns", "_skip")

    def __init__(self, ref, info, is_engine=False):
        self.ref, self.info, self.is_engine = ref, info, is_engine
        self.skip = self.last_skip = self._skip = self.n_steps = 0
        self.ended_ns = None
        self.batches = {}  # what is known of shapes that it was called with
        self.key = info.name
        self._own_ns = self._step_ns = None

    def next_skip(self, own_ns, step_ns, budget):
        """The least that a step costs us has to be within half the budget: of very short ones only some are looked at. Both times are
        those of usual steps; a single long one (a lost CPU) moves them little. The first may be such a one, so that what is skipped grows
        twofold at most."""
        self._own_ns = _usual(self._own_ns, own_ns)
        self._step_ns = _usual(self._step_ns, step_ns)
        self._skip = min(int(self._own_ns / (budget / 2 * max(self._step_ns, 1))), 2 * self._skip + 1, MOST_SKIP)
        return self._skip


def _usual(usual, value):
    return value if usual is None or value < usual else usual + min(value - usual, usual) / 32


class Outermost:
    """run(model, call, args, kwargs) makes the call and takes its time."""

    def __init__(self, run):
        self._run = run
        self._models = {}  # id of the module
        self._classes = {}  # class: its wrapper, and the `__call__` that was in the class's own dictionary
        self._engines = {}

    def add(self, module, info):
        """None: there are too many."""
        for key in [key for key, model in self._models.items() if model.ref() is None]:
            del self._models[key]
        if len(self._models) >= MOST_MODELS:
            return None
        model = self._models[id(module)] = Model(weakref.ref(module), info)
        cls = type(module)
        if cls not in self._classes:
            self._wrap(cls)
        return model

    def knows(self, module):
        model = self._models.get(id(module))
        return model is not None and model.ref() is module

    def is_empty(self):
        return not any(model.ref() is not None for model in self._models.values())

    def _wrap(self, cls):
        own = cls.__dict__.get("__call__")
        models, run = self._models, self._run

        @functools.wraps(own or cls.__call__)
        def __call__(self, *args, **kwargs):
            # By super() at each call, not once: torch.fx puts a __call__ of its own into nn.Module while it traces.
            call = own.__get__(self, cls) if own else super(cls, self).__call__
            model = None if thread.is_inside else models.get(id(self))
            if model is None or model.ref() is not self:
                return call(*args, **kwargs)
            return run(model, call, self, args, kwargs)

        self._classes[cls] = __call__, own
        cls.__call__ = __call__

    def add_engines(self, info):
        """info(name): what rows say of an engine's class."""
        for name, cls_name, method in ENGINES:
            cls = getattr(sys.modules.get(name), cls_name, None)
            original = cls.__dict__.get(method) if cls else None
            if original is not None and cls not in self._engines:
                self._engines[cls] = method, original, self._wrap_engine(cls, method, original, info(cls_name))

    def _wrap_engine(self, cls, method, original, info):
        model, run, engines = Model(None, info, is_engine=True), self._run, self._engines

        @functools.wraps(original)
        def iterate(self, *args, **kwargs):
            if thread.is_inside or cls not in engines:
                return original(self, *args, **kwargs)
            return run(model, functools.partial(original, self), self, args, kwargs)

        setattr(cls, method, iterate)
        return iterate

    def has_engine(self):
        return bool(self._engines)

    def remove_models(self):
        self._models.clear()
        for cls, (wrapper, own) in self._classes.items():
            if cls.__dict__.get("__call__") is not wrapper:
                continue  # somebody has put theirs on top: ours only passes on now
            if own is None:
                del cls.__call__
            else:
                cls.__call__ = own
        self._classes = {}

    def remove(self):
        self.remove_models()
        for cls, (method, original, wrapper) in list(self._engines.items()):
            if cls.__dict__.get(method) is wrapper:
                setattr(cls, method, original)
        self._engines.clear()
