# SPDX-License-Identifier: Apache-2.0
"""The optimizer's state, which is used once a step: it leaves when memory is short, and comes back for
optimizer.step(), a few parameters at a time.

    in memory --relieve(), or after its step where it has left before--> leaving --> away: 0 bytes
        ^                                                                              |
        +-------------- start_in(): before optimizer.step() of its parameters <--------+

The tensors stay the same objects: only their storages lose their bytes. So nobody else may read them while
they are away: whoever asks the optimizer for state gets it back first, and what somebody else holds stays."""
import inspect
import sys
import types
import weakref
from ctypes import byref, c_void_p

import torch

from dao.recording.storages import storage_of
from dao.torch.library import OUT
from dao.torch.watched import WatchedState, plain_list

# Optimizers whose step treats each parameter by itself, so that it may be made in runs of parameters. Others
# get all of their state back first.
SPLIT = {torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adamax, torch.optim.NAdam,
         torch.optim.RAdam, torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.RMSprop, torch.optim.ASGD,
         torch.optim.Rprop}
STATE_SHARE = 2  # of a parameter's bytes: what its state is taken for before it is there, as Adam's is
ZERO_GRAD_SETS_TO_NONE = inspect.signature(torch.optim.Optimizer.zero_grad).parameters["set_to_none"].default
RUN_SHARE = 32  # of the limit: state that is brought for a run of parameters


# References of what only the optimizer has. Of a storage: its tensor and the entry. Of a tensor: its values.
# Of values: the optimizer's state, beside their entries. sys.getrefcount() has one more itself.
STORAGE_USES, TENSOR_USES, VALUES_USES = 2, 1 + 1, 1 + 1


def state_of(optimizer):
    """Returns the tensors of an optimizer's state, without anybody noticing."""
    return [value for values in dict.values(optimizer.state) if isinstance(values, dict)
            for value in values.values() if isinstance(value, torch.Tensor)]


class Entry:
    __slots__ = ("storage", "size_bytes", "values", "values_uses", "name", "parked", "ticket", "is_away",
                 "is_coming", "has_left", "is_stuck")

    def __init__(self, values, name, storage):
        self.values, self.name, self.values_uses = values, name, VALUES_USES
        self.storage, self.size_bytes = storage, storage.nbytes()
        self.parked, self.ticket = None, 0
        self.is_away = self.is_coming = self.has_left = False
        self.is_stuck = False  # it cannot give its bytes up

    def take(self):
        self.storage.resize_(self.size_bytes)

    def text(self):
        return f'the optimizer\'s "{self.name}" of a parameter'


