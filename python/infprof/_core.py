"""The API by the C extension; where that cannot be loaded (PyPy, a build without Python.h), by ctypes."""
import sys

try:
    if "t" in sys.abiflags:  # without a GIL objects have another layout; 3.13 would load the extension all the same, and crash
        raise ImportError
    from infprof._native import *
except ImportError:
    from infprof._by_ctypes import *

torch_setting = setting_open("torch.profiling", "off", "on, off, or what INFPROF_TORCH takes")  # noqa: F821
span = Span  # noqa: F821 (both have it)
