/* Spans: by their context, and as the C API has them. */
#include <string.h>

#include "_native.h"

typedef struct {
        PyObject_HEAD infp_span span; /* all zero: not begun, not recorded, or ended */
        uint64_t id;                  /* stays after the end: children that begin later name it */
        PyObject *name;               /* NULL: begun by span_begin or span_start */
        PyObject *attributes;         /* a dict, or NULL */
        PyObject *before;             /* the innermost span of the context when this one became that; NULL: none */
        PyObject *inside;  /* of a generator that waits for its user: the innermost span in it; NULL: this one */
        bool is_innermost; /* of some context: pushed and not yet popped */
        unsigned depth;    /* how often it was entered */
} Span;

static PyTypeObject *span_type;
/* Methods of the context variable that holds the innermost span. Tasks of asyncio have a context each, so that spans nest in a task. */
static PyObject *get_innermost, *set_innermost;

static int make_innermost(PyObject *object)
{
        PyObject *token = PyObject_CallFunctionObjArgs(set_innermost, object, NULL);

        Py_XDECREF(token);
        return token ? 0 : -1;
}

static void put_attribute(const infp_span *span, PyObject *key, PyObject *value)
{
        struct text key_text, value_text;

        if (value == Py_None)
                return;
        key_text = infp_native_text(key);
        if (PyBool_Check(value)) {
                infp_span_bool(span, key_text.data, value == Py_True);
        } else if (PyFloat_Check(value)) {
                infp_span_double(span, key_text.data, PyFloat_AsDouble(value));
        } else {
                PyObject *index = PyUnicode_Check(value) ? NULL : PyNumber_Index(value); /* int, or one of numpy's */
                int overflow = 1;
                const long long number = index ? PyLong_AsLongLongAndOverflow(index, &overflow) : 0;

                if (!index)
                        PyErr_Clear();
                Py_XDECREF(index);
                if (!overflow) {
                        infp_span_int(span, key_text.data, number);
                } else {
                        value_text = infp_native_text(value);
                        infp_span_text(span, key_text.data, value_text.data);
                        infp_native_text_done(&value_text);
                }
        }
        infp_native_text_done(&key_text);
}

static void put_attributes(const infp_span *span, PyObject *attributes)
{
        PyObject *key, *value, *copy;
        Py_ssize_t at = 0;

        if (!attributes || !span->id)
                return;
        copy = PyDict_Copy(attributes); /* str() of a value may change them */
        while (copy && PyDict_Next(copy, &at, &key, &value))
                put_attribute(span, key, value);
        Py_XDECREF(copy);
        PyErr_Clear();
}

static PyObject *span_new(PyTypeObject *type, PyObject *arguments, PyObject *attributes)
{
        PyObject *name = PyTuple_Size(arguments) == 1 ? PyTuple_GetItem(arguments, 0) : NULL;
        Span *self;

        if (!name || !PyUnicode_Check(name)) {
                PyErr_SetString(PyExc_TypeError, "span(name, **attributes): the name must be a str");
                return NULL;
        }
        self = (Span *) infp_native_new(type);
        if (!self)
                return NULL;
        Py_INCREF(name);
        self->name = name;
        if (attributes && PyDict_Size(attributes) > 0 && !(self->attributes = PyDict_Copy(attributes))) {
                Py_DECREF(self);
                return NULL;
        }
        return (PyObject *) self;
}

static void span_dealloc(PyObject *object)
{
        Span *self = (Span *) object;

        Py_XDECREF(self->name);
        Py_XDECREF(self->attributes);
        Py_XDECREF(self->before);
        Py_XDECREF(self->inside);
        infp_native_dealloc(object);
}

/* Begins it below the innermost span of this context. A span that was ended may begin again. */
static void begin(Span *self, PyObject *innermost)
{
        infp_span parent = { 0 };
        struct text name;

        if (Py_TYPE(innermost) == span_type)
                parent.id = ((Span *) innermost)->id;
        name = infp_native_text(self->name);
        self->span = infp_span_start(name.data, parent.id ? &parent : NULL);
        self->id = self->span.id;
        infp_native_text_done(&name);
        put_attributes(&self->span, self->attributes);
}

