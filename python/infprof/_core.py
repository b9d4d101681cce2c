"""The API by the C extension; where that cannot be loaded (PyPy, a build without Python.h), by ctypes."""
import sys

try:
    if "t" in sys.abiflags:  # without a GIL objects have another layout; 3.13 would load the extension all the same, and crash
        raise ImportError
    from infprof._native import *
except ImportError:
    from infprof._by_ctypes import *

torch_setting = setting_open("torch.profiling", "off", "on, off, or what INFPROF_TORCH takes")  # noqa: F821
period_setting = setting_open("backtrace.period", "off", "seconds from 0.001 to 3600; on (0.1), off")  # noqa: F821
triggers_setting = setting_open("backtrace.triggers", "off", "off, or of module=20ms, step, exception, signal=USR2")  # noqa: F821
variables_setting = setting_open("python.variables", "off", "off, or FUNCTION_OR_MODULE:NAME,NAME;... with patterns")  # noqa: F821
span = Span  # noqa: F821 (both have it)
