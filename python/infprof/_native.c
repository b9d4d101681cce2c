/* infprof._native: texts, types, counters and gauges, and the functions of the module. */
#include "_native.h"

#include <errno.h>

/* In the limited API since 3.10; 3.8 and 3.9 export the same function. */
PyAPI_FUNC(const char *) PyUnicode_AsUTF8AndSize(PyObject *unicode, Py_ssize_t *ret_size);

void infp_native_text_done(struct text *text)
{
        Py_XDECREF(text->bytes);
        Py_XDECREF(text->object);
}

struct text infp_native_text(PyObject *from)
{
        struct text ret = { NULL, NULL, NULL };

        if (!PyUnicode_Check(from))
                from = ret.object = PyObject_Str(from);
        if (from)
                ret.data = PyUnicode_AsUTF8AndSize(from, NULL);
        if (from && !ret.data) {
                PyErr_Clear();
                ret.bytes = PyUnicode_AsEncodedString(from, "utf-8", "replace");
                ret.data = ret.bytes ? PyBytes_AsString(ret.bytes) : NULL;
        }
        if (!ret.data) {
                PyErr_Clear();
                ret.data = "?";
        }
        return ret;
}

bool infp_native_is_text(PyObject *object, const char *what)
{
        if (PyUnicode_Check(object))
                return true;
        PyErr_Format(PyExc_TypeError, "%s must be a str", what);
        return false;
}

bool infp_native_add_type(PyObject *module, const char *name, PyType_Spec *spec, PyTypeObject **ret)
{
        PyObject *type = PyType_FromSpec(spec);

        *ret = (PyTypeObject *) type;
        Py_XINCREF(type); /* one reference for the module, one for us */
        if (type && PyModule_AddObject(module, name, type) == 0)
                return true;
        Py_XDECREF(type);
        return false;
}

