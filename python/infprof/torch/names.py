"""Names of modules, as the trees of their models have them. Nothing is written into a module: it is known by its id() and a weak
reference."""
import weakref
import zlib

MOST = 200_000  # modules that are known at once


class Info:
    """What rows say of a module. `gate`: a number that is the same on all ranks, for the share of modules that have hooks."""

    __slots__ = ("name", "cls", "device", "gate")

    def __init__(self, name, cls, device):
        self.name, self.cls, self.device = name, cls, device
        self.gate = zlib.crc32(name.encode("utf-8", "replace"))


class Names:
    def __init__(self):
        self._known = {}  # id: weak reference, Info
        self._models = []  # weak reference to the root of a tree, what its names begin with
        self._is_fresh = False

    def begin_step(self):
        """From here on a module that is not known is looked for in the trees once."""
        self._is_fresh = False

    def get(self, module, parent=None):
        known = self._known.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        return self._learn(module, parent)

    def add_model(self, module):
        """The names of one model are those of its tree; those of others that live beside it begin with the name of their class."""
        cls = class_of(module)
        self._models = [(ref, taken) for ref, taken in self._models if ref() is not None]
        taken = {taken for _, taken in self._models}
        prefix, number = "", 1
        while prefix in taken:
            prefix, number = (f"{cls}#{number}" if number > 1 else cls), number + 1
        self._models.append((weakref.ref(module), prefix))
        self._put(module, Info(prefix or cls, cls, device_of(module)))
        self._read(module, prefix)
        return self.get(module)

    def _learn(self, module, parent):
        if not self._is_fresh:
            self._is_fresh = True
            for ref, prefix in self._models:
                model = ref()
                if model is not None:
                    self._read(model, prefix)
            known = self._known.get(id(module))
            if known is not None and known[0]() is module:
                return known[1]
        if parent is None:
            return self.add_model(module)
        # Made by a forward(), as replicas are, or hidden from named_modules().
        cls = class_of(module)
        return self._put(module, Info(f"{parent.name}.<{cls}>", cls, device_of(module) or parent.device))

    def _read(self, model, prefix):
        root = self.get(model, Info("", "", None))
        try:
            for path, module in model.named_modules():
                known = self._known.get(id(module))
                if path and (known is None or known[0]() is not module or known[1].name.endswith(">")):
                    self._put(module, Info(f"{prefix}.{path}" if prefix else path, class_of(module), device_of(module) or root.device))
        except Exception:  # named_modules() is the program's own, and its trees may change while they are read
            pass

    def _put(self, module, info):
        key = id(module)
        known = self._known

        def forget(ref):
            if known.get(key, (None,))[0] is ref:
                del known[key]

        if len(known) < MOST:
            known[key] = weakref.ref(module, forget), info
        return info

    def all_of(self, model):
        """Modules of a model's tree, in its order."""
        try:
            return list(model.modules())
        except Exception:
            return [model]


def class_of(module):
    """The class of the source, also of modules that are scripted."""
    return getattr(module, "original_name", None) or type(module).__name__


def device_of(module):
    """As text, of its first parameter or buffer; None: it has neither."""
    try:
        for tensors in (module.parameters(), module.buffers()):
            for tensor in tensors:
                return str(tensor.device)
    except Exception:
        pass
    return None
