"""Checks of steps: where they begin, which of them have hooks, what is written of them and of devices."""
import gc
import re
import sys
import time
import types

import torch
from torch import nn

from torch_parts import EVERY, Block, Net, check, fake, hooks, modules_of, outermost, profiler, profiling, steps, trace


@check
def steps_of_an_optimizer():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    x = torch.ones(2, 4)
    for _ in range(6):
        for _ in range(2):  # accumulates
            model(x).sum().backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            model(x)
    profiling.stop()
    # Two calls make steps of their own until the optimizer is seen; a step that it does not end is open.
    train = steps(phase="train")
    assert [row["kind"] for row in train] == ["first", "hooked"] + ["hooked"] * 6, train
    assert len(trace(stage="step", module="SGD")) == 5, trace(stage="step")
    third = train[4]["step"]
    assert [row["stage"] for row in trace(step=third)].count("step") == 1
    assert modules_of(third).count("Net") == 2 and modules_of(third, "backward").count("Net") == 2
    evaluations = [row for row in steps() if row["phase"] == "forward"]
    assert len(evaluations) == 6, steps()


@check
def the_program_says_what_a_step_is():
    model = Net().eval()
    for _ in range(3):
        profiling.step()
        model(torch.ones(1, 4))
        model(torch.ones(1, 4))
    profiling.stop()
    assert len(steps()) == 3 and [modules_of(row["step"]).count("first") for row in steps()] == [2, 2, 2], steps()


def plain(text):
    """Without the numbers that torch gives to names that it has had before."""
    return re.sub(r"_*torch_mangle_\d+\.?|(?<=%)\d+", "", str(text))


@check
def scripted_traced_and_fx():
    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
            self.plain = nn.Linear(4, 4)

        def forward(self, x):
            return self.plain(self.inner(x))

    model, net, linear = Scripted().eval(), Net().eval(), nn.Linear(4, 4)
    for _ in range(3):
        model(torch.ones(1, 4))
        net(torch.ones(1, 4))
        linear(torch.ones(1, 4))
    assert modules_of(0) == ["Scripted", "inner", "plain"], modules_of(0)
    assert trace(step=0, module="inner")[0]["class"] == "Sequential"
    scripted = torch.jit.script(Scripted())
    assert scripted(torch.ones(1, 4)).shape == (1, 4)
    graph = str(torch.fx.symbolic_trace(net).graph)
    traced = plain(torch.jit.trace(net, torch.ones(1, 4)).graph)
    script = plain(torch.jit.script(net).code)
    profiling.stop()
    assert graph == str(torch.fx.symbolic_trace(net).graph) and graph.count("call_module") == 7
    assert traced == plain(torch.jit.trace(net, torch.ones(1, 4)).graph) and script == plain(torch.jit.script(net).code)


@check
def torch_compile_is_left_alone():
    """The real one, of torch 2: not a graph more, not a break, not a compilation more than without us."""
    if not hasattr(torch, "compile"):
        return
    import torch._dynamo as dynamo

    def run(is_profiled):
        dynamo.reset()
        dynamo.utils.counters.clear()
        (profiling.start if is_profiled else lambda how: profiling.stop())(EVERY)
        torch.manual_seed(2)
        model = Net().eval()
        results = [model(torch.ones(1, 4)) for _ in range(3)]
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        results += [compiled(torch.ones(1, 4)) for _ in range(3)]
        if is_profiled:
            assert "__call__" not in Net.__dict__ and not torch.nn.modules.module._global_forward_hooks
            assert len(trace(module="first")) == 3 and "torch.compile" in steps(kind="none")[0]["note"], steps()
            fake.rows.clear()
            profiling.start(EVERY)  # that something was compiled is seen at the start as well
            results += [compiled(torch.ones(1, 4)), model(torch.ones(1, 4))]
            assert not trace() and len(steps(kind="none")) == 1, (trace(), steps())
        else:
            results += [compiled(torch.ones(1, 4)), model(torch.ones(1, 4))]
        return results, dict(dynamo.utils.counters["stats"]), dict(dynamo.utils.counters["frames"]), dict(dynamo.utils.counters["graph_break"])

    with_us, without = run(True), run(False)
    assert with_us[1:] == without[1:] and with_us[1]["unique_graphs"] == 1, (with_us[1:], without[1:])
    assert all(torch.equal(a, b) for a, b in zip(with_us[0], without[0]))
    dynamo.reset()
    dynamo.utils.counters.clear()


