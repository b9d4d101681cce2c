"""Variables that were asked for by name: rows of table python.variables.

No code of the program runs for it. Types are told apart by `is` (a class may lie about __class__, and a metaclass about its hash);
exact built-in scalars and containers, one level deep, are written as repr() writes them, tensors by shape, type and device; of all
else class and address are given. Secrets are masked as those of `infprof backtrace --locals` are, by the same table.
"""
import collections
import fnmatch
import re
import sys
import types

from infprof import _core, _stacks
from infprof._stacks import this_thread

MOST_ITEMS = 10  # of a container
MOST_TEXT = 200  # characters of a str or bytes
MOST_LOOKED_AT = 512  # of them, for secrets
MOST_BITS = 1920
MOST_BYTES = 1000  # of a value
MOST_NAME = 255
MOST_OF_SCOPE = 64  # variables
MOST_KNOWN = 4096  # functions and modules that are remembered
COLUMNS = "tid thread trigger step scope name type value sample depth"
OPTIMIZED = 1  # co_flags: its variables are places of the frame, and no dictionary

name_of_type = type.__dict__["__name__"].__get__  # a metaclass may have a __name__ of its own
_mro_of = type.__dict__["__mro__"].__get__
_dict_of_type = type.__dict__["__dict__"].__get__
_HAS_COPIES = type((lambda: sys._getframe().f_locals)()) is dict  # before Python 3.13

# ---- values ----


def _text(value, said):
    masked, said = _core.mask(value[:MOST_LOOKED_AT], said)
    shown = repr(masked[:MOST_TEXT])
    is_cut = len(masked) > MOST_TEXT or len(value) > MOST_LOOKED_AT
    return shown[:-1] + "..." + shown[-1] if is_cut else shown, said


def _bytes(value, said):
    shown, said = _text(value[:MOST_LOOKED_AT + 1].decode("latin-1"), said)
    return "b" + shown.encode("ascii", "backslashreplace").decode("ascii"), said


def _int(value):
    return repr(value) if value.bit_length() <= MOST_BITS else f"<int of {value.bit_length()} bits>"


_SCALARS = {id(kind): write for kind, write in ((int, _int), (bool, repr), (float, repr), (complex, repr), (type(None), repr))}
_TEXTS = {id(str): _text, id(bytes): _bytes}
# What stands around the items.
_CONTAINERS = {id(list): ("[", "]"), id(tuple): ("(", ")"), id(set): ("{", "}"), id(frozenset): ("frozenset({", "})"),
               id(dict): ("{", "}")}


def _other(value):
    return f"<{name_of_type(type(value))} at 0x{id(value):x}>"


def _leaf(value, said=0):
    """(text, what it says of the next one) of what is no container, or lies in one."""
    kind = id(type(value))
    write = _TEXTS.get(kind)
    if write is not None:
        return write(value, said)
    write = _SCALARS.get(kind)
    if write is not None:
        return write(value), 0
    if kind in _CONTAINERS:
        return f"<{name_of_type(type(value))} of {len(value)}>", 0
    return _tensor(value) or _other(value), 0


def _tensor(value):
    """None: it is not a tensor. Its own class and Parameter alone: others may have code of the program in them."""
    torch = sys.modules.get("torch")
    if type(torch) is not types.ModuleType:
        return None
    kind = type(value)
    if kind is not torch.__dict__.get("Tensor"):
        module = sys.modules.get("torch.nn.parameter")
        if type(module) is not types.ModuleType or kind is not module.__dict__.get("Parameter"):
            return None
    with torch._C.DisableTorchFunction():  # a mode of the program would be asked for each of these
        has_mode = getattr(torch._C, "_is_torch_function_mode_enabled", None)
        if has_mode is not None and has_mode():  # before torch 2 it still would
            return None
        shape = ", ".join(str(n) if type(n) is int else "?" for n in tuple(value.shape))
        return f"<{name_of_type(kind)} ({shape}) {value.dtype} {value.device}>"


def _pairs(items):
    for key, value in items:
        shown, _ = _leaf(key)
        named = key if type(key) is str else key.decode("latin-1") if type(key) is bytes else None
        is_secret = named is not None and _core.is_secret(named[:MOST_NAME])
        yield f"{shown}: {'***' if is_secret else _leaf(value)[0]}"


def _items(value):
    said = 0  # a list or tuple may be a command line
    for item in value:
        shown, said = _leaf(item, said)
        yield shown


def text_of(value):
    """One line."""
    kind = type(value)
    around = _CONTAINERS.get(id(kind))
    if around is None:
        return _leaf(value)[0]
    n = len(value)
    if not n and (kind is set or kind is frozenset):
        return f"{name_of_type(kind)}()"
    if kind is dict:
        shown = list(_pairs(_first(value.items())))
    elif kind is list or kind is tuple:
        shown = list(_items(value[:MOST_ITEMS]))
    else:
        shown = [_leaf(item)[0] for item in _first(value)]
    if n > len(shown):
        shown.append(f"... {n - len(shown)} more")
    return around[0] + ", ".join(shown) + ("," if kind is tuple and n == 1 else "") + around[1]


def _first(items):
    return [item for item, _ in zip(items, range(MOST_ITEMS))]


def _cut(text):
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= MOST_BYTES:
        return data
    return data[:MOST_BYTES].decode("utf-8", "ignore").encode() + b"..."


# ---- what is asked for ----


def _matcher(patterns):
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns)).match


class Names:
    """Variables of a scope that are wanted."""

    def __init__(self, matchers):
        self._matchers = matchers
        self._known = {}  # name: None, or (as it is shown, whether it is secret)

    def get(self, name):
        if type(name) is not str:
            return None
        try:
            return self._known[name]
        except KeyError:
            pass
        found = None
        if any(match(name) for match in self._matchers):
            found = (name if name.isprintable() else ascii(name)[1:-1])[:MOST_NAME], _core.is_secret(name[:MOST_NAME])
        if len(self._known) < MOST_KNOWN:
            self._known[name] = found
        return found


