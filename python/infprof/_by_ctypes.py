"""The names of infprof._native, by ctypes: for Pythons that cannot load the extension. A call takes about ten times as long."""
import ctypes
import os
from contextvars import ContextVar
from operator import index

from infprof import _place


class _Span(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("parent", ctypes.c_uint64), ("begin_ns", ctypes.c_uint64), ("name_at", ctypes.c_uint32),
                ("name_size", ctypes.c_uint32), ("tid", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


def _load():
    why = None
    for path in _place.libraries():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            why = error
    raise ImportError(f"infprof: its library cannot be loaded: {why}")


_library = _load()
_text, _at = ctypes.c_char_p, ctypes.POINTER(_Span)


def _function(name, result, *arguments):
    function = getattr(_library, "infp_" + name)
    function.restype, function.argtypes = result, arguments
    return function


_enable = _function("enable", ctypes.c_int)
_disable = _function("disable", None)
_is_recording = _function("is_recording", ctypes.c_int)
_now_ns = _function("now_ns", ctypes.c_uint64)
_mark = _function("mark", None, _text)
_step = _function("step", ctypes.c_uint64)
_thread_name = _function("thread_name", None, _text)
_span_begin = _function("span_begin", _Span, _text)
_span_start = _function("span_start", _Span, _text, _at)
_span_end = _function("span_end", None, _at)
_span_fail = _function("span_fail", None, _at, _text)
_span_text = _function("span_text", None, _at, _text, _text)
_span_int = _function("span_int", None, _at, _text, ctypes.c_int64)
_span_double = _function("span_double", None, _at, _text, ctypes.c_double)
_span_bool = _function("span_bool", None, _at, _text, ctypes.c_int)
_counter = _function("counter", ctypes.c_void_p, _text, _text, _text)
_gauge = _function("gauge", ctypes.c_void_p, _text, _text, _text)
_add = _function("add", None, ctypes.c_void_p, ctypes.c_double)
_set = _function("set", None, ctypes.c_void_p, ctypes.c_double)


class _Value(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("d", ctypes.c_double), ("text", _text)]


class _Cell(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("unused", ctypes.c_uint32), ("value", _Value)]


_NONE, _INT, _DOUBLE, _TEXT, _TEXT_ONCE = range(5)
_MAX_CELLS = 32
_table_open = _function("table_open", ctypes.c_void_p, _text, _text)
_row = _function("row", None, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(_Cell), ctypes.c_size_t)


def _bytes(of):
    """As the extension makes texts: what cannot be written becomes '?'."""
    try:
        return (of if isinstance(of, str) else str(of)).encode("utf-8", "replace")
    except Exception:
        return b"?"


def _of_text(text, what):
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str")
    return _bytes(text)


def _number(value):
    if isinstance(value, (str, bytes)):
        raise TypeError("must be a number")
    return float(value)


_setting_open = _function("setting_open", ctypes.c_void_p, _text, _text, _text)
_settings_asked = _function("settings_asked", ctypes.c_uint32)
_setting_asked = _function("setting_asked", ctypes.c_int, ctypes.c_void_p, _text, ctypes.c_size_t)
_setting_is = _function("setting_is", None, ctypes.c_void_p, _text, _text)
_setting_answer = _function("setting_answer", None, ctypes.c_void_p, _text)
_SETTING_BYTES = 64
_seen = 0


def look():
    """Does what `infprof config` has asked for since the last look. What fails there must not reach the program."""
    global _seen
    asked = _settings_asked()
    if asked != _seen:
        _seen = asked
        try:
            from infprof import _settings

            _settings.look()
        except Exception:
            pass


def setting_open(key, value, may_be):
    """A setting."""
    return _setting_open(_bytes(key), _bytes(value), _bytes(may_be))


def setting_asked(setting):
    """The value that is asked for and not answered; None: none."""
    text = ctypes.create_string_buffer(_SETTING_BYTES)
    return text.value.decode() if _setting_asked(setting, text, _SETTING_BYTES) else None


def setting_is(setting, value, source):
    """What it is now."""
    _setting_is(setting, _bytes(value), _bytes(source))


def setting_answer(setting, refused):
    """Answers what was asked for: None, or why not."""
    _setting_answer(setting, None if refused is None else _bytes(refused))


_innermost = ContextVar("infprof.span", default=None)


def _put(span, attributes):
    if not span.id:
        return
    for key, value in list(attributes.items()):
        key = _bytes(key)
        if value is None:
            continue
        if isinstance(value, bool):
            _span_bool(span, key, value)
        elif isinstance(value, float):
            _span_double(span, key, value)
        else:
            try:
                number = value.__index__()
            except Exception:
                number = None
            if number is not None and -2**63 <= number < 2**63:
                _span_int(span, key, number)
            else:
                _span_text(span, key, _bytes(value))


class Span:
    """span(name, **attributes): a named stretch of time, `with span("decode", batch=8):`, or a decorator of a function, also of an async
    one or of a generator. Spans nest in each thread and in each task of asyncio. An exception marks the span as failed."""
    __slots__ = ("id", "_span", "_name", "_attributes", "_before", "_inside", "_is_innermost", "_depth", "__weakref__")

    def __init__(self, name, /, **attributes):
        if not isinstance(name, str):
            raise TypeError("span(name, **attributes): the name must be a str")
        self._name, self._attributes, self._span, self.id = name, attributes, _Span(), 0
        self._before, self._inside, self._is_innermost, self._depth = None, None, False, 0

    @classmethod
    def _of(cls, span):
        self = cls("")
        self._name, self._span, self.id = None, span, span.id
        return self

    def _enter(self, begins, pushes):
        look()
        if self._name is None or self._is_innermost or not (_is_recording() or self.id):
            return self
        innermost = _innermost.get()
        if begins:
            parent = _Span(innermost.id) if innermost is not None and innermost.id else None
            self._span = _span_start(_bytes(self._name), parent)
            self.id = self._span.id
            _put(self._span, self._attributes)
        if pushes and self._span.id:
            _innermost.set(self._inside or self)
            self._is_innermost, self._inside, self._before = True, None, innermost
        return self

    def __enter__(self):
        if not self._depth:
            self._enter(True, True)
        self._depth += 1
        return self

    def _begin(self):
        return self._enter(True, False)

    def _resume(self):
        return self._enter(False, True)

    def _wait(self):
        self._pop(True)

    def _pop(self, waits=False):
        if not self._is_innermost:
            return
        self._is_innermost = False
        innermost = _innermost.get()
        if waits and innermost is not self:
            self._inside = innermost
        if waits or innermost is self:
            rest = self._before
            while rest is not None and not rest._is_innermost:
                rest = rest._before
            _innermost.set(rest)
            self._before = None

    def _ended(self):
        self._inside = None
        self._pop()

    def __exit__(self, kind=None, error=None, traceback=None):
        self._depth = max(self._depth - 1, 0)
        if self._depth:
            return False
        if self._span.id and kind is not None and kind is not GeneratorExit:
            name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
            _span_fail(self._span, _bytes(name))
        else:
            _span_end(self._span)
        self._ended()
        return False

    def end(self):
        """Ends the span. A second end does nothing."""
        _span_end(self._span)
        self._ended()

    def fail(self, error):
        """Ends the span as failed; error is its attribute error.type."""
        _span_fail(self._span, _bytes(error))
        self._ended()

    def text(self, key, value):
        """An attribute that is a text."""
        _span_text(self._span, _bytes(key), _bytes(value))

    def int(self, key, value):
        """An attribute that is a whole number of 64 bits."""
        _span_int(self._span, _bytes(key), value)

    def double(self, key, value):
        """An attribute that is a number."""
        _span_double(self._span, _bytes(key), _number(value))

    def bool(self, key, value):
        """An attribute that is true or false."""
        _span_bool(self._span, _bytes(key), 1 if value else 0)

    def set(self, /, **attributes):
        """Attributes by their types: bool, int, float; all others as str() writes them; None is left out."""
        _put(self._span, attributes)

    def __call__(self, function):
        from infprof._decorate import decorate

        if self._name is None or not callable(function):
            raise TypeError("a span is a context manager (with span(...):) or decorates one function")
        return decorate(Span, self._name, self._attributes, function)


class Metric:
    """A counter or a gauge; see infprof.counter and infprof.gauge."""
    __slots__ = ("_metric",)

    def __init__(self, metric):
        self._metric = metric

    def add(self, amount):
        """Adds to it. A counter only grows: negative amounts are refused and counted."""
        _add(self._metric, _number(amount))

    def set(self, value):
        """Sets a gauge."""
        _set(self._metric, _number(value))


def _cell(value):
    if isinstance(value, float):
        return _Cell(_DOUBLE, 0, _Value(d=value))
    if isinstance(value, int):
        return _Cell(_INT, 0, _Value(i=value)) if -2**63 <= value < 2**63 else _Cell(_NONE)
    if isinstance(value, str):
        return _Cell(_TEXT, 0, _Value(text=_bytes(value)))
    if isinstance(value, bytes):
        return _Cell(_TEXT_ONCE, 0, _Value(text=value))
    if value is not None:
        raise TypeError("a cell is None, a bool, an int, a float, a str or bytes")
    return _Cell(_NONE)


class Rows:
    """A table that is written; see open_table."""
    __slots__ = ("_table",)

    def __init__(self, table):
        self._table = table

    def write(self, t_ns, *cells):
        """A row, at a time of now_ns(), 0: now. Cells in the order of the columns: None, bool, int, float or str; bytes are a text in UTF-8 that will not
        come again."""
        if len(cells) > _MAX_CELLS:
            raise TypeError(f"write(t_ns, *cells): a time, and at most {_MAX_CELLS} cells")
        made = (_Cell * len(cells))(*map(_cell, cells))
        _row(self._table, index(t_ns), made, len(cells))


def open_table(name, columns):
    """A table of schema python that infprof knows; columns: names with blanks between them."""
    return Rows(_table_open(_of_text(name, "the name of a table"), _of_text(columns, "columns")))


def enable():
    """Starts recording in this process, also without `infprof record` and INFPROF_RING. OSError: no file can be made."""
    r = _enable()
    if r < 0:
        raise OSError(-r, os.strerror(-r))


def disable():
    """Stops recording in this process."""
    _disable()


def is_recording():
    """Whether this process records."""
    return bool(_is_recording())


def now_ns():
    """The clock of all records, in nanoseconds: time.monotonic_ns()."""
    return _now_ns()


def mark(tag):
    """A tag on the time line: `infprof report --from TAG`."""
    look()
    _mark(_of_text(tag, "a mark"))


def step():
    """One more step of this process. Returns its number, from 1; 0: not recording."""
    look()
    return _step()


def thread_name(name):
    """The name of this thread in tables and pictures."""
    _thread_name(_of_text(name, "the name of a thread"))


def current_span_id():
    """The id of the innermost span of this thread or task, for logs and messages; 0: none."""
    innermost = _innermost.get()
    return innermost.id if innermost is not None else 0


def span_begin(name):
    """A span of this thread, as infp_span_begin of the C API makes it: it nests by thread, whatever task runs."""
    return Span._of(_span_begin(_of_text(name, "the name of a span")))


def span_start(name, parent=None):
    """A span of no thread. parent: a Span, or the id of one, also of another process."""
    above = _Span(parent.id if isinstance(parent, Span) else index(parent or 0))
    return Span._of(_span_start(_of_text(name, "the name of a span"), above if above.id else None))


def _metric(make, name, unit, help):
    texts = [_of_text(name, "the name of a metric"), _of_text(unit, "a unit"), None if help is None else _of_text(help, "a help")]
    return Metric(make(*texts))


def counter(name, unit="", help=None):
    """A sum that only grows: counter("tokens").add(8). The same name gives the same counter."""
    return _metric(_counter, name, unit, help)


def gauge(name, unit="", help=None):
    """A level: gauge("queue").set(3). The same name gives the same gauge."""
    return _metric(_gauge, name, unit, help)