@check
def compiled_programs_have_no_hooks():
    profiling.stop()
    real = torch.__dict__.get("compile")
    torch.compile = lambda model, **options: model
    ours = torch.compile
    try:
        profiling.start(EVERY)
        model = Net().eval()
        model(torch.ones(1, 4))
        model(torch.ones(1, 4))
        assert len(trace(module="Net")) == 2
        torch.compile(model, mode="default")(torch.ones(1, 4))
        assert "__call__" not in Net.__dict__ and not torch.nn.modules.module._global_forward_hooks
        model(torch.ones(1, 4))
        notes = steps(kind="none")
        assert len(trace(module="Net")) == 2 and len(notes) == 1 and "torch.compile" in notes[0]["note"], notes
        profiling.start(EVERY + ",force")
        torch.compile(model)(torch.ones(1, 4))
        assert len(trace(module="Net")) == 3
        profiling.stop()
        assert torch.compile is ours
        # A module that was compiled before.
        compiled = type("OptimizedModule", (nn.Module,), {"__module__": "torch._dynamo.eval_frame", "forward": lambda self, x: x})()
        fake.rows.clear()
        profiling.start(EVERY)
        compiled(torch.ones(1))
        assert len(steps(kind="none")) == 1 and not trace(), (steps(), trace())
    finally:
        profiling.stop()
        del torch.compile
        if real:
            torch.compile = real


@check
def iterations_of_an_engine():
    class GPUModelRunner:
        def __init__(self, model):
            self.model = model

        def execute_model(self, scheduled):
            return self.model(torch.ones(1, 4)), self.model(torch.ones(1, 4))

    name = "vllm.v1.worker.gpu_model_runner"
    module = sys.modules[name] = types.ModuleType(name)
    module.GPUModelRunner = GPUModelRunner
    original = GPUModelRunner.execute_model
    try:
        runner = GPUModelRunner(Net().eval())
        prefill = types.SimpleNamespace(total_num_scheduled_tokens=9, num_scheduled_tokens={"a": 8, "b": 1})
        decode = types.SimpleNamespace(total_num_scheduled_tokens=2, num_scheduled_tokens={"a": 1, "b": 1})
        for scheduled in (prefill, prefill, decode, decode):
            runner.execute_model(scheduled)
        found = [(row["model"], row["phase"], row["shape"]) for row in steps()][-2:]
        assert found == [("GPUModelRunner", "decode", "2x2")] * 2, steps()
        assert modules_of(steps()[-1]["step"]).count("Net") == 2
        profiling.stop()
        assert GPUModelRunner.execute_model is original
    finally:
        del sys.modules[name]


@check
def strategies():
    model = Net().eval()
    profiling.start("ordered:1,shadow=off")
    for _ in range(10):
        model(torch.ones(1, 4))
    seen = [set(modules_of(row["step"])) for row in steps(kind="hooked")]
    names = [name or "Net" for name, _ in model.named_modules()]
    assert [names.index(next(iter(one))) if one else names.index("block.inner") for one in seen] == list(range(9)), seen  # a list is not called
    assert all(row["self_duration"] is None for row in trace() if row["step"])
    fake.rows.clear()
    profiling.start("1.0:0.5,shadow=off")
    for _ in range(60):
        model(torch.ones(1, 4))
    share = len(trace(stage="forward")) / 9 / len(steps())
    assert 0.35 < share < 0.65, share
    assert len({frozenset(modules_of(row["step"])) for row in steps()}) > 20
    fake.rows.clear()
    profiling.start("every=5,budget=off")
    for _ in range(400):
        model(torch.ones(1, 4))
    kinds = [row["kind"] for row in steps()]
    assert 50 < kinds.count("hooked") < 110 and 50 < kinds.count("shadow") < 110, kinds
    # Each pair of one thread counts, those too before which hooks stood to find another model.
    assert abs(len(fake.rows["torch_overhead"]) - kinds.count("hooked")) <= 2 and len(fake.rows["torch_overhead"]) > 50


