# SPDX-License-Identifier: Apache-2.0
"""offload(): training steps of PyTorch within a limit of memory.

    step 1, 2    learn: what autograd keeps leaves on demand, as the place's limit asks for it
    step 3 ...   follow a plan by dao/swap.h: what leaves is chosen, and comes back before it is asked for
    otherwise    another batch, evaluation, an exception: on demand again, within the same limit

The limit is the host place's own (dao_limit_set()), so that it holds whatever the hooks do. An allocation
that finds no memory asks the pressure callback, which waits for what is on its way out."""
import collections
import contextlib
import os
import warnings
from ctypes import byref, c_uint64, c_void_p

import torch

from dao.recording.storages import storage_of, untyped_storage
from dao.torch import fields
from dao.torch import library as lib
from dao.torch.explain import Holders, explain, no_room
from dao.torch.interrupts import held
from dao.torch.learn import Learner
from dao.torch.library import OffloadError
from dao.torch.owner import Owner
from dao.torch.plan import Plan, Problem
from dao.torch.report import report_text
from dao.torch.stash import Cell, Handle, Item, Stash, changed, now_ns
from dao.torch.state import State, state_of
from dao.torch.weights import KeptWeight, Weights

SMALL_BYTES = 16 << 10  # smaller tensors stay: a move would cost more than their memory
HOLES_SHARE = 50  # of the limit that a plan leaves for holes at first; doubled where it was too little
UNKNOWN_SPEED = 10**9  # bytes/s of a direction that nothing has passed: then nothing had to leave
PLAN_COUNT_MAX = 4  # shapes of steps whose plans are kept
SIZE_MAX = 2**62  # bytes of a limit, and of pinned memory
# As base/numbers/units.h has them: K alone is a power of 1024, KB one of 1000.
UNITS = {"": 1, "B": 1, **{letter + rest: base**power for power, letter in enumerate("KMGT", 1)
                           for rest, base in (("", 1024), ("I", 1024), ("IB", 1024), ("B", 1000))}}


open_ones = []  # that are not closed: the place has the least of their limits


def bytes_of(text, name):
    """Returns the bytes of 1000, "8GiB", "500 MB". `name` is what they are for."""
    try:
        if isinstance(text, int) and not isinstance(text, bool):
            size_bytes = text
        else:
            digits = text.strip().rstrip("BbKkMmGgTtIi ")
            size_bytes = int(float(digits) * UNITS[text.strip()[len(digits):].strip().upper()])
    except (AttributeError, KeyError, OverflowError, ValueError):
        raise ValueError(f'{name} "{text}" is no size: write 8GiB, 500MB, or a number of bytes') from None
    if not 0 < size_bytes <= SIZE_MAX:
        raise ValueError(f'{name} "{text}" is no size: it has to be more than 0, and at most {SIZE_MAX} '
                         "bytes")
    return size_bytes


class Kept:
    """A tensor that stays, with its version. Where an operator has made it, another one over its bytes is
    kept: the operator's node in the graph may be what keeps it, and would never end."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor):
        self.tensor, self.version = tensor if tensor.is_leaf else tensor.detach(), tensor._version


def mover_config(to):
    """Where bytes go: "pinned", "file:DIR", or both: a list of them, or "pinned,file:DIR"."""
    config = lib.MoverConfig()
    targets = to.split(",") if isinstance(to, str) else to
    if not isinstance(targets, (list, tuple)) or not targets or not all(isinstance(t, str) for t in targets):
        raise ValueError(f"to={to!r} is nothing to move to: write text, or a list of it")
    for target in targets:
        kind, _, rest = target.strip().partition(":")
        if kind == "pinned" and config.pinned_bytes or kind == "file" and config.directory:
            raise ValueError(f'to="{target}" is a second one: write pinned memory and a file once each')
        if kind == "pinned":
            config.pinned_bytes = bytes_of(rest, "pinned memory of") if rest else SIZE_MAX
        elif kind == "file" and rest:
            if not os.path.isdir(rest):
                raise ValueError(f'to="{target}" is nothing to move to: {rest} is no directory')
            config.directory = rest.encode()
        else:
            raise ValueError(f'to="{target}" is nothing to move to: write "pinned", "pinned:SIZE" or '
                             '"file:DIRECTORY"')
    return config


def check_optimizers(given):
    """Returns a list of the optimizers that offload() was given: one, or several."""
    optimizers = list(given) if isinstance(given, (list, tuple)) and given else [given]
    for optimizer in optimizers:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"the optimizer is a {type(optimizer).__name__}, no torch.optim.Optimizer: give "
                            "offload(model, optimizer, ...) the one whose step() you call, or a list of them")
    if len(set(map(id, optimizers))) < len(optimizers):
        raise ValueError("the same optimizer is there twice: give offload() each one once")
    return optimizers


def check_model(model):
    """Refuses what offload() cannot work with."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"the model is a {type(model).__name__}, no torch.nn.Module")
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.device.type != "cpu":
            raise OffloadError(f"{name} of the model is on {tensor.device}: offload() takes models that are "
                               "on the CPU so far, call model.cpu() before")
    if any(hasattr(module, "_orig_mod") for module in model.modules()):
        raise OffloadError("torch.compile() decides itself what is kept, and runs hooks while it traces: "
                           "give offload() the model that was not compiled")