/* Makes it, or what is inside it, the innermost one. */
static int push(Span *self, PyObject *innermost)
{
        if (make_innermost(self->inside ? self->inside : (PyObject *) self) < 0)
                return -1;
        self->is_innermost = true;
        Py_CLEAR(self->inside);
        Py_CLEAR(self->before);
        if (Py_TYPE(innermost) == span_type) {
                Py_INCREF(innermost);
                self->before = innermost;
        }
        return 0;
}

/* Where another span has become innermost since, that one stays, and skips this one when it ends; unless a generator waits now. */
static int pop(Span *self, bool waits)
{
        PyObject *innermost, *rest;
        int r = 0;

        if (!self->is_innermost)
                return 0;
        self->is_innermost = false;
        innermost = PyObject_CallObject(get_innermost, NULL);
        if (!innermost)
                return -1;
        if (waits && innermost != (PyObject *) self && Py_TYPE(innermost) == span_type) {
                Py_INCREF(innermost);
                self->inside = innermost;
        }
        if (waits || innermost == (PyObject *) self) {
                rest = self->before;
                while (rest && !((Span *) rest)->is_innermost)
                        rest = ((Span *) rest)->before;
                r = make_innermost(rest ? rest : Py_None);
                Py_CLEAR(self->before);
        }
        Py_DECREF(innermost);
        return r;
}

/* __enter__, and the parts of it that generators need. A span that is used again before it has ended stays as it is. */
static PyObject *enter(PyObject *object, bool begins, bool pushes)
{
        Span *self = (Span *) object;
        PyObject *innermost;
        int r = 0;

        infp_native_look();
        if (self->name && !self->is_innermost && (infp_is_recording() || self->id)) {
                innermost = PyObject_CallObject(get_innermost, NULL);
                if (!innermost)
                        return NULL;
                if (begins)
                        begin(self, innermost);
                if (pushes && self->span.id)
                        r = push(self, innermost);
                Py_DECREF(innermost);
        }
        if (r < 0)
                return NULL;
        Py_INCREF(object);
        return object;
}

static PyObject *span_enter(PyObject *object, PyObject *nothing)
{
        Span *self = (Span *) object;

        (void) nothing;
        if (!self->depth)
                return enter(object, true, true) ? (self->depth++, object) : NULL;
        self->depth++;
        Py_INCREF(object);
        return object;
}

static PyObject *span_only_begin(PyObject *self, PyObject *nothing)
{
        (void) nothing;
        return enter(self, true, false);
}

static PyObject *span_resume(PyObject *self, PyObject *nothing)
{
        (void) nothing;
        return enter(self, false, true);
}

static PyObject *span_wait(PyObject *self, PyObject *nothing)
{
        (void) nothing;
        if (pop((Span *) self, true) < 0)
                return NULL;
        Py_RETURN_NONE;
}

/* What all ends have in common. */
static PyObject *ended(PyObject *object, PyObject *ret)
{
        Span *self = (Span *) object;

        Py_CLEAR(self->inside);
        if (pop(self, false) < 0)
                return NULL;
        Py_INCREF(ret);
        return ret;
}

/* "ValueError", "package.module.Error". */
static void fail_by(infp_span *span, PyObject *type)
{
        PyObject *module = PyObject_GetAttrString(type, "__module__"),
                 *name = PyObject_GetAttrString(type, "__qualname__");
        PyObject *whole = module && name ? PyUnicode_FromFormat("%S.%S", module, name) : NULL;
        struct text text = infp_native_text(whole ? whole : type);

        PyErr_Clear();
        infp_span_fail(span, text.data + (strncmp(text.data, "builtins.", 9) == 0 ? 9 : 0));
        infp_native_text_done(&text);
        Py_XDECREF(whole);
        Py_XDECREF(name);
        Py_XDECREF(module);
}

static PyObject *span_exit(PyObject *object, PyObject *arguments)
{
        PyObject *type = PyTuple_Size(arguments) > 0 ? PyTuple_GetItem(arguments, 0) : Py_None;
        Span *self = (Span *) object;

        if (self->depth && --self->depth)
                Py_RETURN_FALSE;
        if (self->span.id && type != Py_None && type != PyExc_GeneratorExit)
                fail_by(&self->span, type);
        else
                infp_span_end(&self->span);
        return ended(object, Py_False);
}

static PyObject *span_end(PyObject *self, PyObject *nothing)
{
        (void) nothing;
        infp_span_end(&((Span *) self)->span);
        return ended(self, Py_None);
}

