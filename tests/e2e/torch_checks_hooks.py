"""Checks of hooks: what they note down, and that they leave everything as it was."""
import copy
import functools
import gc
import io
import os
import pickle
import statistics
import threading
import time
import traceback

import torch
from torch import nn

from torch_parts import EVERY, Block, Net, Sleeper, check, fake, hooks, modules_of, profiler, profiling, state_of, steps, trace, traces_left


@check
def names_order_and_classes():
    model = Net().eval()
    x = torch.ones(1, 4)
    model(x)
    assert modules_of(0) == ["Net", "first", "act", "shared", "shared", "block", "block.inner.0", "block.inner.1", "last"], modules_of(0)
    assert [row["seq"] for row in trace(step=0)] == list(range(9))
    assert [row["class"] for row in trace(step=0)][:3] == ["Net", "Linear", "ReLU"]
    assert {row["device"] for row in trace()} == {"cpu"} and all(row["allocated"] is None for row in trace())
    model.later = nn.Linear(2, 2)
    model.forward = functools.partial(lambda self, x: self.later(nn.Linear(4, 2)(x)), model)
    model(x)
    assert modules_of(1) == ["Net", "Net.<Linear>", "later"], modules_of(1)


@check
def several_models_and_what_is_called_beside_them():
    one, two = Net().eval(), Net().eval()
    for _ in range(4):
        one(torch.ones(1, 4))
        nn.MSELoss()(torch.ones(2), torch.ones(2))
        two(torch.ones(1, 4))
    assert [row["model"] for row in steps()] == ["Net", "Net"] * 4, steps()
    assert {row["step"] for row in trace(module="first")} == {0, 2, 4, 6} and {row["step"] for row in trace(module="Net.first")} == {1, 3, 5, 7}
    assert not trace(module="MSELoss")


@check
def durations_are_those_of_the_program():
    """Within three standard errors, and what the hooks themselves take on a busy machine, of what each module says of itself."""
    model = Block(Sleeper(0.002), Block(Sleeper(0.004), Sleeper(0.001)), Sleeper(0.003))
    for _ in range(25):
        model(torch.ones(1))
    for name, module in model.named_modules():
        if isinstance(module, Sleeper):
            rows = trace(module=name)
            assert len(rows) == 25
            apart = [row["duration"] - slept for row, slept in zip(rows, module.slept)]
            error = statistics.stdev(apart) / 5
            assert abs(statistics.mean(apart)) < 3 * error + 200e-6, (name, statistics.mean(apart), error)
            assert all(row["self_duration"] == row["duration"] >= slept for row, slept in zip(rows, module.slept))


@check
def children_never_exceed_their_parent():
    model = Block(Block(Sleeper(0.001), Sleeper(0.001)), Net())
    x = torch.ones(1, 4, requires_grad=True)
    for _ in range(3):
        model(x).sum().backward()
    for stage in ("forward", "backward"):
        for step in range(3):
            rows = {row["module"]: row for row in trace(step=step, stage=stage)}
            assert len(rows) > 7, (stage, rows)
            for name, row in rows.items():
                inside = [other for other in rows.values() if other["module"].startswith(name + ".") or name == "Block"]
                for other in inside:
                    assert row["t_ns"] <= other["t_ns"] + 1 and other["duration"] <= row["duration"], (stage, row, other)
                assert 0 <= row["self_duration"] <= row["duration"]


