/* Rows of tables of schema `python`. */
#include "_native.h"

enum { MAX_CELLS = 32 };

typedef struct {
        PyObject_HEAD infp_table *table; /* NULL: there was no room for it */
} Table;

static PyTypeObject *table_type;

/* text: to be done after the cell was written. */
static bool make_cell(PyObject *value, infp_cell *ret, struct text *text)
{
        int overflow;

        if (PyFloat_Check(value)) {
                ret->type = INFP_CELL_DOUBLE;
                ret->value.d = PyFloat_AsDouble(value);
        } else if (PyLong_Check(value)) {
                ret->value.i = PyLong_AsLongLongAndOverflow(value, &overflow);
                ret->type = overflow ? INFP_CELL_NONE : INFP_CELL_INT;
        } else if (PyUnicode_Check(value)) {
                *text = infp_native_text(value);
                ret->type = INFP_CELL_TEXT;
                ret->value.text = text->data;
        } else if (PyBytes_Check(value)) {
                ret->type = INFP_CELL_TEXT_ONCE;
                ret->value.text = PyBytes_AsString(value);
        } else if (value != Py_None) {
                PyErr_SetString(PyExc_TypeError, "a cell is None, a bool, an int, a float, a str or bytes");
                return false;
        }
        return true;
}

static PyObject *table_write(PyObject *self, PyObject *arguments)
{
        const Py_ssize_t n = PyTuple_Size(arguments) - 1;
        infp_cell cells[MAX_CELLS] = { { 0 } };
        struct text texts[MAX_CELLS] = { { NULL, NULL, NULL } };
        unsigned long long t_ns;
        bool is_ok = true;

        if (n < 0 || n > MAX_CELLS) {
                PyErr_Format(PyExc_TypeError, "write(t_ns, *cells): a time, and at most %d cells", MAX_CELLS);
                return NULL;
        }
        t_ns = PyLong_AsUnsignedLongLong(PyTuple_GetItem(arguments, 0));
        if (PyErr_Occurred())
                return NULL;
        for (Py_ssize_t i = 0; i < n && is_ok; i++)
                is_ok = make_cell(PyTuple_GetItem(arguments, i + 1), &cells[i], &texts[i]);
        if (is_ok)
                infp_row(((Table *) self)->table, t_ns, cells, (size_t) n);
        for (Py_ssize_t i = 0; i < n; i++)
                infp_native_text_done(&texts[i]);
        if (!is_ok)
                return NULL;
        Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
        { "write", table_write, METH_VARARGS,
          "write(t_ns, *cells)\n--\n\nA row, at a time of now_ns(), 0: now. Cells in the order of the columns: None, "
          "bool, int, float or str; bytes are a text in UTF-8 that will not come again." },
        { NULL, NULL, 0, NULL },
};
static char doc[] = "A table that is written; see open_table.";
static PyType_Slot slots[] = {
        { Py_tp_doc, doc },
        { Py_tp_dealloc, (void *) infp_native_dealloc },
        { Py_tp_methods, methods },
        { 0, NULL },
};
static PyType_Spec spec = { "infprof.Rows", sizeof(Table), 0, Py_TPFLAGS_DEFAULT, slots };

PyObject *infp_native_open_table(PyObject *module, PyObject *arguments)
{
        const char *name, *columns;
        PyObject *self;

        (void) module;
        if (!PyArg_ParseTuple(arguments, "ss:open_table", &name, &columns))
                return NULL;
        self = infp_native_new(table_type);
        if (self)
                ((Table *) self)->table = infp_table_open(name, columns);
        return self;
}

bool infp_native_add_tables(PyObject *module)
{
        return infp_native_add_type(module, "Rows", &spec, &table_type);
}
