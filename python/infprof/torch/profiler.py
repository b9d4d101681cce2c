"""The profiler: what a step is, which steps have hooks, and what is written of them.

A step is the outermost call of a model, until an optimizer's step, an engine's iteration or the program itself (step()) says better.
Steps of an optimizer and of the program follow each other without a gap and belong to all threads; the others are their thread's.
"""
from infprof import _events
from infprof._core import look

from . import batch, compiled, hooks, tables
from .device import Devices
from .hooks import Hooks, Step, now_ns, release, state, thread
from .names import Info, Names
from .optimizers import Optimizers
from .outermost import Outermost
from .overhead import Overhead
from .pauses import Collections, Loader
from .plan import BARE, FIRST, HOOKED, NONE, Plan
from .rows import Rows

S = 1e-9
SKIP_OWN_NS = 300  # that a step costs which is not looked at
LOOK_EVERY = 64  # samples after which outermost modules that are not known are looked for again
IDLE_NS = 5_000_000_000  # without a step, after which the same


class Profiler:
    def __init__(self, torch, options, devices=None):
        self._torch = torch
        self._options = options
        self._devices = devices or Devices(torch)
        self._tables = tables.tables()
        self._names = Names()
        self._hooks = Hooks(torch)
        self._plan = Plan(options)
        self._overhead = Overhead()
        self._rows = Rows(self._tables, self._devices, tables.rank_of(torch))
        self._outermost = Outermost(self._run)
        self._optimizers = Optimizers(self._optimizer_begins, self._optimizer_ends)
        self._collections = Collections(self._tables.gc, self._after_collection)
        self._loader = Loader()
        self._compiled = compiled.Watch(torch, self._compiles)
        self._number = 0
        self._samples = 0
        self._last_ns = now_ns()
        self._source = "forward" if options.steps == "auto" else options.steps
        self._reason = None  # why there are no hooks
        self._shared = None  # the step of all threads
        self._watched = None  # the last step that waits for its backward pass
        self._is_waiting = False
        self.is_on = False

    # Start and end

    def start(self):
        state.names, state.devices = self._names, self._devices
        state.found, state.ended, state.backward_ended, state.failed = self._found, self._end_first, self._backward_ended, self._fail
        state.is_grad_enabled, state.tensor = self._torch.is_grad_enabled, self._torch.Tensor
        state.queue_callback = self._torch.autograd.Variable._execution_engine.queue_callback
        self.is_on = True
        self._collections.watch()
        self._loader.watch()
        if self._options.steps in ("auto", "optimizer"):
            self._optimizers.watch()
        if not self._options.force:
            self._compiled.watch()
            if compiled.was_used():
                self._refuse(compiled.REASON)
        if self._source == "explicit":
            self._begin_shared(("explicit", 0), now_ns())
        elif self._reason is None:
            self._look()

    def stop(self, keeps_watch=False):
        """keeps_watch: outermost modules and optimizers still come by here, to see that profiling is to go on."""
        if self.is_on:
            self.is_on = False
            self._end_shared(now_ns())
            self._compiled.leave()
            self._loader.leave()
            self._collections.leave()
            state.is_looking = False
            self._hooks.remove_all()
            if self._watched is not None:
                release(self._watched)
            self._rows.flush()
        elif not self._is_waiting:
            return
        self._is_waiting = keeps_watch
        if not keeps_watch:
            self._optimizers.leave()
            self._outermost.remove()

    def forked(self):
        """In a child of fork: other threads are gone, with their steps; a device that the parent uses is not for us."""
        self._hooks.remove_all()
        self._shared = state.shared = None
        state.is_looking = False
        self._rows.forget()
        if thread.step is not None:  # it goes on here as well: its rows are the parent's
            thread.step.kind, thread.step.calls = NONE, []
        thread.step = None
        thread.calls.clear()
        self._source = "forward" if self._options.steps == "auto" else self._options.steps
        if self.is_on and self._outermost.is_empty() and self._reason is None:
            self._look()

    def _fail(self, error):
        """A fault of ours ends the profiling, not the program."""
        self._note(f"torch profiling has ended: {type(error).__name__}: {error}"[:500])
        try:
            self._shared = state.shared = None
            self.stop()
        except Exception:
            pass

    def _note(self, text):
        self._tables.steps(now_ns(), None, None, None, None, NONE, None, None, None, None, None, None, text, self._rows.rank)

    def _refuse(self, reason):
        if self._reason is not None:
            return
        self._reason = reason
        self._note(reason)
        state.is_looking = False
        self._outermost.remove_models()
        self._hooks.remove_all()
        self._outermost.add_engines(self._engine_info)

    def _compiles(self):
        if self.is_on:
            self._refuse(compiled.REASON)

    # Outermost modules

    def _look(self):
        """Until an outermost module is found that is not known, all modules have hooks."""
        if self.is_on and not state.is_looking:
            state.is_looking = True
            self._hooks.stand()

    def _look_no_more(self):
        if state.is_looking:
            state.is_looking = False
            self._hooks.leave()

    def _found(self, module, inputs):
        """By a hook, outside of all known models."""
        try:
            if self._outermost.knows(module) or not self.is_on:
                return
            if not self._options.force and compiled.is_compiled(module):
                self._refuse(compiled.REASON)
                return
            self._loader.watch()
            if self._options.steps in ("auto", "forward"):
                self._outermost.add_engines(self._engine_info)
            info = self._names.get(module)
            if not self._outermost.is_empty() and info.device is None and next(iter(module.children()), None) is None:
                return  # a loss or a sampler that is called beside the model
            model = self._outermost.add(module, info)
            if model is None:
                self._look_no_more()
                return
            began = now_ns()
            step = self._new_step(FIRST, None)
            step.is_first, step.model, step.owner = True, info, model
            step.phase, step.shape, step.key = batch.look(self._torch, module, inputs, {}, model.batches)
            self._dress(step)
            thread.step = step
            step.began = now_ns()
            step.own_ns = step.began - began
        except Exception as error:
            self._fail(error)

    def _end_first(self, step):
        """The hooks stay until the next step begins, so that a second model is found."""
        thread.step = None
        step.ended = step.owner.ended_ns = now_ns()
        self._finish(step)

    def _abandon(self, step):
        """A first step whose end was not seen: its model has raised."""
        thread.step = None
        thread.calls.clear()
        self._hooks.leave()
        self._rows.add_forward(step)

    def _engine_info(self, name):
        return Info(name, name, None)

    def _after_collection(self, ended):
        """A program that has gone on to another model runs no step of those that are known."""
        if ended - self._last_ns > IDLE_NS and self._reason is None and self._shared is None:
            self._last_ns = ended
            self._look()

    # Steps of a thread

    def _run(self, model, call, module, args, kwargs):
        look()
        if not self.is_on:
            return call(*args, **kwargs)
        if model.skip:
            model.skip -= 1
            self._number += 1
            return call(*args, **kwargs)
        entered = now_ns()
        step = None
        thread.is_inside = True
        try:
            if thread.step is not None:  # it was found by a hook, and raised
                self._abandon(thread.step)
            shared = self._shared
            if shared is None or self._is_evaluation():
                step = self._begin(model, module, args, kwargs, entered)
            elif shared.model is None:
                shared.model = model.info
                shared.phase, shared.shape, _ = self._batch(model, module, args, kwargs)
        except Exception as error:
            step = None
            self._fail(error)
        if step is None:
            try:
                return call(*args, **kwargs)
            finally:
                thread.is_inside = False
        try:
            return call(*args, **kwargs)
        except BaseException:
            step.raised = True
            raise
        finally:
            ended = now_ns()
            thread.is_inside = False
            try:
                self._end(step, model, ended)
            except Exception as error:
                self._fail(error)

    def _is_evaluation(self):
        """Between the steps of an optimizer: a model that is called without gradients."""
        return self._source == "optimizer" and not self._torch.is_grad_enabled()

    def _batch(self, model, module, args, kwargs):
        return batch.of_engine(args) if model.is_engine else batch.look(self._torch, module, args, kwargs, model.batches)

    def _begin(self, model, module, args, kwargs, entered):
        phase, shape, key = self._batch(model, module, args, kwargs)
        key = model.key, key
        kind, pair = self._choose(key)
        if state.is_looking:
            self._look_no_more()  # before the step begins: its shadow has no hooks beside it
        step = self._new_step(kind, key)
        step.pair, step.phase, step.shape, step.model = pair, phase, shape, model.info
        step.is_first = not model.n_steps and model.is_engine
        model.n_steps += 1
        if model.ended_ns is not None:
            step.wait_ns = entered - model.ended_ns
        if kind == HOOKED:
            self._dress(step, None if model.is_engine else module)
            thread.step = step
        step.began = self._last_ns = now_ns()
        step.own_ns = step.began - entered
        return step

    def _choose(self, key):
        if self._reason is not None:
            return NONE, None
        kind, pair = self._plan.next(key)
        if kind != HOOKED:
            return kind, pair
        if not tables.is_recording():
            return BARE, None
        if not self._options.force:
            if compiled.was_used():
                self._refuse(compiled.REASON)
                return NONE, None
            if self._devices.is_ready() and self._devices.is_capturing():
                self._refuse(compiled.GRAPH_REASON)
                return NONE, None
        return kind, pair

    def _new_step(self, kind, key):
        step = Step(self._number, kind, key)
        self._number += 1
        step.has_others, step.stands = self._hooks.are_standing(), self._hooks.stands
        step.gc_ns, step.data_ns, thread.data_ns = -self._collections.total_ns, thread.data_ns, 0
        return step

    def _dress(self, step, module=None):
        """Puts the hooks on."""
        step.calls, step.backward_calls, step.handles = [], [], []
        step.has_backward = self._options.backward
        if self._options.layer_rate < 1:
            step.layers = int(self._options.layer_rate * 4294967296)
        if self._devices.is_ready():
            step.gpus = {}
        step.span = tables.current_span_id() or None
        self._names.begin_step()
        self._samples += 1
        if self._rows.rank is None and self._is_time_to_look():
            self._rows.rank = tables.rank_of(self._torch)
        if self._watched is not None:
            release(self._watched)
        self._watched = step if step.has_backward else None
        if module is not None and self._options.modules != "all":
            modules = self._names.all_of(module)
            at = self._plan.pick(len(modules))
            if at is not None:
                step.module_handles = self._hooks.stand_on(modules[at])
                return
        step.stands += 1
        self._hooks.stand()

    def _is_time_to_look(self):
        n = self._samples
        return n % LOOK_EVERY == 0 or n & (n - 1) == 0

    def _undress(self, step):
        """Now and then the hooks stay on until the next step begins: a model that is called in between is found."""
        for handle in step.module_handles:
            handle.remove()
        if step.kind == HOOKED and self._shared is None and self._reason is None and self._is_time_to_look():
            self._look()
        if not step.module_handles:
            self._hooks.leave()

    def _end(self, step, model, ended):
        step.ended = ended
        if step.kind == HOOKED:
            thread.step = None
            thread.calls.clear()  # what has raised
        model.ended_ns = ended
        n, model.last_skip = 1 + model.last_skip, 0
        own_ns = self._finish(step, n)
        if step.kind == BARE and self._plan.budget:
            model.skip = model.last_skip = model.next_skip(own_ns, ended - step.began, self._plan.budget)

    def _finish(self, step, n=1):
        """Writes what is known of a step that has ended; returns what it has cost beside its duration, in ns. n: of steps that it stands
        for."""
        step.has_others = step.has_others or self._hooks.stands != step.stands
        if step.kind == HOOKED or step.kind == FIRST:
            self._undress(step)
            self._rows.add_forward(step)
        self._rows.poll()
        seconds = (step.ended - step.began) * S
        tell = _events.step_ended
        if tell is not None:
            tell(step, seconds)
        if step.pair is not None and step.pair.take(step):
            self._take_pair(step.key, step.pair)
        model = step.model
        self._tables.steps(step.began, step.number, model.name if model else None, step.phase, step.shape, step.kind, seconds,
                           (step.own_ns + now_ns() - step.ended) * S, (step.gc_ns + self._collections.total_ns) * S, step.data_ns * S,
                           None if step.wait_ns is None else step.wait_ns * S, len(step.calls), self._remark(step), self._rows.rank)
        own_ns = step.own_ns + now_ns() - step.ended
        if step.kind != NONE and step.kind != FIRST:
            self._overhead.add_step(step.key, seconds, (own_ns + (n - 1) * SKIP_OWN_NS) * S, step.kind == HOOKED, n)
        return own_ns

    def _remark(self, step):
        if step.raised:
            return "raised"
        if step.is_first or step.kind == FIRST:
            return "first call"
        if step.lost:
            return f"{step.lost} calls of modules beyond {hooks.MOST_CALLS} are missing"
        return None

    def _take_pair(self, key, pair):
        hooked, shadow = pair.hooked, pair.shadow
        self._overhead.add_pair(key, (hooked.ended - hooked.began) * S, (shadow.ended - shadow.began) * S)
        estimate = self._overhead.estimate()
        self._plan.adapt(estimate)
        share = [None] * 7
        if estimate is not None:
            share = [estimate.full, estimate.full_low, estimate.full_high, estimate.own, estimate.overhead, estimate.low, estimate.high]
        self._tables.overhead(0, hooked.number, shadow.number, hooked.phase, hooked.shape, (hooked.ended - hooked.began) * S,
                              (shadow.ended - shadow.began) * S, self._plan.every, self._overhead.pairs, *share, self._rows.rank)

    def _backward_ended(self, step, calls):
        self._rows.put_backward(step, calls)

    # Steps of all threads

    def _begin_shared(self, key, entered):
        kind, pair = self._choose(key)
        self._look_no_more()
        step = self._new_step(kind, key)
        step.pair = pair
        step.phase = batch.TRAIN if key[0] == "optimizer" else None
        self._shared = step
        if kind == HOOKED:
            self._dress(step)
            state.shared = step
        step.began = self._last_ns = now_ns()
        step.own_ns = step.began - entered

    def _end_shared(self, ended):
        step, self._shared, state.shared = self._shared, None, None
        if step is not None:
            step.ended = ended
            self._finish(step)

    def _optimizer_begins(self, optimizer):
        thread.optimizer_ns = now_ns()

    def _optimizer_ends(self, optimizer):
        ended = now_ns()
        look()
        if not self.is_on or self._source not in ("forward", "optimizer") or self._outermost.has_engine():
            return
        try:
            self._source = "optimizer"
            step = self._shared
            if step is not None and step.kind == HOOKED:
                self._rows.put_step(step, type(optimizer).__name__, thread.optimizer_ns, ended)
            self._end_shared(ended)
            self._begin_shared(("optimizer", id(optimizer)), ended)
        except Exception as error:
            self._fail(error)

    def step(self):
        """The program says that a step ends here, and the next begins."""
        if not self.is_on:
            return
        entered = now_ns()
        try:
            self._source = "explicit"
            self._end_shared(entered)
            self._begin_shared(("explicit", 0), entered)
        except Exception as error:
            self._fail(error)
