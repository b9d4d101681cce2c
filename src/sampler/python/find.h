/* Which Python a process runs, and where: by its mapped files and its memory. An interpreter that is not known is refused, with what was
 * found, and never guessed. */
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "base/err.h"
#include "sampler/python/file.h"
#include "unwind/python/task_layout.h"
#include "unwind/python/walk.h"

enum { INFP_PYTHON_RANGES = INFP_PYTHON_PARTS };

struct infp_python {
        struct infp_python_layout layout;
        uint32_t version;         /* PY_VERSION_HEX */
        uint64_t runtime;         /* address of _PyRuntime */
        uint64_t code_type, none; /* of PyCode_Type, _Py_NoneStruct; 0: not known */
        uint64_t asyncio_debug;   /* of AsyncioDebug, from 3.14 on; 0: _asyncio is not there, or does not have it */
        bool has_glibc;           /* it was loaded by glibc's loader */
        uint32_t n_ranges;
        struct infp_python_range ranges[INFP_PYTHON_RANGES];
        char object[4096]; /* path of the interpreter as the process sees it */
};

/* root_fd: of the machine (/), /proc of which is read; the process's own root is honoured. 0; -ESRCH: no such process; -ENOENT: it runs no
 * Python; -ENOTSUP: a Python that is not known, err says which; -EACCES, -EPERM: err names the right that is missing. */
int infp_python_find(int root_fd, pid_t pid, struct infp_python *ret, struct infp_err *err);

/* Why it cannot be told who holds its GIL and who waits for it, after "Python in process N: "; NULL: it can. */
const char *infp_python_gil_problem(const struct infp_python *python);

/* Why its tasks of asyncio cannot be read; NULL: they can, and *ret says where they are. knows_tasks of that is false where the module that
 * keeps them was not there yet when the Python was found. */
const char *infp_python_tasks_problem(const struct infp_python *python, const struct infp_python_memory *memory,
                                      struct infp_python_task_layout *ret);

/* Memory of a live process by process_vm_readv; context is the pid (as intptr_t), for struct infp_python_checks too. */
struct infp_python_memory infp_python_process_memory(pid_t pid);
ssize_t infp_python_process_gather(void *context, const struct iovec *pieces, unsigned n, void *ret_bytes, size_t size);