class Offload(fields.Progress):
    """See offload()."""

    def __init__(self, model, optimizer, limit, to):
        check_model(model)
        self.model, self.optimizers = model, check_optimizers(optimizer)
        self.limit_bytes = bytes_of(limit, "the limit")
        config, self.mover = mover_config(to), c_void_p()  # from load() on, tensors are libdao's
        self.library = lib.load(self.limit_bytes)
        self.has_pinned = config.pinned_bytes > 0
        try:
            self.library.check(self.library.mover_create(byref(config), byref(self.mover)))
        except lib.LibraryError as error:
            raise OffloadError(f"nothing can be moved to {to!r}: {error}") from None
        self.owner = Owner()
        self.stash = Stash(self.library, self.mover, self.owner)
        self.stash.on_drop, self.stash.on_close = self.on_drop, self.on_close
        self.stash.on_freed, self.stash.on_refused = self.on_freed, self.on_refused
        self.plans = []  # the one used last is the last
        self.learnt = []  # signatures of shapes without plans, the latest last
        self.last_plan = self.last_learner = self.unplanned = None
        self.learner = self.plan = None
        self.in_step = False
        self.hook_ns = self.peak_bytes = 0
        self.step_count = self.planned_count = self.deviated_count = 0
        self.step_ns = None
        self.figures = {}
        self.errors = []  # of the pressure callback, which cannot raise them
        self.holders = None
        self.failed = None  # what a hook has raised, of which autograd makes a RuntimeError with its text
        self.limit_before = (open_ones[0].limit_before if open_ones else self.library.stats().limit_bytes)
        with contextlib.ExitStack() as undo:  # of what has begun, if the rest cannot
            undo.callback(self.library.mover_destroy, self.mover)
            self.begin(undo)
            undo.pop_all()
        open_ones.append(self)
        try:
            self.make_room()
            self.set_limit()
        except lib.LibraryError as error:
            self.close()
            raise OffloadError(
                f"the limit of {self.limit_bytes / 1e6:.1f} MB cannot be set: {error}. What cannot leave has "
                "to fit as it begins: raise the limit, or drop tensors before") from None

    # ---- begin and end ----

    def begin(self, undo):
        self.rehome()
        self.weights = Weights(self.stash, self.model, self.optimizers, SMALL_BYTES)
        undo.callback(self.weights.close)
        self.weights.on_stay, self.weights.on_wait = self.on_stay, self.on_wait
        self.states = []  # one of each optimizer
        for optimizer in self.optimizers:
            state = State(self.stash, self.weights, optimizer, self.limit_bytes, SMALL_BYTES)
            self.states.append(state)
            undo.callback(state.close)
            state.note_all()
        self.hooks = self.make_hooks()
        self.callback = lib.PressureFunction(self.relieve)
        self.callback_id, self.mark = c_uint64(), c_uint64()
        self.library.check(self.library.peak_mark_add(lib.HOST, byref(self.mark)))
        undo.callback(self.library.peak_mark_remove, self.mark)
        self.library.check(self.library.pressure_callback_add(
            lib.HOST, self.callback, None, byref(self.callback_id)))

    def make_hooks(self):
        pack, unpack = self.pack, self.unpack
        if fields.native is not None:  # which calls these, where a call is not as planned
            native = fields.native.Hooks(self, untyped_storage, torch.strided, Item, Cell, Handle, Kept,
                                         SMALL_BYTES)
            pack, unpack, self.stash.end = native.pack, native.unpack, native.end
        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    def rehome(self):
        """Gives what is there memory of the place: it was made before that was PyTorch's allocator."""
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        parameters = [*self.model.parameters(), *(p for group in groups for p in group["params"])]
        states = [tensor for optimizer in self.optimizers for tensor in state_of(optimizer)]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        moved = {}
        with torch.no_grad():
            for tensor in [*parameters, *self.model.buffers(), *gradients, *states]:
                storage = storage_of(tensor) if tensor.is_cpu else None
                if storage is None or storage.nbytes() == 0:
                    continue
                if storage._cdata not in moved:
                    home = torch.empty(storage.nbytes(), dtype=torch.uint8)
                    home.set_(storage_of(home), 0, (storage.nbytes(),))
                    source = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
                    home.copy_(source)
                    moved[storage._cdata] = (storage, storage_of(home))
                tensor.data = torch.empty(0, dtype=tensor.dtype).set_(
                    moved[storage._cdata][1], tensor.storage_offset(), tensor.size(), tensor.stride())

    def make_room(self):
        """What is above the limit leaves, so that it can be set: training may go on where it was stopped."""
        excess_bytes = self.library.stats().reserved_bytes - self.limit_bytes
        if excess_bytes > 0:
            with contextlib.suppress(OffloadError), self.owner:  # unless another thread is in a step of it
                self.relieve(lib.HOST, excess_bytes, None)

    def set_limit(self):
        limit_bytes = min((o.limit_bytes for o in open_ones), default=self.limit_before)
        self.library.check(self.library.limit_set(lib.HOST, limit_bytes))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Ends it: the limit is what it was, and what is away comes back for graphs that still live."""
        if self.mover is None:
            return
        if self.owner.is_in_own_step():
            raise OffloadError("a step is under way: close() has to come behind the end of `with o.step()`")
        self.owner.take()
        with held():
            self.library.pressure_callback_remove(self.callback_id)  # without the lock: it waits for calls
            with self.owner:
                self.bring_everything()
            for other in open_ones:  # what came back here may have to leave there
                other.make_room()
            self.set_limit()

    def bring_everything(self):
        self.library.peak_mark_remove(self.mark)
        self.library.check(self.library.limit_set(lib.HOST, 0))
        for state in self.states:
            state.close()
        self.weights.close()
        self.stash.bring_all()
        open_ones.remove(self)
        self.library.mover_destroy(self.mover)
        self.mover = self.stash.mover = self.model = self.optimizers = None

    @contextlib.contextmanager
    def step(self):
        """Around a training step: forward, backward and what the optimizer does."""
        if self.mover is None:
            raise OffloadError("this offload is closed: call offload() again")
        with held(), self.owner.step():
            self.begin_step()
            yield from self.until_the_end()

    def until_the_end(self):
        """Runs what the program does in a step, which has begun."""
        try:
            with self.hooks:
                yield self
        except RuntimeError as error:
            cause = error if self.failed is None or str(self.failed) not in str(error) else self.failed
            text = explain(self, error, cause)
            self.end_step(is_whole=False)
            if text is not None:
                raise OffloadError(text) from error
            if cause is not error:
                raise cause from error
            raise
        except BaseException:
            self.end_step(is_whole=False)
            raise
        else:
            self.end_step(is_whole=True)

    def begin_step(self):
        self.kernel = self.next_kernel = 0
        self.weights.begin_step()
        self.in_step = True
        self.notes_weights = self.weights.leaves  # autograd's uses of them are planned in this step
        self.plan = None
        self.learner = Learner()
        self.numbers = []  # items of this step, by the number of their record
        self.begin = self.last = now_ns()
        self.hook_ns = self.peak_bytes = 0
        self.before = self.totals()
        self.holders = self.failed = None
        self.library.peak(self.mark)

    def end_step(self, is_whole):
        self.in_step, self.failed = False, None
        self.weights.end_step()
        self.stash.forget_ended()
        if self.errors:
            warnings.warn(f"offload(): freeing memory failed: {self.errors.pop()!r}", RuntimeWarning)
            self.errors.clear()
        self.step_count += 1
        self.step_ns = now_ns() - self.begin
        after = self.totals()
        self.figures = {name: after[name] - self.before[name] for name in after}
        self.figures["peak_bytes"] = max(self.peak_bytes, self.library.peak(self.mark))
        if self.plan is not None and is_whole and self.kernel < self.plan.event_count:
            self.learn_on(self.kernel)
        if self.plan is not None:
            self.planned_count += is_whole
            self.deviated_count += not is_whole
            if (is_whole and self.figures["evicted_count"]
                    and self.plan.spare_bytes < self.limit_bytes // 8):
                self.plan_with(self.plan.learner, 2 * self.plan.spare_bytes)
        elif is_whole:
            self.end_kernel("end of the step")
            self.last_learner = self.learner
            if self.learner.events:
                self.make_plan(self.learner)
        for item in self.numbers:
            item.record = None
        self.learner, self.plan, self.last_plan, self.numbers = None, None, self.plan or self.last_plan, []

    def totals(self):
        stats, stash = self.stash.stats(), self.stash
        return {"out_bytes": stats.directions[0].moved_bytes, "in_bytes": stats.directions[1].moved_bytes,
                "out_busy_ns": stats.directions[0].busy_ns, "in_busy_ns": stats.directions[1].busy_ns,
                "wait_out_ns": stash.wait_out_ns, "wait_in_ns": stash.wait_in_ns,
                "fetch_count": stash.fetch_count, "evicted_count": stash.evicted_count}

    # ---- hooks ----

    def pack(self, tensor):
        self.owner.take()
        storage = storage_of(tensor) if tensor.is_cpu else None
        if storage is None:
            return Kept(tensor)
        size_bytes, key = storage.nbytes(), storage._cdata
        if key in self.weights.movable:
            return self.pack_weight(tensor, self.weights.movable[key])
        if size_bytes < SMALL_BYTES or key in self.weights.persistent:
            return Kept(tensor)
        if self.plan is None:
            self.end_kernel("pack")
        handle = self.stash.add(tensor, storage, key, size_bytes)
        self.note_event(handle.item, 0)
        return handle

    def pack_weight(self, tensor, item):
        if self.notes_weights and self.plan is None:
            self.end_kernel("pack")
        kept = self.weights.keep(item, tensor, self.notes_weights)
        if kept.is_noted:
            self.note_event(item, 0)
        return kept

    def unpack(self, kept):
        if isinstance(kept, Kept):
            if kept.tensor._version != kept.version:
                raise changed(kept.tensor.shape, kept.tensor._version, kept.version)
            return kept.tensor
        if self.owner.is_free():
            return self.unpack_now(kept)
        with self.owner:
            return self.unpack_now(kept)

    def unpack_now(self, kept):
        if kept.is_noted and self.plan is None:
            self.end_kernel("unpack")
        try:
            tensor = kept.get()
        except RuntimeError as error:
            self.failed = error
            raise
        if kept.is_noted:
            self.stash.in_hand = kept.item  # autograd has no tensor of its own of it yet
            try:
                self.note_event(kept.item, 1)
            finally:
                self.stash.in_hand = None
        return tensor

    def end_kernel(self, name):
        """A kernel ends as a hook is called. What its pressure callbacks waited is not its own time."""
        if self.learner is None:
            self.stash.note_shared(None, leaves=True)
            return
        time_ns = now_ns() - self.last - self.hook_ns
        self.note_peak()
        self.learner.end_kernel(time_ns, name)
        if self.weights.leaves and self.stash.leaving:
            self.stash.drop_finished()
        self.stash.note_shared(self.learner.sole, leaves=True)

    def note_peak(self):
        """The most bytes beside the items, since these last changed."""
        peak_bytes = self.library.peak(self.mark)
        self.peak_bytes = max(self.peak_bytes, peak_bytes)
        self.learner.note_peak(peak_bytes, self.stash.resident_bytes)

    def on_drop(self, item):
        if item is not None:
            self.note_gone(item)
        if self.learner is not None and self.in_step:
            self.note_peak()
            if item is not None:
                self.learner.sole(item)

    def on_freed(self):
        """What is gone is not of the bytes that come next."""
        if self.learner is not None and self.in_step:
            self.peak_bytes = max(self.peak_bytes, self.library.peak(self.mark))

    def on_stay(self, item):
        """A weight that was to leave stays: nothing waits for it."""
        self.note_gone(item)
        self.next_kernel = 0

    def note_gone(self, item):
        if self.plan is not None and item.record is not None:
            self.gone.add(item.record)

    def on_refused(self, item, error):
        """There is no memory for what comes back. In a step, step() says so."""
        if not self.in_step and "libdao" in str(error):
            raise OffloadError(no_room(self, item, error)) from error

    def on_wait(self, wait_ns):
        if self.in_step:
            self.hook_ns += wait_ns

    def on_close(self, item):
        self.note_gone(item)
        if self.learner is not None and self.in_step:
            self.note_peak()
            self.learner.close(item)

    def note_event(self, item, is_unpack):
        """Compares a hook's call to the plan's, or learns it, and starts what may start by now."""
        if self.plan is not None and not self.compare(item, is_unpack):
            self.plan_otherwise(item, is_unpack)
        if self.learner is not None and self.in_step:
            self.learn_event(item, is_unpack)
        self.kernel += 1
        if self.plan is not None:
            if self.kernel >= self.next_kernel or self.stash.leaving:
                self.follow()
        elif self.learner is not None:
            self.last = now_ns()
            self.hook_ns = 0

    def learn_event(self, item, is_unpack):
        known = len(self.learner.records)
        if is_unpack:
            self.learner.unpack(item)
            self.stash.shared[item] = None  # who has asked for it has it now
        else:
            self.learner.pack(item)
        if len(self.learner.records) > known:
            self.numbers.append(item)
        self.choose_plan()

    def choose_plan(self):
        """At the first call that tells: the plan whose calls have been these."""
        if self.kernel > 0 or not self.plans:
            return
        size_bytes = self.numbers[0].size_bytes if self.numbers else None
        for plan in reversed(self.plans):
            if plan.sizes and plan.sizes[0] == size_bytes:
                self.learner, self.numbers[0].record, self.gone = None, 0, set()
                self.use_plan(plan)
                return

    def use_plan(self, plan):
        self.plans.remove(plan)
        self.plans.append(plan)
        self.plan, self.outs, self.next_kernel = plan, collections.deque(), 0
        plan.restart()

    def compare(self, item, is_unpack):
        """True if a call is the plan's."""
        plan, number = self.plan, item.record
        if self.kernel >= plan.event_count:
            return False
        if number is None and not is_unpack:
            number = len(self.numbers)
            if plan.events[self.kernel] != 2 * number or plan.sizes[number] != item.size_bytes:
                return False
            item.record = number
            self.numbers.append(item)
            return True
        return number is not None and plan.events[self.kernel] == 2 * number + is_unpack

    def plan_otherwise(self, item, is_unpack):
        """A call is another one than the plan's: the step goes on by another plan that has begun as this one,
        or is learnt."""
        before, known = self.plan, len(self.numbers)
        for plan in reversed(self.plans):
            if plan is not before and plan.begins_as(before, self.kernel, known):
                self.plan = plan
                if self.compare(item, is_unpack):
                    self.use_plan(plan)
                    return
        self.plan = before
        self.learn_on(self.kernel + 1)  # the call ends one

    def learn_on(self, kernel_count):
        """The step has gone as the plan had it until now, and is learnt from here on."""
        self.deviated_count += 1
        self.learner, self.plan = self.plan.learner.begun(self.kernel, kernel_count), None
        for item, record in zip(self.numbers, self.learner.records):
            if item.handles and item.record == record.number:
                item.record, record.freed = record, None
            elif record.freed is None:
                record.freed = self.kernel
        self.last = now_ns()
        self.peak_bytes = max(self.peak_bytes, self.library.peak(self.mark))

    def follow(self):
        """Starts what may move by now. `next_kernel` is the one behind which there may be more, if nothing is
        leaving. What has left is out of the way once its memory is given up."""
        self.plan.end_kernels(self.kernel)
        self.start_moves()
        if self.stash.leaving:
            self.stash.drop_finished()
        if self.outs and self.is_gone(self.outs[0]):
            while self.outs and self.is_gone(self.outs[0]):
                self.outs.popleft()
                self.plan.end_out()
            self.start_moves()
        self.next_kernel = self.plan.due(self.kernel)

    def start_moves(self):
        stash = self.stash
        for number, stream in self.plan.moves():
            item = self.numbers[number]
            if stream == lib.HOST_OUT:
                self.outs.append(number)
                if not (stash.is_final(item) and stash.start_out(item)):
                    self.gone.add(number)  # it stays: nothing waits for it
            elif stream == lib.COMPUTE:
                stash.leave_again(item)
            elif item.storage is not None:
                stash.stay(item)
            elif item.handles and item.parked is not None:
                stash.start_in(item)

    def is_gone(self, number):
        return number in self.gone or number < len(self.numbers) and self.numbers[number].handles == 0

    # ---- plans ----

    def make_plan(self, learner):
        """The second step of a shape is planned: the first one also makes gradients and state."""
        signature = learner.signature()
        if signature in self.learnt:
            self.learnt.remove(signature)
            self.plan_with(learner, self.limit_bytes // HOLES_SHARE)
        else:
            self.learnt = [*self.learnt, signature][-PLAN_COUNT_MAX:]

    def plan_with(self, learner, spare_bytes):
        begin = now_ns()
        totals = self.totals()
        busy = {direction: totals[f"{direction}_busy_ns"] for direction in ("in", "out")}
        speeds = [totals[f"{direction}_bytes"] * 10**9 / busy[direction] if busy[direction] else UNKNOWN_SPEED
                  for direction in ("in", "out")]
        for spare_bytes in dict.fromkeys((spare_bytes, 0)):
            try:
                plan = Plan(self.library, learner,
                            Problem(learner, self.limit_bytes - spare_bytes, *speeds))
                break
            except lib.LibraryError as error:
                self.unplanned = f"no plan: {error}"
        else:
            self.weights.leave_early()  # then there may be one
            return
        plan.learner, plan.spare_bytes, plan.plan_ns = learner, spare_bytes, now_ns() - begin
        self.unplanned = None
        others = [other for other in self.plans if (other.events, other.sizes) != (plan.events, plan.sizes)]
        self.plans = [*others, plan][-PLAN_COUNT_MAX:]

    # ---- memory is short ----

    def relieve(self, place, needed_bytes, user):
        if not self.owner.is_here():  # the owner is anywhere by now, and may be about to use it
            return 0
        with self.owner.lock:
            freed_bytes = self.relieve_now(needed_bytes) if self.owner.is_here() else 0
        self.owner.settle()
        return freed_bytes

    def relieve_now(self, needed_bytes):
        begin = now_ns()
        try:
            self.owner.settle()
            freed_bytes = 0
            for state in self.states:
                if freed_bytes < needed_bytes:
                    freed_bytes += state.relieve(needed_bytes - freed_bytes)
            if freed_bytes < needed_bytes:
                freed_bytes += self.stash.relieve(needed_bytes - freed_bytes)
            if freed_bytes == 0 or self.weights.leaves and freed_bytes < needed_bytes:
                freed_bytes += self.weights.relieve(needed_bytes - freed_bytes)  # else this is asked again
            self.stash.is_short = True
            if freed_bytes == 0:
                self.holders = Holders(self, needed_bytes)
            return freed_bytes
        except BaseException as error:  # nothing may leave a callback; the allocation fails then
            self.errors.append(error)
            return 0
        finally:
            self.hook_ns += now_ns() - begin

    def report(self):
        """Returns what the latest step took, as a text."""
        return report_text(self)


def offload(model, optimizer, limit, to="pinned"):
    """Training steps in less memory than they need: what autograd keeps leaves for pinned memory or a file.

        with dao.torch.offload(model, optimizer, limit="8GiB", to="file:/scratch") as o:
            for x, y in batches:
                with o.step():
                    loss = f(model(x), y); loss.backward(); optimizer.step(); optimizer.zero_grad()
        print(o.report())

    model             whose steps these are; it is on the CPU
    optimizer         the one whose step() is called, or a list of several
    limit             bytes that tensors may take, with all that PyTorch keeps for them: "8GiB", 500_000_000
    to                "pinned", "pinned:SIZE", "file:DIRECTORY", or both as "pinned:SIZE,file:DIRECTORY":
                      pinned memory first, the file then

    Raises OffloadError if the limit cannot be set, and from a step that cannot run within it. From the first
    call on, PyTorch's tensors on the CPU are libdao's."""
    return Offload(model, optimizer, limit, to)