PyObject *infp_native_new(PyTypeObject *type)
{
        return ((allocfunc) PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

void infp_native_dealloc(PyObject *object)
{
        PyTypeObject *type = Py_TYPE(object);

        ((freefunc) PyType_GetSlot(type, Py_tp_free))(object);
        Py_DECREF(type);
}

/* ---- counters and gauges ---- */

typedef struct {
        PyObject_HEAD infp_metric *metric; /* NULL: there was no room for it */
} Metric;

static PyTypeObject *metric_type;

static PyObject *metric_add(PyObject *self, PyObject *amount)
{
        const double value = PyFloat_AsDouble(amount);

        if (value == -1 && PyErr_Occurred())
                return NULL;
        infp_add(((Metric *) self)->metric, value);
        Py_RETURN_NONE;
}

static PyObject *metric_set(PyObject *self, PyObject *to)
{
        const double value = PyFloat_AsDouble(to);

        if (value == -1 && PyErr_Occurred())
                return NULL;
        infp_set(((Metric *) self)->metric, value);
        Py_RETURN_NONE;
}

static PyMethodDef metric_methods[] = {
        { "add", metric_add, METH_O,
          "add(amount)\n--\n\nAdds to it. A counter only grows: negative amounts are refused and counted." },
        { "set", metric_set, METH_O, "set(value)\n--\n\nSets a gauge." },
        { NULL, NULL, 0, NULL },
};
static char metric_doc[] = "A counter or a gauge; see infprof.counter and infprof.gauge.";
static PyType_Slot metric_slots[] = {
        { Py_tp_doc, metric_doc },
        { Py_tp_dealloc, (void *) infp_native_dealloc },
        { Py_tp_methods, metric_methods },
        { 0, NULL },
};
static PyType_Spec metric_spec = { "infprof.Metric", sizeof(Metric), 0, Py_TPFLAGS_DEFAULT, metric_slots };

static PyObject *make_metric(PyObject *arguments, PyObject *keywords, const char *format,
                             infp_metric *(*make)(const char *, const char *, const char *) )
{
        static char *names[] = { "name", "unit", "help", NULL };
        const char *name, *unit = "", *help = NULL;
        Metric *self;

        if (!PyArg_ParseTupleAndKeywords(arguments, keywords, format, names, &name, &unit, &help))
                return NULL;
        self = (Metric *) infp_native_new(metric_type);
        if (self)
                self->metric = make(name, unit, help);
        return (PyObject *) self;
}

static PyObject *core_counter(PyObject *module, PyObject *arguments, PyObject *keywords)
{
        (void) module;
        return make_metric(arguments, keywords, "s|sz:counter", infp_counter);
}

static PyObject *core_gauge(PyObject *module, PyObject *arguments, PyObject *keywords)
{
        (void) module;
        return make_metric(arguments, keywords, "s|sz:gauge", infp_gauge);
}

static PyObject *core_enable(PyObject *module, PyObject *nothing)
{
        const int r = infp_enable();

        (void) module;
        (void) nothing;
        if (r < 0) {
                errno = -r;
                return PyErr_SetFromErrno(PyExc_OSError);
        }
        Py_RETURN_NONE;
}

static PyObject *core_disable(PyObject *module, PyObject *nothing)
{
        (void) module;
        (void) nothing;
        infp_disable();
        Py_RETURN_NONE;
}

static PyObject *core_is_recording(PyObject *module, PyObject *nothing)
{
        (void) module;
        (void) nothing;
        return PyBool_FromLong(infp_is_recording());
}

static PyObject *core_now_ns(PyObject *module, PyObject *nothing)
{
        (void) module;
        (void) nothing;
        return PyLong_FromUnsignedLongLong(infp_now_ns());
}

static PyObject *core_mark(PyObject *module, PyObject *tag)
{
        struct text text;

        (void) module;
        if (!infp_native_is_text(tag, "a mark"))
                return NULL;
        infp_native_look();
        text = infp_native_text(tag);
        infp_mark(text.data);
        infp_native_text_done(&text);
        Py_RETURN_NONE;
}

static PyObject *core_step(PyObject *module, PyObject *nothing)
{
        (void) module;
        (void) nothing;
        infp_native_look();
        return PyLong_FromUnsignedLongLong(infp_step());
}

static PyObject *core_thread_name(PyObject *module, PyObject *name)
{
        struct text text;

        (void) module;
        if (!infp_native_is_text(name, "the name of a thread"))
                return NULL;
        text = infp_native_text(name);
        infp_thread_name(text.data);
        infp_native_text_done(&text);
        Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
        { "enable", core_enable, METH_NOARGS,
          "enable()\n--\n\nStarts recording in this process, also without `infprof record` and INFPROF_RING. OSError: "
          "no file can be made." },
        { "disable", core_disable, METH_NOARGS, "disable()\n--\n\nStops recording in this process." },
        { "is_recording", core_is_recording, METH_NOARGS, "is_recording()\n--\n\nWhether this process records." },
        { "now_ns", core_now_ns, METH_NOARGS,
          "now_ns()\n--\n\nThe clock of all records, in nanoseconds: time.monotonic_ns()." },
        { "mark", core_mark, METH_O, "mark(tag)\n--\n\nA tag on the time line: `infprof report --from TAG`." },
        { "step", core_step, METH_NOARGS,
          "step()\n--\n\nOne more step of this process. Returns its number, from 1; 0: not recording." },
        { "thread_name", core_thread_name, METH_O,
          "thread_name(name)\n--\n\nThe name of this thread in tables and pictures." },
        { "current_span_id", infp_native_current_span_id, METH_NOARGS,
          "current_span_id()\n--\n\nThe id of the innermost span of this thread or task, for logs and messages; 0: "
          "none." },
        { "span_begin", infp_native_span_begin, METH_O,
          "span_begin(name)\n--\n\nA span of this thread, as infp_span_begin of the C API makes it: it nests by "
          "thread, whatever task runs." },
        { "span_start", infp_native_span_start, METH_VARARGS,
          "span_start(name, parent=None)\n--\n\nA span of no thread. parent: a Span, or the id of one, also of another "
          "process." },
        { "open_table", infp_native_open_table, METH_VARARGS,
          "open_table(name, columns)\n--\n\nA table of schema python that infprof knows; columns: names with blanks "
          "between them." },
        { "counter", (PyCFunction) (void (*)(void)) core_counter, METH_VARARGS | METH_KEYWORDS,
          "counter(name, unit=\"\", help=None)\n--\n\nA sum that only grows: counter(\"tokens\").add(8). The same name "
          "gives the same counter." },
        { "gauge", (PyCFunction) (void (*)(void)) core_gauge, METH_VARARGS | METH_KEYWORDS,
          "gauge(name, unit=\"\", help=None)\n--\n\nA level: gauge(\"queue\").set(3). The same name gives the same "
          "gauge." },
        { NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT,
                                         "infprof._native",
                                         "The public API of infprof in C; see infprof.",
                                         -1,
                                         functions,
                                         NULL,
                                         NULL,
                                         NULL,
                                         NULL };

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
        PyObject *module = PyModule_Create(&definition);

        if (module &&
            (!infp_native_add_spans(module) || !infp_native_add_tables(module) || !infp_native_add_settings(module) ||
             !infp_native_add_masks(module) || !infp_native_add_type(module, "Metric", &metric_spec, &metric_type)))
                Py_CLEAR(module);
        return module;
}
