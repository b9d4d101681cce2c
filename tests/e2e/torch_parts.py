"""What the checks of infprof.torch share (torch_checks.py): models, and the rows that tests/fakes/infprof_core.py has taken."""
import gc
import pathlib
import pickle
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests" / "fakes"), str(TOP / "python")]
import infprof_core as fake  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import infprof.torch as profiling  # noqa: E402
from infprof.torch import hooks, outermost, profiler  # noqa: E402, F401

torch.set_num_threads(1)
CHECKS = {}
EVERY = "every=1,budget=off,shadow=off"


def check(function):
    CHECKS[function.__name__] = function
    return function


class Sleeper(nn.Module):
    """Says itself how long it slept."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds, self.slept = seconds, []

    def forward(self, x):
        began = time.monotonic_ns()
        time.sleep(self.seconds)  # sleep: what the module costs
        self.slept.append((time.monotonic_ns() - began) * 1e-9)
        return x


class Block(nn.Module):
    def __init__(self, *children):
        super().__init__()
        self.inner = nn.ModuleList(children)

    def forward(self, x):
        for module in self.inner:
            x = module(x)
        return x


class Net(nn.Module):
    """A residual block, a change in place, a module that is used twice, and one with a module of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.shared, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.act, self.block = nn.ReLU(inplace=True), Block(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x):
        x = self.act(self.first(x))
        x = x + self.shared(x)
        return self.last(self.block(self.shared(x)))


def trace(**wanted):
    return [row for row in fake.rows["torch_trace"] if all(row[key] == value for key, value in wanted.items())]


def steps(**wanted):
    return [row for row in fake.rows["torch_steps"] if all(row[key] == value for key, value in wanted.items())]


def modules_of(step, stage="forward"):
    return [row["module"] for row in trace(step=step, stage=stage)]


def state_of(model):
    return {name: pickle.dumps(module.__dict__) for name, module in model.named_modules()}


def traces_left():
    """Whatever the profiler could have left in torch or Python."""
    at = torch.nn.modules.module
    return [len(at._global_forward_hooks), len(at._global_forward_pre_hooks), len(gc.callbacks), "__call__" in Net.__dict__,
            torch.optim.SGD.step, getattr(torch.optim.Optimizer, "_hook_for_profile", None), getattr(nn.Module, "compile", None), torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
            getattr(torch, "compile", None), nn.Module.__call__]