static PyObject *span_fail(PyObject *object, PyObject *error)
{
        struct text text = infp_native_text(error);

        infp_span_fail(&((Span *) object)->span, text.data);
        infp_native_text_done(&text);
        return ended(object, Py_None);
}

static PyObject *span_text(PyObject *self, PyObject *arguments)
{
        PyObject *key, *value;
        struct text key_text, value_text;

        if (!PyArg_ParseTuple(arguments, "OO:text", &key, &value))
                return NULL;
        key_text = infp_native_text(key);
        value_text = infp_native_text(value);
        infp_span_text(&((Span *) self)->span, key_text.data, value_text.data);
        infp_native_text_done(&value_text);
        infp_native_text_done(&key_text);
        Py_RETURN_NONE;
}

static PyObject *span_int(PyObject *self, PyObject *arguments)
{
        struct text text;
        long long value;
        PyObject *key;

        if (!PyArg_ParseTuple(arguments, "OL:int", &key, &value))
                return NULL;
        text = infp_native_text(key);
        infp_span_int(&((Span *) self)->span, text.data, value);
        infp_native_text_done(&text);
        Py_RETURN_NONE;
}

static PyObject *span_double(PyObject *self, PyObject *arguments)
{
        struct text text;
        PyObject *key;
        double value;

        if (!PyArg_ParseTuple(arguments, "Od:double", &key, &value))
                return NULL;
        text = infp_native_text(key);
        infp_span_double(&((Span *) self)->span, text.data, value);
        infp_native_text_done(&text);
        Py_RETURN_NONE;
}

static PyObject *span_bool(PyObject *self, PyObject *arguments)
{
        struct text text;
        PyObject *key;
        int value;

        if (!PyArg_ParseTuple(arguments, "Op:bool", &key, &value))
                return NULL;
        text = infp_native_text(key);
        infp_span_bool(&((Span *) self)->span, text.data, value);
        infp_native_text_done(&text);
        Py_RETURN_NONE;
}

static PyObject *span_set(PyObject *self, PyObject *arguments, PyObject *attributes)
{
        if (!PyArg_ParseTuple(arguments, ":set"))
                return NULL;
        put_attributes(&((Span *) self)->span, attributes);
        Py_RETURN_NONE;
}

/* As a decorator: each call of the function is a span. */
static PyObject *span_call(PyObject *object, PyObject *arguments, PyObject *keywords)
{
        Span *self = (Span *) object;
        PyObject *function, *module, *ret = NULL;

        if (!self->name || keywords || PyTuple_Size(arguments) != 1 ||
            !PyCallable_Check(PyTuple_GetItem(arguments, 0))) {
                PyErr_SetString(PyExc_TypeError,
                                "a span is a context manager (with span(...):) or decorates one function");
                return NULL;
        }
        function = PyTuple_GetItem(arguments, 0);
        module = PyImport_ImportModule("infprof._decorate");
        if (module)
                ret = PyObject_CallMethod(module, "decorate", "OOOO", (PyObject *) span_type, self->name,
                                          self->attributes ? self->attributes : Py_None, function);
        Py_XDECREF(module);
        return ret;
}

static PyObject *span_id(PyObject *self, void *nothing)
{
        (void) nothing;
        return PyLong_FromUnsignedLongLong(((Span *) self)->id);
}