@check
def overhead_is_seen_and_kept_small():
    """Of 20 modules that do nothing, hooks take many times what they do themselves: N has to grow until it is within the budget."""
    model = Block(*(nn.Identity() for _ in range(20)))
    profiling.start("1.0,budget=5%")
    x = torch.ones(1)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for _ in range(200):
            model(x)
        rows = fake.rows["torch_overhead"]
        if rows and rows[-1]["every"] > 10:
            break
    last = rows[-1]
    assert last["hooks_low"] <= last["hooks"] <= last["hooks_high"] and last["hooks_low"] > 0.1, last
    assert last["low"] <= last["overhead"] <= last["high"] and last["every"] > 10, last
    assert all(row["hooked"] > 0 and row["bare"] > 0 for row in rows)


@check
def batches_are_told_apart():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(8, 4)

        def forward(self, input_ids=None, inputs_embeds=None):
            return self.embed(input_ids) if inputs_embeds is None else inputs_embeds

    model = Model().eval()
    ids = torch.zeros(2, 7, dtype=torch.int64)
    for call in (lambda: model(ids), lambda: model(ids), lambda: model(input_ids=ids[:, :1]), lambda: model(inputs_embeds=torch.zeros(2, 3, 4)),
                 lambda: model(torch.zeros(5, dtype=torch.int64)), lambda: model.train()(ids)):
        call()
    assert [(row["phase"], row["shape"]) for row in steps()] == [("prefill", "2x7"), ("prefill", "2x7"), ("decode", "2x1"), ("prefill", "2x3x4"),
                                                                  ("forward", "5"), ("train", "2x7")], steps()


@check
def pauses_of_a_step():
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            time.sleep(0.01)  # sleep: what the loader costs
            return torch.ones(4)

    model = Net().eval()
    model(torch.ones(1, 4))
    handle = model.first.register_forward_hook(lambda *a: gc.collect() and None)
    for x in torch.utils.data.DataLoader(Data(), batch_size=1):
        model(x)
    handle.remove()
    rows = steps()[1:]
    assert all(0.009 < row["data"] < 1 and 0 < row["gc"] < row["duration"] for row in rows), rows
    assert all(row["wait"] >= row["data"] for row in rows)
    collections = [row for row in fake.rows["gc"] if row["generation"] == 2]
    assert len(collections) >= 3 and all(row["duration"] > 0 and row["collected"] >= 0 for row in collections)


class FakeDevices:
    """A device that works beside the CPU: its clock goes on when a module says so, and events are reached a step later."""

    def __init__(self):
        self.clock, self.allocated, self.most, self.is_done = 0.0, 100.0, 100.0, True
        self.reused = 0

    def is_ready(self):
        return True

    def is_capturing(self):
        return False

    def is_of(self, device):
        return device == "cpu"

    def memory(self, device):
        return self.allocated, self.most, 512.0, 600.0

    def stamp(self, device):
        return [self.clock]

    def is_reached(self, event):
        return self.is_done

    def seconds(self, begin, end):
        assert self.is_done
        return end[0] - begin[0]

    def reuse(self, device, events):
        self.reused += len(events)

    def work(self, seconds, mib):
        self.clock += seconds
        self.allocated += mib
        self.most = max(self.most, self.allocated)


