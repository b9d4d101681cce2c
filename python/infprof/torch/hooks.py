"""The hooks that stand on a sampled step, and what they note down.

They are the two global ones of torch.nn.modules.module, which stand in dictionaries of torch: no module is touched, and the hooks of
others run after them as before. Where one module of a step is sampled, it has the two of its own. The functions are those of this file
and not methods, so that a module which is copied or saved while they stand takes nothing of the profiler with it.
"""
import sys
import threading
import time

from infprof import _events

# A call that has begun: a list, the cheapest thing to make.
INFO, PARENT, STEP, MODULE, FRAME, BEGAN, ENDED, EVENT, EVENT_END, BEFORE, MEMORY, BACKWARD, SEQ = range(13)
MOST_CALLS = 50_000  # of a step; the others are counted
MOST_TENSORS = 8  # of an output or input that are watched for their gradients

now_ns = time.monotonic_ns


class Thread(threading.local):
    """Of each thread: the step that its modules belong to, and the calls that have begun in it."""

    step = None
    is_inside = False  # of the outermost call
    is_in_optimizer = False
    optimizer_ns = 0  # when its step began
    data_ns = 0  # in the data loader since the last step

    def __init__(self):
        self.calls = []


class State:
    """What the functions below look at; one for the process."""

    shared = None  # the step of all threads, where an optimizer or the program itself says when one ends
    is_looking = False  # for outermost modules that are not known
    names = None
    devices = None
    found = failed = ended = None  # the profiler's: an outermost module, an error, a step that ends with its outermost call
    is_grad_enabled = staticmethod(lambda: False)
    tensor = ()
    backward_ended = None
    queue_callback = None
    is_told_of_errors = True  # hooks are called too when a module raises (torch 2.2)


thread = Thread()
state = State()


class Step:
    """Most steps are bare, and need few of these."""

    phase = shape = model = pair = owner = span = None
    own_ns = ended = 0
    calls = backward_calls = handles = module_handles = ()  # lists where hooks stand
    lost = seq = 0
    raised = is_first = is_queued = has_backward = False
    has_others = False  # hooks of a step of another thread stood too
    layers = None  # below it a module's gate has to be; None: all modules are sampled
    gpus = None  # device: whether it has a clock of its own; None: no GPU is in use
    wait_ns = None

    def __init__(self, number, kind, key):
        self.number, self.kind, self.key = number, kind, key


class Hooks:
    """Counts who wants them, since steps of several threads overlap."""

    def __init__(self, torch):
        self._module = torch.nn.modules.module
        self._lock = threading.RLock()  # of a kind that the collection of garbage may enter again
        self._wanted = 0
        self._handles = ()
        self.stands = 0  # how often somebody has wanted them

    def stand(self):
        with self._lock:
            self._wanted += 1
            self.stands += 1
            if self._wanted == 1:
                self._handles = (self._module.register_module_forward_pre_hook(before),
                                 self._after(self._module.register_module_forward_hook))

    def leave(self):
        with self._lock:
            self._wanted -= 1
            if self._wanted == 0:
                for handle in self._handles:
                    handle.remove()
                self._handles = ()

    def stand_on(self, module):
        return (module.register_forward_pre_hook(before), self._after(module.register_forward_hook))

    def remove_all(self):
        """For a child of fork, whose other threads are gone, and for the end."""
        self._lock = threading.RLock()
        self._wanted = 0
        for handle in self._handles:
            handle.remove()
        self._handles = ()

    def are_standing(self):
        return bool(self._handles)

    def _after(self, register):
        if state.is_told_of_errors:
            try:
                return register(after, always_call=True)
            except TypeError:
                state.is_told_of_errors = False
        return register(after)


def before(module, inputs):
    step = thread.step or state.shared
    if step is None:
        if not state.is_looking or thread.is_inside:
            return
        state.found(module, inputs)
        step = thread.step
        if step is None:
            return
    try:
        calls = thread.calls
        parent = None
        frame = 0
        if calls and calls[-1][STEP] is not step:
            calls.clear()  # left by a step that has ended
        if not state.is_told_of_errors:
            caller = sys._getframe(1)
            frame = id(caller)
            parent = _innermost(calls, caller)
        elif calls:
            parent = calls[-1]
        info = state.names.get(module, parent[INFO] if parent else None)
        if step.layers is not None and not is_chosen(step, info):
            return
        if len(step.calls) >= MOST_CALLS:
            step.lost += 1
            return
        seq = step.seq
        step.seq = seq + 1
        call = [info, parent, step, id(module), frame, 0, 0, None, None, None, None, None, seq]
        if step.gpus is not None and _has_clock(step, info.device):
            call[BEFORE] = state.devices.memory(info.device)
            call[EVENT] = state.devices.stamp(info.device)
        step.calls.append(call)
        calls.append(call)
        call[BEGAN] = now_ns()
    except Exception as error:
        state.failed(error)


