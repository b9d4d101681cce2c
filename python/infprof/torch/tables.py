"""The tables that are written, and rank. Their columns are declared in src/model/python_tables.c."""
import os

from infprof import _core

TRACE = "step seq module stage allocated max_allocated cached max_cached growth duration self_duration cpu_duration class device rank span"
STEPS = "step model phase shape kind duration own gc data wait calls note rank"
OVERHEAD = "step shadow phase shape hooked bare every pairs hooks hooks_low hooks_high own overhead low high rank"
GC = "generation duration collected uncollectable short short_duration"


class Tables:
    def __init__(self):
        self.trace = _core.open_table("torch_trace", TRACE).write
        self.steps = _core.open_table("torch_steps", STEPS).write
        self.overhead = _core.open_table("torch_overhead", OVERHEAD).write
        self.gc = _core.open_table("gc", GC).write


_tables = None


def tables():
    """Opened once a process: starting and stopping again and again opens no more."""
    global _tables
    if _tables is None:
        _tables = Tables()
    return _tables


def is_recording():
    return _core.is_recording()


def current_span_id():
    """Of the span that is around this step; None: none, or this _core does not say."""
    ask = getattr(_core, "current_span_id", None)
    return ask() if ask else None


def rank_of(torch):
    """Number of this process in its distributed job; None: it is part of no job."""
    try:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
    except Exception:
        pass
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None
