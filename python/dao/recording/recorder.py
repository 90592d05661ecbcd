# SPDX-License-Identifier: Apache-2.0
"""Records a step of PyTorch into a file of dao's own form (docs/formats.md, docs/python.md).

    with dao.record("step.dao"):
        train_step()

Every operator passes record.__torch_dispatch__(): what it reads, writes and brings to life, by storages
(storages.py), how long it takes (clock.py), what it needs beside its outputs (allocations.py). Hooks tell
which tensors autograd keeps (saved.py) and which module runs (modules.py). The program computes what it
computes without a recording, in the same memory."""
import contextlib
import gc
import gzip
import os
import threading

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from dao.recording.allocations import Allocations
from dao.recording.backward import is_in_backward
from dao.recording.clock import DeviceClock, HostClock
from dao.recording.modules import Modules
from dao.recording.saved import Saved
from dao.recording.schema import schema_of, tensors_in
from dao.recording.step import CHANGE, OUTPUT, OVERWRITE, READ, Operator, Step, Tensor
from dao.recording.storages import Storages, part_of, storage_of

OUTSIDE = "dao::outside"  # an operator in the file that brings to life what no operator has
OPTIMIZER_STEP = "Optimizer.step#"  # what PyTorch names the region of an optimizer's step
REGION_BEGIN = ("profiler::_record_function_enter", "profiler::_record_function_enter_new")
REGION_END = "profiler::_record_function_exit"
# Of PyTorch 1.13: their handle is a tensor around an object of the host's, in no memory of the allocator's.
LEGACY_REGIONS = ("profiler::_record_function_enter", "profiler::_record_function_exit")
FAKE = "fake "  # before the device of a FakeTensor
DETACH = "aten::detach"
READ_NUMBER = "aten::_local_scalar_dense"  # what Tensor.item() calls


def is_fake(tensor):
    """A tensor without bytes: a FakeTensor, or one of the device "meta"."""
    return isinstance(tensor, FakeTensor) or tensor.is_meta


def device_of(tensor):
    return FAKE + str(tensor.device) if is_fake(tensor) else str(tensor.device)


def without_modes(function):
    """Returns a function that calls another one past all modes: the FakeTensorMode of PyTorch 1.13 fails
    on what it calls itself, the regions of its profiler."""
    def call(*args, **kwargs):
        guard = torch._C._DisableTorchDispatch()
        try:
            return function(*args, **kwargs)
        finally:
            del guard
    return call