@check
def a_device_that_answers_later():
    device = FakeDevices()

    class Layer(nn.Module):
        def __init__(self, seconds, mib):
            super().__init__()
            self.cost = seconds, mib
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, x):
            device.work(*self.cost)
            return x

    profiling.start(EVERY, devices=device)
    model = Block(Layer(1.0, 8), Block(Layer(2.0, -3), Layer(4.0, 0)))
    device.is_done = False
    with torch.no_grad():
        for _ in range(3):
            model(torch.ones(1))
        assert not trace() and len(steps()) == 3
        device.is_done = True
        model(torch.ones(1))
    assert len(trace()) == 20
    found = {row["module"]: row for row in trace(step=1)}
    for name, seconds, own, growth in (("Block", 7, 0, 5), ("inner.0", 1, 1, 8), ("inner.1", 6, 0, -3), ("inner.1.inner.0", 2, 2, -3),
                                       ("inner.1.inner.1", 4, 4, 0)):
        row = found[name]
        assert (row["duration"], row["self_duration"], row["growth"]) == (seconds, own, growth), row
        assert row["cpu_duration"] < 1 and row["cached"] == 512 and row["max_cached"] == 600 and row["max_allocated"] >= row["allocated"]
    assert device.reused == 40
    # What is not known at the end is absent.
    device.is_done = False
    with torch.no_grad():
        model(torch.ones(1))
    profiling.stop()
    assert len(trace()) == 25 and all(row["duration"] is None and row["cpu_duration"] > 0 for row in trace(step=4))


@check
def nothing_is_sampled_when_nobody_records():
    model = Net().eval()
    fake.recording = False
    try:
        for _ in range(5):
            model(torch.ones(1, 4))
        assert [row["kind"] for row in steps()] == ["first", "bare", "bare", "bare", "bare"]
    finally:
        fake.recording = True


@check
def a_fault_of_ours_ends_the_profiling_alone():
    model = Net().eval()
    expected = model(torch.ones(1, 4))
    hooks.state.names.get = None  # a call of it raises
    assert torch.equal(model(torch.ones(1, 4)), expected) and torch.equal(model(torch.ones(1, 4)), expected)
    assert not profiling.is_on() and "TypeError" in steps(kind="none")[0]["note"]
    assert not torch.nn.modules.module._global_forward_hooks and "__call__" not in Net.__dict__


@check
def most_calls_of_a_step():
    most, hooks.MOST_CALLS = hooks.MOST_CALLS, 5
    try:
        model = Block(*(nn.Identity() for _ in range(9)))
        model(torch.ones(1))
        assert len(trace()) == 5
        model(torch.ones(1))
        assert steps()[1]["note"].startswith("5 calls of modules beyond 5")
    finally:
        hooks.MOST_CALLS = most


@check
def a_model_of_short_steps_is_looked_at_rarely():
    model = nn.Linear(1, 1)
    profiling.start("on")
    with torch.no_grad():
        for _ in range(3000):
            model(torch.ones(1))
    assert 1 < len(steps()) < 600 and steps()[-1]["step"] > 2000, len(steps())


@check
def a_first_look_that_lost_its_cpu():
    """12 ms of ours beside a step of 10 us: as many steps are skipped as usual ones need, once those have come."""
    model = outermost.Model(None, types.SimpleNamespace(name="model"))
    assert [model.next_skip(own_ns, 10_000, 0.01) for own_ns in (12_000_000, *[2_000] * 6)] == [1, 3, 7, 15, 31, 40, 40]


@check
def a_model_that_comes_later():
    """No step of the model that is known comes any more: the next collection of garbage sees that it is so."""
    one = Net().eval()
    profiling.start("every=1000000,budget=off")
    for _ in range(3):
        one(torch.ones(1, 4))
    two = Block(nn.Linear(4, 4))
    two(torch.ones(1, 4))
    assert not trace(module="inner.0") and not trace(module="Block.inner.0")
    idle, profiler.IDLE_NS = profiler.IDLE_NS, 0
    try:
        gc.collect()
        two(torch.ones(1, 4))
    finally:
        profiler.IDLE_NS = idle
    assert trace(module="Block.inner.0"), trace()