static PyMethodDef span_methods[] = {
        { "__enter__", span_enter, METH_NOARGS, NULL },
        { "__exit__", span_exit, METH_VARARGS, NULL },
        { "end", span_end, METH_NOARGS, "end()\n--\n\nEnds the span. A second end does nothing." },
        { "fail", span_fail, METH_O, "fail(error)\n--\n\nEnds the span as failed; error is its attribute error.type." },
        { "text", span_text, METH_VARARGS, "text(key, value)\n--\n\nAn attribute that is a text." },
        { "int", span_int, METH_VARARGS, "int(key, value)\n--\n\nAn attribute that is a whole number of 64 bits." },
        { "double", span_double, METH_VARARGS, "double(key, value)\n--\n\nAn attribute that is a number." },
        { "bool", span_bool, METH_VARARGS, "bool(key, value)\n--\n\nAn attribute that is true or false." },
        { "set", (PyCFunction) (void (*)(void)) span_set, METH_VARARGS | METH_KEYWORDS,
          "set(**attributes)\n--\n\nAttributes by their types: bool, int, float; all others as str() writes them; None "
          "is left out." },
        { "_begin", span_only_begin, METH_NOARGS, NULL },
        { "_resume", span_resume, METH_NOARGS, NULL },
        { "_wait", span_wait, METH_NOARGS, NULL },
        { NULL, NULL, 0, NULL },
};
static PyGetSetDef span_values[] = {
        { "id", span_id, NULL, "The span's id, for logs and other processes; 0: not recorded.", NULL },
        { NULL, NULL, NULL, NULL, NULL },
};
static char span_doc[] =
        "span(name, **attributes)\n--\n\n"
        "A named stretch of time: `with span(\"decode\", batch=8):`, or a decorator of a function, also of an async "
        "one or of a\n"
        "generator. Spans nest in each thread and in each task of asyncio. An exception marks the span as failed.";
static PyType_Slot span_slots[] = {
        { Py_tp_doc, span_doc },
        { Py_tp_new, (void *) span_new },
        { Py_tp_dealloc, (void *) span_dealloc },
        { Py_tp_call, (void *) span_call },
        { Py_tp_methods, span_methods },
        { Py_tp_getset, span_values },
        { 0, NULL },
};
static PyType_Spec span_spec = { "infprof.Span", sizeof(Span), 0, Py_TPFLAGS_DEFAULT, span_slots };

static PyObject *begun(infp_span span)
{
        Span *self = (Span *) infp_native_new(span_type);

        if (!self) {
                infp_span_end(&span);
                return NULL;
        }
        self->span = span;
        self->id = span.id;
        return (PyObject *) self;
}

PyObject *infp_native_span_begin(PyObject *module, PyObject *name)
{
        struct text text;
        infp_span span;

        (void) module;
        if (!infp_native_is_text(name, "the name of a span"))
                return NULL;
        text = infp_native_text(name);
        span = infp_span_begin(text.data);
        infp_native_text_done(&text);
        return begun(span);
}

PyObject *infp_native_span_start(PyObject *module, PyObject *arguments)
{
        PyObject *name, *parent = Py_None;
        infp_span above = { 0 }, span;
        struct text text;

        (void) module;
        if (!PyArg_ParseTuple(arguments, "O|O:span_start", &name, &parent) ||
            !infp_native_is_text(name, "the name of a span"))
                return NULL;
        if (Py_TYPE(parent) == span_type)
                above.id = ((Span *) parent)->id;
        else if (parent != Py_None)
                above.id = PyLong_AsUnsignedLongLong(parent);
        if (PyErr_Occurred())
                return NULL;
        text = infp_native_text(name);
        span = infp_span_start(text.data, above.id ? &above : NULL);
        infp_native_text_done(&text);
        return begun(span);
}

PyObject *infp_native_current_span_id(PyObject *module, PyObject *nothing)
{
        PyObject *innermost = PyObject_CallObject(get_innermost, NULL), *ret;

        (void) module;
        (void) nothing;
        if (!innermost)
                return NULL;
        ret = PyLong_FromUnsignedLongLong(Py_TYPE(innermost) == span_type ? ((Span *) innermost)->id : 0);
        Py_DECREF(innermost);
        return ret;
}

static bool make_variable(void)
{
        PyObject *contextvars = PyImport_ImportModule("contextvars"),
                 *keywords = Py_BuildValue("{s:O}", "default", Py_None);
        PyObject *type = contextvars ? PyObject_GetAttrString(contextvars, "ContextVar") : NULL;
        PyObject *arguments = Py_BuildValue("(s)", "infprof.span");
        PyObject *variable = type && keywords && arguments ? PyObject_Call(type, arguments, keywords) : NULL;

        if (variable) {
                get_innermost = PyObject_GetAttrString(variable, "get");
                set_innermost = PyObject_GetAttrString(variable, "set");
        }
        Py_XDECREF(variable);
        Py_XDECREF(arguments);
        Py_XDECREF(type);
        Py_XDECREF(keywords);
        Py_XDECREF(contextvars);
        return get_innermost && set_innermost;
}

bool infp_native_add_spans(PyObject *module)
{
        return make_variable() && infp_native_add_type(module, "Span", &span_spec, &span_type);
}