def after(module, inputs, output):
    ended = now_ns()
    calls = thread.calls
    if not calls:
        return
    try:
        call = calls[-1]
        if call[MODULE] == id(module):
            calls.pop()
        else:
            call = _unwind(calls, id(module))
            if call is None:
                return
        call[ENDED] = ended
        step = call[STEP]
        if call[EVENT] is not None:
            device = call[INFO].device
            call[EVENT_END] = state.devices.stamp(device)
            call[MEMORY] = state.devices.memory(device)
        tell = _events.module_ended
        if tell is not None:
            tell(call[INFO], module, inputs, output, ended, ended - call[BEGAN], step.number)
        if step.has_backward and state.is_grad_enabled():
            _watch(step, call, inputs, output)
        if not calls and step.is_first and step is thread.step and not thread.is_inside:
            state.ended(step)
    except Exception as error:
        state.failed(error)


def is_chosen(step, info):
    """The same on all ranks: by the step's number and the module's name."""
    mixed = (info.gate ^ step.number * 2654435761) & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 15) * 2246822519 & 0xFFFFFFFF
    return mixed ^ mixed >> 13 < step.layers


def _has_clock(step, device):
    has = step.gpus.get(device)
    if has is None:
        has = step.gpus[device] = state.devices.is_of(device)
    return has


def _innermost(calls, caller):
    """The innermost call that still goes on. Before torch 2.2 nothing is said of a module that raised: of such a call the frame is no
    longer among the callers. A frame that took its address in the meantime would be that of a module, which was seen itself."""
    code = caller.f_code
    while calls:
        wanted = calls[-1][FRAME]
        at = caller.f_back
        while at is not None and (id(at) != wanted or at.f_code is not code):
            at = at.f_back
        if at is not None:
            return calls[-1]
        calls.pop()
    return None


def _unwind(calls, module):
    """Of a module that is not on top: those above it have raised. None: it began before the hooks stood."""
    for i in range(len(calls) - 1, -1, -1):
        if calls[i][MODULE] == module:
            call = calls[i]
            del calls[i:]
            return call
    return None


def _tensors(value, depth=2):
    if isinstance(value, state.tensor):
        yield value
    elif depth and isinstance(value, (tuple, list)):
        for item in value[:MOST_TENSORS]:
            yield from _tensors(item, depth - 1)
    elif depth and isinstance(value, dict):
        for item in list(value.values())[:MOST_TENSORS]:
            yield from _tensors(item, depth - 1)


def _watch(step, call, inputs, output):
    """Of the backward pass of a module: it begins when the gradient of an output is there, and ends when those of its inputs are. Hooks
    of tensors look on; full backward hooks of modules would put nodes of their own into the graph, and forbid changes in place."""
    outputs = [tensor for tensor in _tensors(output) if tensor.requires_grad][:MOST_TENSORS]
    if not outputs:
        return

    def begin(gradient):
        if call[BACKWARD] is None:
            _begin_backward(step, call)

    def end(gradient):
        backward = call[BACKWARD]
        if backward is not None:
            backward[ENDED] = now_ns()

    handles = step.handles
    handles.extend(tensor.register_hook(begin) for tensor in outputs)
    handles.extend([tensor.register_hook(end) for tensor in _tensors(inputs) if tensor.requires_grad][:MOST_TENSORS])


def _begin_backward(step, call):
    seq = step.seq
    step.seq = seq + 1
    backward = [call[INFO], None, step, call[MODULE], 0, 0, 0, None, None, None, None, None, seq]
    if step.gpus is not None and _has_clock(step, call[INFO].device):
        backward[BEFORE] = state.devices.memory(call[INFO].device)
    backward[PARENT] = call[PARENT]  # whose own pass may begin a moment later, when both have the same output
    call[BACKWARD] = backward
    step.backward_calls.append(backward)
    if not step.is_queued:
        step.is_queued = True
        state.queue_callback(lambda: _end_backward(step))
    backward[BEGAN] = now_ns()


def _end_backward(step):
    """At the end of the pass. What has no end by then has no input with a gradient, as the first layer: it goes on to here."""
    ended = now_ns()
    try:
        step.is_queued = False
        calls, step.backward_calls = step.backward_calls, []
        for call in calls:
            call[ENDED] = call[ENDED] or ended
            if call[BEFORE] is not None:
                call[MEMORY] = state.devices.memory(call[INFO].device)
        release(step)
        state.backward_ended(step, calls)
    except Exception as error:
        state.failed(error)


def release(step):
    """Of tensors that outlive the pass: leaves, and graphs that are kept."""
    handles, step.handles = step.handles, []
    for handle in handles:
        handle.remove()
