/* Settings of `infprof config`: what _settings.py makes of them. */
#include "_native.h"

static uint32_t seen; /* guarded by the GIL */

/* A few loads, unless something was asked for; then _settings.py sees to it. What fails there must not reach the program. */
void infp_native_look(void)
{
        const uint32_t asked = infp_settings_asked();
        PyObject *kind, *value, *traceback, *module, *result;

        if (__builtin_expect(asked == seen, 1))
                return;
        seen = asked;
        PyErr_Fetch(&kind, &value, &traceback);
        module = PyImport_ImportModule("infprof._settings");
        result = module ? PyObject_CallMethod(module, "look", NULL) : NULL;
        Py_XDECREF(result);
        Py_XDECREF(module);
        PyErr_Restore(kind, value, traceback); /* in place of ours, if there was one */
}

/* A setting is known to Python by its address. */
static int take_setting(PyObject *object, void *to)
{
        *(infp_setting **) to = PyLong_AsVoidPtr(object);
        return !PyErr_Occurred();
}

static PyObject *setting_open(PyObject *module, PyObject *arguments)
{
        const char *key, *value, *may_be;

        (void) module;
        if (!PyArg_ParseTuple(arguments, "sss:setting_open", &key, &value, &may_be))
                return NULL;
        return PyLong_FromVoidPtr(infp_setting_open(key, value, may_be));
}

static PyObject *setting_asked(PyObject *module, PyObject *object)
{
        char text[INFP_SETTING_BYTES];
        infp_setting *setting;

        (void) module;
        if (!take_setting(object, &setting))
                return NULL;
        if (!infp_setting_asked(setting, text, sizeof(text)))
                Py_RETURN_NONE;
        return PyUnicode_FromString(text);
}

static PyObject *setting_is(PyObject *module, PyObject *arguments)
{
        const char *value, *source;
        infp_setting *setting;

        (void) module;
        if (!PyArg_ParseTuple(arguments, "O&ss:setting_is", take_setting, &setting, &value, &source))
                return NULL;
        infp_setting_is(setting, value, source);
        Py_RETURN_NONE;
}

static PyObject *setting_answer(PyObject *module, PyObject *arguments)
{
        const char *refused;
        infp_setting *setting;

        (void) module;
        if (!PyArg_ParseTuple(arguments, "O&z:setting_answer", take_setting, &setting, &refused))
                return NULL;
        infp_setting_answer(setting, refused);
        Py_RETURN_NONE;
}

static PyObject *look(PyObject *module, PyObject *nothing)
{
        (void) module;
        (void) nothing;
        infp_native_look();
        Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
        { "look", look, METH_NOARGS, "look()\n--\n\nDoes what `infprof config` has asked for since the last look." },
        { "setting_open", setting_open, METH_VARARGS, "setting_open(key, value, may_be)\n--\n\nA setting." },
        { "setting_asked", setting_asked, METH_O,
          "setting_asked(setting)\n--\n\nThe value that is asked for and not answered; None: none." },
        { "setting_is", setting_is, METH_VARARGS, "setting_is(setting, value, source)\n--\n\nWhat it is now." },
        { "setting_answer", setting_answer, METH_VARARGS,
          "setting_answer(setting, refused)\n--\n\nAnswers what was asked for: None, or why not." },
        { NULL, NULL, 0, NULL },
};

bool infp_native_add_settings(PyObject *module)
{
        return PyModule_AddFunctions(module, functions) == 0;
}
