/* What is secret among variables: the table of names, and the shapes of tokens, are those of infprof itself (model/mask.h). */
#include "_native.h"

#include "model/mask.h"

enum { MASKED_MAX = 2048 };

/* The bytes of a str, NULs and lone surrogates too. NULL: it is not a str. */
static PyObject *bytes_of(PyObject *text, char **ret, Py_ssize_t *ret_size)
{
        PyObject *bytes = infp_native_is_text(text, "what is masked")
                                  ? PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace")
                                  : NULL;

        if (bytes)
                PyBytes_AsStringAndSize(bytes, ret, ret_size);
        return bytes;
}

static PyObject *is_secret(PyObject *module, PyObject *name)
{
        Py_ssize_t size;
        PyObject *bytes;
        char *data;
        bool ret;

        (void) module;
        bytes = bytes_of(name, &data, &size);
        if (!bytes)
                return NULL;
        ret = infp_mask_is_secret_name(data, (size_t) size);
        Py_DECREF(bytes);
        return PyBool_FromLong(ret);
}

/* mask(text, said): the text, and what it says of the next one where both are arguments of a command. */
static PyObject *mask(PyObject *module, PyObject *arguments)
{
        char masked[MASKED_MAX], *data;
        PyObject *from, *bytes;
        Py_ssize_t size;
        unsigned said;
        size_t n;

        (void) module;
        if (!PyArg_ParseTuple(arguments, "OI:mask", &from, &said))
                return NULL;
        bytes = bytes_of(from, &data, &size);
        if (!bytes)
                return NULL;
        n = infp_mask_next(&said, data, (size_t) size, masked, sizeof(masked));
        Py_DECREF(bytes);
        return Py_BuildValue("(NI)", PyUnicode_DecodeUTF8(masked, (Py_ssize_t) n, "replace"), said);
}

static PyMethodDef functions[] = {
        { "is_secret", is_secret, METH_O, "is_secret(name)\n--\n\nWhether a variable of this name holds a secret." },
        { "mask", mask, METH_VARARGS,
          "mask(text, said)\n--\n\n(text without its secrets, what it says of the next one: 0 for the first)." },
        { NULL, NULL, 0, NULL },
};

bool infp_native_add_masks(PyObject *module)
{
        return PyModule_AddFunctions(module, functions) == 0;
}
