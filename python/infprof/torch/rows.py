"""Makes rows of the calls of a step, once it has ended. Those of a GPU wait until its events are reached, which is asked, never waited
for."""
import collections

from .hooks import BACKWARD, BEFORE, BEGAN, ENDED, EVENT, EVENT_END, INFO, MEMORY, PARENT, SEQ

MOST_WAITING = 64  # steps whose events are not reached
S = 1e-9


class Rows:
    def __init__(self, tables, devices, rank):
        self._write = tables.trace
        self._devices = devices
        self._waiting = collections.deque()
        self.rank = rank
        self.late = 0  # steps whose device did not answer in time

    def add_forward(self, step):
        # One module of a step, or a part of them: what they called is not known.
        has_all = step.layers is None and not step.module_handles
        if step.gpus and any(call[EVENT] is not None for call in step.calls):
            self._waiting.append((step, has_all))
            if len(self._waiting) > MOST_WAITING:
                self.late += 1
                self._put_forward(*self._waiting.popleft(), is_reached=False)
        else:
            self._put_forward(step, has_all)

    def poll(self):
        """Writes the rows of steps that the device has done meanwhile."""
        while self._waiting and self._is_reached(self._waiting[0][0]):
            self._put_forward(*self._waiting.popleft())

    def flush(self):
        """At the end: what is not known by now will not be."""
        self.poll()
        while self._waiting:
            self._put_forward(*self._waiting.popleft(), is_reached=False)

    def forget(self):
        self._waiting.clear()

    def _is_reached(self, step):
        # Of one stream the last event is enough; with several each has to be asked.
        try:
            return all(call[EVENT_END] is None or self._devices.is_reached(call[EVENT_END]) for call in reversed(step.calls))
        except Exception:
            return True

    def _seconds(self, call, is_reached):
        """(of the call, on the CPU); None: not known."""
        cpu = (call[ENDED] - call[BEGAN]) * S if call[ENDED] else None
        if call[EVENT] is None:
            return cpu, None
        if not is_reached or call[EVENT_END] is None:
            return None, cpu
        try:
            return self._devices.seconds(call[EVENT], call[EVENT_END]), cpu
        except Exception:
            return None, cpu

    def _put_forward(self, step, has_all, is_reached=True):
        seconds = [self._seconds(call, is_reached) for call in step.calls]
        inside = {}
        for call, (duration, _) in zip(step.calls, seconds):
            parent = call[PARENT]
            if parent is not None and duration is not None:
                inside[id(parent)] = inside.get(id(parent), 0.0) + duration
        for call, (duration, cpu) in zip(step.calls, seconds):
            own = max(duration - inside.get(id(call), 0.0), 0.0) if has_all and duration is not None else None
            self._put(step, call, "forward", duration, own, cpu)
        for call in step.calls:
            if call[EVENT] is not None and is_reached:
                self._devices.reuse(call[INFO].device, [event for event in (call[EVENT], call[EVENT_END]) if event is not None])
            call[EVENT] = call[EVENT_END] = None

    def put_backward(self, step, calls):
        """Gradients of several modules may be computed in turns, and hooks see their ends late: a pass lies within that of its parent,
        and its own time is what no child's covers."""
        children, these = {}, {id(call) for call in calls}
        for call in calls:
            parent = call[PARENT][BACKWARD] if call[PARENT] else None
            call[PARENT] = parent if id(parent) in these else None  # of another pass over the same graph: no parent of this one
            if call[PARENT] is not None:
                children.setdefault(id(parent), []).append(call)
        for call in sorted(calls, key=_depth):
            parent = call[PARENT]
            if parent is not None:
                call[BEGAN] = min(max(call[BEGAN], parent[BEGAN]), parent[ENDED])
                call[ENDED] = max(min(call[ENDED], parent[ENDED]), call[BEGAN])
        has_all = step.layers is None and not step.module_handles
        for call in calls:
            duration = (call[ENDED] - call[BEGAN]) * S
            own = max(duration - _covered(children.get(id(call), ())) * S, 0.0) if has_all else None
            self._put(step, call, "backward", duration, own, None)

    def put_step(self, step, name, began, ended):
        """The step of an optimizer."""
        seq = step.seq
        step.seq = seq + 1
        self._write(began, step.number, seq, name, "step", None, None, None, None, None, (ended - began) * S, (ended - began) * S, None,
                    name, None, self.rank, step.span)

    def _put(self, step, call, stage, duration, own, cpu):
        info = call[INFO]
        allocated = most = cached = most_cached = growth = None
        if call[MEMORY] is not None:
            allocated, most, cached, most_cached = call[MEMORY]
            if call[BEFORE] is not None:
                growth = allocated - call[BEFORE][0]
        self._write(call[BEGAN], step.number, call[SEQ], info.name, stage, allocated, most, cached, most_cached, growth, duration, own,
                    cpu, info.cls, info.device, self.rank, step.span)


def _depth(call):
    depth = 0
    while call[PARENT] is not None:
        call, depth = call[PARENT], depth + 1
    return depth


def _covered(calls):
    """Of all of them together, each moment once."""
    total = until = 0
    for began, ended in sorted((call[BEGAN], call[ENDED]) for call in calls):
        if ended > until:
            total += ended - max(began, until)
            until = ended
    return total