@check
def recursive_and_raising_modules():
    class Countdown(nn.Module):
        def forward(self, n):
            return self(n - 1) if n else 0

    class Raises(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.bad, self.good, self.count = Block(Raises()), nn.Identity(), Countdown()

        def forward(self, x):
            try:
                self.bad(x)
            except ValueError:
                pass
            if x is None:
                self.bad(x)
            return self.good(self.count(2))

    model = Tries()
    for _ in range(2):
        model(1)
        try:
            model(None)
            raise AssertionError("it did not raise")
        except ValueError as error:
            assert str(error) == "no"
    for step, is_bad in ((0, False), (1, True), (2, False), (3, True)):
        rows = trace(step=step)
        names = [row["module"] for row in rows]
        expected = ["Tries", "bad", "bad.inner.0"] + (["bad", "bad.inner.0"] if is_bad else ["count", "count", "count", "good"])
        assert names == expected, (step, names)
        if not is_bad:
            whole, good = rows[0], rows[-1]
            assert whole["duration"] >= good["duration"] + rows[3]["duration"] and whole["self_duration"] < whole["duration"]
            counts = [row["duration"] for row in rows if row["module"] == "count"]
            assert counts == sorted(counts, reverse=True)
    assert [row["note"] for row in steps()] == ["first call", "raised", None, "raised"]
    assert not hooks.thread.calls and hooks.thread.step is None, (hooks.thread.calls, hooks.thread.step)


@check
def first_call_that_raises():
    model = Block(nn.Linear(2, 2))
    try:
        model(torch.ones(3))
        raise AssertionError("it did not raise")
    except RuntimeError:
        pass
    model(torch.ones(2))
    # Before torch 2.2 nobody says that it has ended: such a step has no row.
    assert [row["kind"] for row in steps()][-1:] == ["hooked"] and len(steps()) <= 2 and modules_of(1) == ["Block", "inner.0"]


@check
def gradients_are_the_same_to_the_bit():
    def train():
        torch.manual_seed(1)
        model = Net()
        x = torch.randn(3, 4, requires_grad=True)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(5):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        assert not x._backward_hooks
        return [x.grad, *(p.grad for p in model.parameters()), *model.parameters()]

    with_hooks = train()
    assert len(trace(stage="backward")) >= 9, len(trace(stage="backward"))
    profiling.stop()
    assert all(torch.equal(a, b) for a, b in zip(with_hooks, train()))


@check
def backward_of_each_module():
    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, seconds):
            ctx.seconds = seconds
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            time.sleep(ctx.seconds)  # sleep: what the module costs
            return gradient * 1, None

    class Layer(nn.Module):
        def __init__(self, seconds):
            super().__init__()
            self.seconds, self.weight = seconds, nn.Parameter(torch.ones(1))

        def forward(self, x):
            return Slow.apply(x * self.weight, self.seconds)

    model = Block(Layer(0.02), Block(Layer(0.005), Layer(0.01)))
    x = torch.ones(2, requires_grad=True)
    model(x).sum().backward()
    assert not x._backward_hooks  # no step has come since, which would take them away too
    spent = {row["module"]: row["duration"] for row in trace(stage="backward")}
    assert set(spent) == {"Block", "inner.0", "inner.1", "inner.1.inner.0", "inner.1.inner.1"}, spent
    for name, seconds in (("inner.0", 0.02), ("inner.1.inner.0", 0.005), ("inner.1.inner.1", 0.01), ("inner.1", 0.015), ("Block", 0.035)):
        assert seconds <= spent[name] < seconds + 0.05, (name, spent)
    # A second pass over a graph, a pass that never comes, and none at all.
    y = model(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    model(x)
    with torch.no_grad():
        model(x)
    assert len(trace(stage="backward")) == 10 and len(trace(stage="forward")) == 20
    profiling.stop()
    assert not x._backward_hooks


@check
def hooks_of_others_stay_and_keep_their_order():
    def run():
        seen = []
        model = Net()
        handles = [model.register_forward_pre_hook(lambda *a: seen.append("pre")), model.register_forward_hook(lambda *a: seen.append("post")),
                   model.first.register_forward_hook(lambda m, i, o: o + 1), model.first.register_forward_hook(lambda *a: seen.append("first")),
                   model.last.register_full_backward_hook(lambda *a: seen.append("backward")),
                   torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: seen.append(type(m).__name__))]
        torch.manual_seed(3)
        result = model(torch.ones(2, 4))
        result.sum().backward()
        result = model(torch.ones(2, 4)).tolist()
        assert len(model._forward_hooks) == 1 and len(model.first._forward_hooks) == 2
        for handle in handles:
            handle.remove()
        return seen

    with_ours = run()
    profiling.stop()
    assert with_ours == run()


@check
def no_dictionary_of_a_module_changes():
    model = Net()
    before = state_of(model)
    assert not trace()
    for _ in range(3):
        model(torch.ones(1, 4))
        assert state_of(model) == before
    profiling.stop()
    assert state_of(model) == before
    profiling.start("ordered,budget=off,shadow=off")
    for _ in range(12):
        model(torch.ones(1, 4))
    assert len(steps(kind="hooked")) > 10
    profiling.stop()
    assert state_of(model) == before


@check
def between_sampled_steps_nothing_stands():
    at = torch.nn.modules.module
    model = Net().eval()
    for number in range(1, 12):
        model(torch.ones(1, 4))
        # After the 1st, 2nd, 4th and 8th they stay until the next step: another model is looked for.
        assert bool(at._global_forward_hooks) == bool(at._global_forward_pre_hooks) == (number in (1, 2, 4, 8)), number
    profiling.start("every=1000000,budget=off")
    for number in range(4):
        model(torch.ones(1, 4))
        assert bool(at._global_forward_hooks) == (number == 0), number
    assert [row["kind"] for row in steps()][-4:] == ["first", "bare", "bare", "bare"]


