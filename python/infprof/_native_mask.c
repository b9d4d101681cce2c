/* What is secret among variables: the table of names, and the shapes of tokens, are those of infprof itself (model/mask.h). */
#include "_native.h"

#include "model/mask.h"

enum { MASKED_MAX = 2048 };

static PyObject *is_secret(PyObject *module, PyObject *name)
{
        struct text text;
        bool ret;

        (void) module;
        if (!infp_native_is_text(name, "a name"))
                return NULL;
        text = infp_native_text(name);
        ret = infp_mask_is_secret_name(text.data, strlen(text.data));
        infp_native_text_done(&text);
        return PyBool_FromLong(ret);
}

/* mask(text, said): the text, and what it says of the next one where both are arguments of a command. */
static PyObject *mask(PyObject *module, PyObject *arguments)
{
        char masked[MASKED_MAX];
        unsigned said;
        PyObject *from;
        struct text text;
        size_t size;

        (void) module;
        if (!PyArg_ParseTuple(arguments, "OI:mask", &from, &said) || !infp_native_is_text(from, "what is masked"))
                return NULL;
        text = infp_native_text(from);
        size = infp_mask_next(&said, text.data, strlen(text.data), masked, sizeof(masked));
        infp_native_text_done(&text);
        return Py_BuildValue("(NI)", PyUnicode_DecodeUTF8(masked, (Py_ssize_t) size, "replace"), said);
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