class record(TorchDispatchMode):
    """A context that records what runs in it. The file is written at its end, unless that is an exception.

    path: of the file; one that ends with .gz is packed.
    model: its modules are named without the name of its class. Others are found when they are called.
    name, batch: of the step, in the file.
    workspace: also record what operators take and give back, by PyTorch's profiler; no other profile may
    run then. cost: cost(name, args, kwargs, result) returns the seconds that an operator takes, and
    nothing is measured. step_s: how long the step takes unrecorded, in seconds: all times are stretched
    to sum up to it. device: whose memory is recorded, such as "cuda:0"; by default that with most bytes.

    Afterwards: peak_bytes, the most bytes alive at once; step, what was recorded.

    Threads: one recording at a time; it sees its own thread and those of autograd."""

    def __init__(self, path, model=None, *, name=None, batch=1, workspace=True, cost=None, step_s=None,
                 device=None):
        super().__init__()
        self.path, self.cost, self.step_s, self.device = os.fspath(path), cost, step_s, device
        self.modules = Modules(model)
        self.saved = Saved(self.on_pack, self.modules.current)
        self.storages = Storages()
        self.step = Step(name or (type(model).__name__ if model is not None else "step"), str(batch))
        self.calls = []  # an Operator for each call, in order, also where it touches no bytes
        self.last = None  # the latest of them that does
        self.packed = []  # Tensors that autograd has kept since the last call
        self.regions = []  # names of the profiler's regions that are open
        self.optimizers = []
        self.numbers = {}  # call -> how many numbers it was given as tensors
        self.outside = {}  # call -> Operators to insert before it
        self.allocations = Allocations() if workspace else None
        self.is_running = self.has_fakes = self.has_begun_backward = False
        self.peak_bytes = None

    # ---- begin and end ----

    def __enter__(self):
        self.thread = threading.get_ident()
        self.note_what_is_alive()
        self.tag_gradients()
        self.is_running = True
        uses_device = any(tensor.device.startswith("cuda") for tensor in self.step.idle)
        self.clock = DeviceClock() if uses_device and torch.cuda.is_available() else HostClock()
        self.contexts = contextlib.ExitStack()
        self.contexts.enter_context(self.saved.hooks)
        self.modules.begin()
        self.contexts.callback(self.modules.end)
        if self.allocations is not None:
            self.allocations.begin()
        self.clock.begin()
        return super().__enter__()

    def __exit__(self, kind, error, trace):
        super().__exit__(kind, error, trace)
        self.contexts.close()
        if self.allocations is not None:
            self.allocations.end()
        if kind is None:
            self.release_gone()
            self.note_packed(None)
            self.clock.end()
            self.finish()
            with (gzip.open if self.path.endswith(".gz") else open)(self.path, "wt") as file:
                self.step.write(file)

    def note_what_is_alive(self):
        """All tensors that Python can see, and their gradients, are alive before the step."""
        for item in gc.get_objects():
            if issubclass(type(item), torch.optim.Optimizer):
                self.optimizers.append(item)
            elif issubclass(type(item), torch.Tensor):
                self.tensor_of(item, 0)
                if item.is_leaf and item.grad is not None:
                    self.tensor_of(item.grad, 0)

    # ---- tensors ----

    def tensor_of(self, tensor, call):
        """Returns the Tensor of what `call` finds alive; None for one without bytes. One that nobody knew
        was alive before the step, or allocated behind the call before this one: end() knows."""
        storage = storage_of(tensor)
        if storage is None or storage.nbytes() == 0:
            return None
        known = self.storages.find(storage)
        if known is not None:
            return known
        added, ended = self.storages.add(storage, device_of(tensor), False)
        if ended is not None:  # a storage was resized by itself
            self.release(ended)
            self.bring_to_life_outside(added, call)
            return added
        self.step.idle.append(added)
        if self.allocations is not None and self.is_running and not is_fake(tensor):
            self.allocations.found.setdefault(call, []).append((storage.data_ptr(), added))
        return added

    def bring_to_life_outside(self, tensor, call):
        op = Operator(OUTSIDE)
        op.access(tensor, OUTPUT, None)
        tensor.is_born = True
        self.outside.setdefault(call, []).append(op)
        return op

    def release(self, tensor):
        if self.last is not None:
            self.last.releases.append(tensor)
        else:
            self.step.idle.remove(tensor)  # it is gone before the first operator

    def release_gone(self):
        for tensor in self.storages.sweep():
            self.release(tensor)

    # ---- what autograd keeps ----

    def on_pack(self, tensor):
        kept = self.tensor_of(tensor, len(self.calls))
        if kept is not None:
            self.packed.append(kept)

    def note_packed(self, op):
        """Inputs are kept before an operator runs, outputs behind it; what nobody has seen is an input."""
        new = self.allocations.found.get(len(self.calls), ()) if self.allocations is not None else ()
        inputs = {*op.operands, *(tensor for _, tensor in new)} if op is not None else {}
        for tensor in self.packed:
            keeper = op if tensor in inputs else self.last
            if keeper is not None:
                keeper.saves[tensor] = None
            tensor.tag = tensor.tag or ("activation" if tensor.is_born else None)
        self.packed.clear()

    # ---- operators ----

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = schema_of(function)
        if not schema.is_operator:
            return function(*args, **kwargs)
        self.note_region(schema, args)
        self.release_gone()
        call, op = len(self.calls), Operator(schema.name)
        writes = schema.writes_of(args)
        self.note_operands(op, call, schema, writes, [*enumerate(args), *kwargs.items()])
        self.numbers[call] = schema.count_numbers(args)
        self.note_packed(op)
        self.note_phase(op)
        self.calls.append(op)
        try:
            result = self.execute(op, call, schema, function, args, kwargs)
        except BaseException:
            op.operands.clear()
            raise
        if schema.base_name == DETACH and not isinstance(result, torch.Tensor):
            return args[0]  # a number that autograd keeps as a tensor: Python is handed the number
        self.note_result(op, call, schema, writes, args, kwargs, result)
        return result

    def note_region(self, schema, args):
        if schema.base_name in REGION_BEGIN:
            self.regions.append(args[0])
            self.tag_gradients()
        elif schema.base_name == REGION_END and self.regions:
            self.regions.pop()

    def note_operands(self, op, call, schema, writes, arguments):
        if schema.name in LEGACY_REGIONS:
            return
        for key, value in arguments:
            for tensor in tensors_in(value):
                known = self.tensor_of(tensor, call)
                if known is None or tensor.numel() == 0:
                    continue
                part, is_dense = part_of(tensor, storage_of(tensor))
                sign = READ
                if key in writes:
                    sign = OVERWRITE if key in schema.overwrites and is_dense else CHANGE
                op.access(known, sign, part)

    def note_phase(self, op):
        is_backward = is_in_backward(self.thread)
        if is_backward and not self.has_begun_backward:
            self.has_begun_backward = op.begins_backward = True
        if not is_backward:
            self.saved.backward_module = None
        steps = [region for region in self.regions if region.startswith(OPTIMIZER_STEP)]
        op.module = self.modules.current() or self.saved.backward_module
        if steps:
            op.module = steps[-1][len(OPTIMIZER_STEP):]

    def execute(self, op, call, schema, function, args, kwargs):
        is_number = self.has_fakes and schema.base_name == DETACH and not is_fake(args[0])
        if schema.name in LEGACY_REGIONS or is_number:
            function = without_modes(function)
        if any(is_fake(tensor) for tensor in tensors_in(args) + tensors_in(kwargs)):
            self.has_fakes = True
            if schema.base_name == READ_NUMBER:
                return 1.0 if args[0].is_floating_point() else 1
            return function(*args, **kwargs)
        if self.allocations is None:
            return self.clock.run(op, function, args, kwargs)
        with self.allocations.call(call):
            return self.clock.run(op, function, args, kwargs)

    def note_result(self, op, call, schema, writes, args, kwargs, result):
        results = tensors_in(result) if schema.name not in LEGACY_REGIONS else []
        written = [t for key, value in [*enumerate(args), *kwargs.items()] if key in writes
                   for t in tensors_in(value)]
        born = []
        for tensor in results + written:
            storage = storage_of(tensor)
            self.has_fakes = self.has_fakes or is_fake(tensor)
            if storage is None or storage.nbytes() == 0 or self.storages.find(storage) is not None:
                continue
            added, ended = self.storages.add(storage, device_of(tensor), True)
            op.access(added, OUTPUT, None)
            if ended is not None:  # resized
                op.releases.append(ended)
            if not is_fake(tensor):
                born.append(storage.data_ptr())
        if self.allocations is not None:
            self.allocations.born[call] = born
        is_view = results and not op.births() and not (writes and schema.writes_bytes)
        if is_view:
            op.operands.clear()
        if op.operands:
            self.last = op
            op.is_pure = schema.is_pure(writes)
            if self.cost is not None:
                op.cost_us = self.cost(schema.name, args, kwargs, result) * 1e6

    # ---- the whole step ----

    def tag_gradients(self):
        parameters = [p for p, tag, _ in self.modules.parameters if tag == "parameter"]
        parameters += [p for o in self.optimizers for group in o.param_groups for p in group["params"]]
        names = {p: name for p, _, name in self.modules.parameters}
        for p in parameters:
            if p.grad is not None:
                self.tag(p.grad, "gradient", names.get(p))

    def tag(self, tensor, tag, name):
        storage = storage_of(tensor)
        known = self.storages.find(storage) if storage is not None else None
        if known is not None:
            known.tag, known.name = tag, name

    def tag_all(self):
        self.tag_gradients()
        names = {p: name for p, _, name in self.modules.parameters}
        for optimizer in self.optimizers:
            for p, state in optimizer.state.items():
                for key, value in state.items():
                    if isinstance(value, torch.Tensor):
                        self.tag(value, "optimizer", f"{names[p]}.{key}" if p in names else key)
            for group in optimizer.param_groups:
                for p in group["params"]:
                    self.tag(p, "parameter", names.get(p))
        for tensor, tag, name in self.modules.parameters:
            self.tag(tensor, tag, name)
        for tensor in self.step.idle:
            tensor.tag = tensor.tag or "input"

    def finish(self):
        """Makes the step of what was seen."""
        self.tag_all()
        sums = self.bytes_by_device()
        # Beside FakeTensors real ones are no part of the step, and the other way round.
        sums = {device: size_bytes for device, size_bytes in sums.items()
                if device.startswith(FAKE) == self.has_fakes}
        device = max(sums, key=sums.get, default="cpu")
        if self.device is not None:
            device = FAKE * self.has_fakes + str(self.device)
        if self.allocations is not None and not self.has_fakes:
            self.add_allocations(device)
        begins_backward = False
        for call, op in enumerate([*self.calls, None]):
            for before in self.outside.get(call, []):
                before.begin_us = op.begin_us if op is not None else 0.0
                self.step.operators.append(before)
            if op is None:
                break
            begins_backward = begins_backward or op.begins_backward
            if op.operands or op.releases or op.workspace_bytes:
                op.begins_backward, begins_backward = begins_backward, False
                self.step.operators.append(op)
        self.step.keep_device(device)
        if self.step_s is not None:
            self.step.scale_to(self.step_s * 1e6)
        self.peak_bytes = self.step.peak_bytes()

    def bytes_by_device(self):
        sums = {}
        for tensor in dict.fromkeys([*self.step.idle, *(t for op in self.calls for t in op.operands)]):
            sums[tensor.device] = sums.get(tensor.device, 0) + tensor.size_bytes
        return sums

    def add_allocations(self, device):
        """Adds workspaces and hidden buffers."""
        for (call, where), size_bytes in self.allocations.workspace_bytes.items():
            if where == device:
                self.calls[call].workspace_bytes = size_bytes
        for life in self.allocations.lives:
            if life.device == device and not self.is_number(life):
                self.add_life(life)

    def is_number(self, life):
        """Where an operator takes a tensor and is given a number, PyTorch makes a tensor of it, around
        the call. The call that this recorder makes is given the number too, so that there is a second one
        within."""
        call = life.gone
        is_around = life.is_outside and call == life.born + 1
        if life.tensor is None and is_around and self.numbers.get(call, 0) > 0:
            self.numbers[call] -= 1
            return True
        return False

    def add_life(self, life):
        if life.tensor is not None:  # the recorder saw it as an operand, and took it for older
            self.step.idle.remove(life.tensor)
            self.bring_to_life_outside(life.tensor, life.born + 1)
            return
        hidden = Tensor(life.size_bytes, life.device, True)
        hidden.tag = "hidden"
        if life.is_outside:
            op = self.bring_to_life_outside(hidden, life.born + 1)
        else:
            op = self.calls[life.born]
            op.access(hidden, OUTPUT, None)
        if life.gone is not None:
            (op if life.gone == life.born else self.calls[life.gone]).releases.append(hidden)