@check
def copies_and_files_have_nothing_of_us():
    model = Net().eval()

    def saved():
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        assert b"infprof" not in pickle.dumps(copy.deepcopy(model))
        return pickle.dumps(model), file.getvalue()

    profiling.stop()
    before = saved()
    profiling.start(EVERY)
    assert b"infprof" not in before[0]
    inside = []
    for _ in range(2):
        handle = model.block.register_forward_hook(lambda *a: inside.append(copy.deepcopy(model.first)) or inside.append(pickle.dumps(model.last)))
        model(torch.ones(1, 4))
        handle.remove()
        assert saved() == before
    assert all(b"infprof" not in (one if isinstance(one, bytes) else pickle.dumps(one)) for one in inside)
    twin = copy.deepcopy(model)
    twin(torch.ones(1, 4))
    assert torch.equal(twin(torch.ones(1, 4)), model(torch.ones(1, 4)))


@check
def ten_threads():
    model = Net().eval()
    model(torch.ones(1, 4))
    model(torch.ones(1, 4))
    n = len(steps())

    def work():
        for _ in range(50):
            with torch.no_grad():
                model(torch.ones(1, 4))

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(steps()) == n + 500 and len({row["step"] for row in steps()}) == n + 500
    by_step = {}
    for row in trace(stage="forward"):
        by_step.setdefault(row["step"], []).append(row["module"])
    expected = by_step[0]
    wrong = {step: names for step, names in by_step.items() if names != expected}
    assert not wrong and len(by_step) == n + 500, (len(by_step), wrong)
    assert all(row["duration"] is not None for row in trace(stage="forward"))


@check
def a_thousand_times_on_and_off():
    import tracemalloc

    model = Net().eval()
    profiling.stop()
    clean = traces_left()

    def turn():
        profiling.start(EVERY)
        model(torch.ones(1, 4))
        model(torch.ones(1, 4))
        profiling.stop()
        fake.rows.clear()
        assert traces_left() == clean, traces_left()

    for _ in range(50):
        turn()
    gc.collect()
    tracemalloc.start()
    for _ in range(50):
        turn()
    gc.collect()
    first = tracemalloc.get_traced_memory()[0]
    for _ in range(900):
        turn()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - first
    tracemalloc.stop()
    assert grown < 20_000, grown


@check
def paused_and_on_again_by_a_setting():
    """What `infprof config` asks for is seen where a step begins or an optimizer ends."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    profiling.stop()
    clean = traces_left()
    asked = []

    def look():
        if asked:
            asked.pop()()

    def train(n):
        for _ in range(n):
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    for begin in (lambda: model(torch.ones(1, 4)), lambda: train(3)):  # a step of a model, of an optimizer
        profiling.start(EVERY)
        original, profiler.look = profiler.look, look
        try:
            begin()
            asked.append(profiling.pause)
            begin()
            n = len(trace()), len(steps())
            begin()
            train(2)
            assert not profiling.is_on() and (len(trace()), len(steps())) == n, (n, len(trace()), len(steps()))
            asked.append(lambda: profiling.start(EVERY))
            train(4)
            assert profiling.is_on() and len(trace()) > n[0] and len(steps()) > n[1]
            asked.append(lambda: profiling.start(EVERY))  # other options in the middle of it
            train(4)
            assert profiling.is_on()
            asked.append(profiling.pause)
            train(1)
            profiling.pause()
        finally:
            profiler.look = original
        profiling.stop()
        assert traces_left() == clean, traces_left()
    for name, module in model.named_modules():
        assert not module._forward_hooks and not module._forward_pre_hooks, name


@check
def fork_in_a_step():
    model = Block(nn.Linear(2, 2), nn.Identity())
    model(torch.ones(2))
    pids = []

    def forks(*_):
        if len(pids) < 2:
            pids.append(os.fork())

    model.inner[0].register_forward_hook(forks)
    model(torch.ones(2))
    if pids[-1] == 0:
        try:
            assert not torch.nn.modules.module._global_forward_hooks or hooks.state.is_looking
            n = len(trace())
            model.inner[0]._forward_hooks.clear()
            model(torch.ones(2))
            model(torch.ones(2))
            assert len(trace()) == n + 6, len(trace()) - n
            profiling.stop()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 0
    assert modules_of(1) == ["Block", "inner.0", "inner.1"]