class State:
    def __init__(self, stash, weights, optimizer, limit_bytes, small_bytes):
        self.stash, self.library, self.optimizer = stash, stash.library, optimizer
        self.weights = weights
        self.run_bytes, self.small_bytes = limit_bytes // RUN_SHARE, small_bytes
        self.entries = {}  # of the parameter's id: its entries
        self.order = []  # all entries, in the order of the parameters
        self.busy = set()  # those that a run uses
        self.away_bytes = self.left_bytes = 0
        self.is_stepping = False  # the optimizer itself reads its state, and what it reads is there
        self.wrapped, self.own = {}, {}
        for name in ("step", "zero_grad", "state_dict", "load_state_dict"):
            self.put_before(name)
        self.watch()

    def watch(self):
        """Puts this object before the optimizer's state."""
        self.unwatched = self.optimizer.state
        self.watched = self.optimizer.state = WatchedState(
            self.bring, self.weights.touch, self.unwatched)
        self.unwatched.clear()  # whoever has it finds nothing there, rather than tensors without bytes

    def unwatch(self):
        self.unwatched.update(dict.items(self.watched))
        if self.optimizer.state is self.watched:
            self.optimizer.state = self.unwatched
        self.watched.bring = self.watched.touch = lambda parameter: None  # somebody may have it, and goes on
        self.watched = self.unwatched = None

    def put_before(self, name):
        """Puts a method of this object before one of the optimizer's, as schedulers of learning rates do."""
        before, instead = getattr(self.optimizer, name), getattr(self, name)

        def call(_, *arguments, **options):
            return instead(*arguments, **options)

        if hasattr(before, "_with_counter"):
            call._with_counter = True
        self.wrapped[name], self.own[name] = before, self.optimizer.__dict__.get(name)
        setattr(self.optimizer, name, types.MethodType(call, self.optimizer))

    def close(self):
        if self.optimizer is None:
            return
        self.bring_all()
        self.unwatch()
        for name, own in self.own.items():
            delattr(self.optimizer, name)
            if own is not None:
                setattr(self.optimizer, name, own)
        self.optimizer, self.wrapped, self.own = None, {}, {}
        self.entries, self.order = {}, []

    # ---- the optimizer's calls ----

    def state_dict(self, *arguments, **options):
        self.bring_all()
        return self.wrapped["state_dict"](*arguments, **options)

    def load_state_dict(self, *arguments, **options):
        self.bring_all()
        self.entries, self.order = {}, []  # the tensors are others from now on
        try:
            return self.wrapped["load_state_dict"](*arguments, **options)
        finally:
            if self.optimizer.state is not self.watched:
                self.watch()

    def zero_grad(self, set_to_none=ZERO_GRAD_SETS_TO_NONE):
        self.stash.owner.take()
        own = types.MethodType(torch.optim.Optimizer.zero_grad, self.optimizer)
        if self.wrapped["zero_grad"] != own:  # who knows what it reads
            return self.wrapped["zero_grad"](set_to_none)
        with self.stash.owner, self.weights.zeroing(set_to_none):
            return own(set_to_none)

    def step(self, *arguments, **options):
        self.stash.owner.take()
        # the first step makes the state, which may have to leave while the rest of it is made
        is_whole = (self.order and not any(entry.has_left for entry in self.order)
                    and not self.weights.leaves)
        if is_whole or arguments or options or type(self.optimizer) not in SPLIT:
            self.bring_all()
            self.busy = set(self.order)
            self.weights.begin_use(self.parameters())
            try:
                result = self.step_now(*arguments, **options)
            finally:
                self.weights.end_use()
                self.busy = set()
            self.note_all()
            return result
        with self.stash.owner:
            return self.step_in_runs()

    def step_in_runs(self):
        groups = self.optimizer.param_groups
        runs = [(group, run) for group in groups for run in self.runs(plain_list(group))]
        self.weights.stepping = self.optimizer
        try:
            for i, (group, run) in enumerate(runs):
                entries = self.of(run)
                following = self.of(runs[i + 1][1]) if i + 1 < len(runs) else []
                self.busy = {*entries, *following}
                self.weights.begin_use(run)
                for entry in entries + following:
                    self.start_in(entry)
                self.finish_in(entries)
                self.optimizer.param_groups = [{**group, "params": run}]
                self.step_now()
                self.note(run)
                self.busy = set(following)
                for entry in self.of(run):
                    if entry.has_left:
                        self.start_out(entry)
                self.drop_finished()
        finally:
            self.optimizer.param_groups = groups
            self.busy = set()
            self.weights.end_use()
            self.weights.stepping = None
        return None

    def step_now(self, *arguments, **options):
        self.is_stepping = True
        try:
            return self.wrapped["step"](*arguments, **options)
        finally:
            self.is_stepping = False

    def runs(self, parameters):
        """Cuts parameters into runs with about as many bytes of state as a run may have."""
        run, run_bytes = [], 0
        for parameter in parameters:
            entries = self.entries.get(id(parameter))
            state_bytes = (STATE_SHARE * parameter.numel() * parameter.element_size() if entries is None
                           else sum(entry.size_bytes for entry in entries))
            if run and run_bytes + state_bytes > self.run_bytes:
                yield run
                run, run_bytes = [], 0
            run.append(parameter)
            run_bytes += state_bytes
        if run:
            yield run

    def of(self, parameters):
        return [entry for parameter in parameters for entry in self.entries.get(id(parameter), ())]

    def parameters(self):
        """The optimizer's, without anybody noticing."""
        return [parameter for group in self.optimizer.param_groups
                for parameter in plain_list(group)]

    def note_all(self):
        self.note(self.parameters())

    def note(self, parameters):
        """Finds state that is new."""
        for parameter in parameters:
            if id(parameter) in self.entries:
                continue
            values = dict.get(self.watched, parameter, {})
            storages = {name: storage_of(value) for name, value in values.items()
                        if isinstance(value, torch.Tensor) and value.device.type == "cpu"}
            found = [Entry(values, name, storage) for name, storage in storages.items()
                     if storage is not None and storage.nbytes() >= self.small_bytes]
            for entry in found:
                entry.values_uses += len(found)
            if found:
                self.entries[id(parameter)] = found
                self.order += found

    # ---- moves ----

    def is_sole(self, entry):
        """True if nobody but the optimizer has this state."""
        return (self.library.torch_cpu_storage_use_count(entry.storage._cdata) <= STORAGE_USES
                and entry.name in entry.values
                and sys.getrefcount(entry.values[entry.name]) <= TENSOR_USES
                and weakref.getweakrefcount(entry.values[entry.name]) == 0
                and sys.getrefcount(entry.values) <= entry.values_uses)

    def start_out(self, entry):
        """Queues a way out. Returns False if there is none."""
        if entry.is_away or entry.is_coming or entry.is_stuck or not self.is_sole(entry):
            return False
        if entry.parked is None:
            parked = c_void_p()
            status = self.library.mover_out(self.stash.mover, entry.storage.data_ptr(), entry.size_bytes,
                                            byref(parked))
            if status != 0:
                self.stash.refused = self.library.last_message().decode()
                return False
            entry.parked = parked.value
            self.stash.tickets[OUT] += 1
            entry.ticket = self.stash.tickets[OUT]
        return True

    def drop(self, entry):
        """Gives the bytes up that have left. Returns them; 0 if they could not be written."""
        if self.library.parked_wait(entry.parked) != 0:
            self.stash.refused = self.library.last_message().decode()
            self.forget(entry)
            return 0
        self.stash.on_drop(None)
        try:
            entry.storage.resize_(0)
        except RuntimeError:  # numpy() has made it a storage that keeps its size
            entry.is_stuck = True
            self.forget(entry)
            return 0
        self.stash.on_freed()
        entry.is_away = entry.has_left = True
        self.away_bytes += entry.size_bytes
        self.left_bytes += entry.size_bytes
        return entry.size_bytes

    def forget(self, entry):
        self.library.parked_release(entry.parked)
        entry.parked, entry.ticket = None, 0

    def drop_finished(self):
        for entry in self.order:
            if entry.parked and not entry.is_away and not entry.is_coming and entry not in self.busy:
                if self.stash.is_done(OUT, entry.ticket):
                    self.drop(entry)

    def start_in(self, entry):
        """Allocates, which may take memory from others, and queues the way in. What was on its way out stays
        instead: the optimizer will change it."""
        if entry.is_away:
            self.stash.take(entry)
            entry.is_away, entry.is_coming = False, True
            self.away_bytes -= entry.size_bytes
            self.stash.check_back(entry, self.library.mover_in(
                self.stash.mover, entry.parked, entry.storage.data_ptr()))

    def finish_in(self, entries):
        for entry in entries:
            if entry.parked is not None:
                self.stash.check_back(entry, self.library.parked_wait(entry.parked))
                self.forget(entry)
                entry.is_coming = False

    def bring(self, parameter):
        """Brings the state of one parameter back, or of all for None, as somebody is to read it."""
        entries = self.order if parameter is None else self.entries.get(id(parameter), ())
        if self.is_stepping or not any(entry.parked for entry in entries):
            return
        with self.stash.owner:
            before, self.busy = self.busy, self.busy | set(entries)
            for entry in entries:
                self.start_in(entry)
            self.finish_in(entries)
            self.busy = before

    def bring_all(self):
        self.bring(None)

    def relieve(self, needed_bytes):
        """Frees memory: state is what will be used last. Returns the bytes."""
        victims, sum_bytes = [], 0
        for entry in self.order:
            if sum_bytes >= needed_bytes:
                break
            if entry not in self.busy and self.start_out(entry):
                victims.append(entry)
                sum_bytes += entry.size_bytes
        freed = [self.drop(entry) for entry in victims]
        self.stash.evicted_count += sum(freed_bytes > 0 for freed_bytes in freed)
        return sum(freed)
