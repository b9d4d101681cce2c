/* The parts of infprof._native: the public API for Python, over include/infprof, and over src/model/mask.h where
 * secrets are left out. It uses the limited API of CPython 3.8, so that one
 * file serves that version and all later ones that have a GIL. infprof._by_ctypes has the same names for the others. */
#pragma once

#include <Python.h>
#include <stdbool.h>

#include "infprof/infprof.h"

/* A program must run as it does without us: texts that are not UTF-8, and objects that cannot be written, become '?'. */
struct text {
        const char *data;
        PyObject *object, *bytes; /* NULL, or what holds data */
};
/* The text of a str, or of another object as str() writes it. To be done, and valid as long as `from`. */
struct text infp_native_text(PyObject *from);
void infp_native_text_done(struct text *text);
/* Whether it is a str; else TypeError. */
bool infp_native_is_text(PyObject *object, const char *what);

/* Adds a type to the module. *ret is a reference of its own. */
bool infp_native_add_type(PyObject *module, const char *name, PyType_Spec *spec, PyTypeObject **ret);
PyObject *infp_native_new(PyTypeObject *type); /* all zero */
void infp_native_dealloc(PyObject *object);    /* of a type without references */

/* Where the program comes by: whether `infprof config` has asked for something. */
void infp_native_look(void);
bool infp_native_add_settings(PyObject *module);
bool infp_native_add_masks(PyObject *module);

/* Spans, tables: their types, and the functions that make them. */
bool infp_native_add_spans(PyObject *module);
bool infp_native_add_tables(PyObject *module);
PyObject *infp_native_span_begin(PyObject *module, PyObject *name);
PyObject *infp_native_span_start(PyObject *module, PyObject *arguments);
PyObject *infp_native_current_span_id(PyObject *module, PyObject *nothing);
PyObject *infp_native_open_table(PyObject *module, PyObject *arguments);