class Allowed:
    """PATTERN:NAME[,NAME...][;...]: of the functions and modules that match the pattern the variables that match a name. Patterns are those
    of a shell."""

    def __init__(self, text):
        self._rules = []
        for rule in text.split(";"):
            scope, colon, names = (part.strip() for part in rule.rpartition(":"))
            names = [name.strip() for name in names.split(",")]
            if not colon or not scope or not all(names):
                raise ValueError("it is FUNCTION_OR_MODULE:NAME,NAME;..., with * and ? in patterns")
            self._rules.append((_matcher([scope]), _matcher(names)))
        self._sets = {}
        self._scopes = {}  # id of a code or a module's Info: itself, so that its id stays its own, and Names or None

    def _of(self, key, *scopes):
        """scopes: names of one thing."""
        if len(self._scopes) >= MOST_KNOWN:
            self._scopes.clear()
        rules = tuple(i for i, (match, _) in enumerate(self._rules) if any(match(scope) for scope in scopes))
        found = None
        if rules:
            found = self._sets.get(rules) or self._sets.setdefault(rules, Names([self._rules[i][1] for i in rules]))
        self._scopes[id(key)] = key, found
        return found

    def of_frame(self, frame):
        known = self._scopes.get(id(frame.f_code))
        if known is not None:
            return known[1]
        name = _stacks.name_of(frame.f_code)
        of_module = [f"{value}.{name}" for key, value in list(dict.items(frame.f_globals))
                     if type(key) is str and key == "__name__" and type(value) is str]
        return self._of(frame.f_code, name, *of_module)

    def of_module(self, info):
        known = self._scopes.get(id(info))
        return known[1] if known is not None else self._of(info, str(info.name), str(info.cls))


# ---- rows ----

_allowed = None
_write = None


def _put(names, namespace, before, after):
    """before, after: the cells before and after a variable's own."""
    n = 0
    for name, value in namespace:
        wanted = names.get(name)
        if wanted is None:
            continue
        shown, is_secret = wanted
        try:
            text = b"***" if is_secret else _cut(text_of(value))
        except Exception:  # a container that another thread changes
            text = b"<it cannot be read>"
        _write(*before, shown, name_of_type(type(value))[:MOST_NAME], text, *after)
        n += 1
        if n == MOST_OF_SCOPE:
            break


def _variables_of(frame, is_own):
    if not frame.f_code.co_flags & OPTIMIZED:
        namespace = frame.f_locals  # of a module its globals; a class may have a mapping of the program's
        return list(namespace.items()) if type(namespace) is dict else []
    if frame.f_trace is not None:  # a debugger may be about to change them, by the dictionary that is read here
        return []
    namespace = frame.f_locals
    found = list(namespace.items())
    if _HAS_COPIES and is_own and sys.getrefcount(namespace) <= 3 and sys.getprofile() is None:
        # The frame keeps the copy, and with it what the variables hold: unless the program has it too, nobody sees that it is emptied.
        # Another thread may take it at any moment, and so does what a tracing or profiling function of Python comes from.
        code = frame.f_code
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            namespace.pop(name, None)
    return found


def of_frames(t_ns, thread, trigger, frames, step=None, number=None):
    """Of a stack's functions; number: as put() has numbered it."""
    allowed = _allowed
    if allowed is None:
        return
    is_own = thread[0] == _stacks.get_native_id()
    for depth, (_, _, frame) in enumerate(frames):
        names = allowed.of_frame(frame) if frame is not None else None
        if names is not None:
            scope = _stacks.name_of(frame.f_code)[:MOST_NAME]
            _put(names, _variables_of(frame, is_own), (t_ns, *thread, trigger, step, scope), (number, None if number is None else depth))


def of_module(info, module, inputs, output, t_ns, step, trigger="forward"):
    """Of a call of a PyTorch module that has ended: its arguments by their names, its output, its attributes."""
    allowed = _allowed
    names = allowed.of_module(info) if allowed is not None else None
    if names is None:
        return
    found = list(zip(_parameters_of(module), inputs)) if type(inputs) is tuple else []
    found.append(("output", output))
    own = sys.modules["torch"].nn.Module.__dict__["__dict__"].__get__(module)
    for name, value in list(own.items()):
        if type(name) is str and name in ("_parameters", "_buffers") and type(value) in (dict, collections.OrderedDict):
            found.extend(value.items())
        else:
            found.append((name, value))
    _put(names, found, (t_ns, *this_thread(), trigger, step, str(info.name)[:MOST_NAME]), ())


def _parameters_of(module):
    """Names of what forward() takes, without self."""
    for cls in _mro_of(type(module)):
        forward = _dict_of_type(cls).get("forward")
        if forward is not None:
            code = forward.__code__ if type(forward) is types.FunctionType else None
            return code.co_varnames[1:code.co_argcount] if code else ()
    return ()


def is_on():
    return _allowed is not None


def set_allowed(text):
    """Returns what there is now. ValueError: it makes no sense."""
    global _allowed, _write
    if text.lower() in ("", "off"):
        text, _allowed = "off", None
    else:
        if not hasattr(_core, "mask"):
            raise ValueError("this Python cannot load infprof's extension, which masks secrets")
        allowed = Allowed(text)
        if _write is None:
            _write = _core.open_table("variables", COLUMNS).write
        _allowed = allowed
    _stacks.keeps_frames = _allowed is not None
    from infprof import _triggers

    _triggers.tell_profiler()
    return text
