# SPDX-License-Identifier: Apache-2.0
"""Weights between their uses. They leave once nothing else makes room, then from step to step.

    there --start_out(): memory is short, a plan says so, or its backward is done--> leaving --> away: 0 bytes
      ^                                                                                            |
      +-- whoever asks its module or the optimizer for it, autograd as it unpacks it, step() <-----+

The tensors stay the same objects: only their storages lose their bytes. So a weight leaves only while nobody
can read it: its references are those that are known here, in places where whoever asks is noticed. What is
parked stays right until somebody has had the tensor in hand, as he may have written to it.

Of a weight that autograd keeps, the stash knows as of any other item: it is planned the same way."""
import collections
import contextlib
import inspect
import sys
import weakref

import torch

from dao.recording.storages import storage_of
from dao.torch.gradients import Gradients
from dao.torch.stash import Lasting, changed, now_ns
from dao.torch.watched import WatchedList, WatchedParameters, plain_list

# References of a parameter beside those of its places, as sys.getrefcount(item.parameters[i]) counts them:
# its own argument, and the list of the item.
PARAMETER_USES = 2
ZERO_GRAD_SETS_TO_NONE = inspect.signature(torch.nn.Module.zero_grad).parameters["set_to_none"].default
NAME_COUNT_MAX = 3  # weights that stay, of which the report has the names


def own_parameters(module):
    """A module's own parameters by name, without it noticing; None if it keeps them elsewhere."""
    parameters = module.__dict__.get("_parameters")
    return parameters if type(parameters) in (dict, collections.OrderedDict, WatchedParameters) else None


class ZeroGrad:
    """A model's zero_grad(), which reads no weights. Copies of the model have their class's."""

    def __init__(self, weights, model):
        self.weights, self.model = weights, model

    def __call__(self, set_to_none=ZERO_GRAD_SETS_TO_NONE):
        with self.weights.stash.owner, self.weights.zeroing(set_to_none):
            return torch.nn.Module.zero_grad(self.model, set_to_none)

    def __reduce__(self):
        return getattr, (self.model, "zero_grad")


class Place:
    """Where a parameter is known to be: in a module's dictionary, or in the list of an optimizer's group."""

    __slots__ = ("container", "key", "optimizer")

    def __init__(self, container, key, optimizer=None):
        self.container, self.key, self.optimizer = container, key, optimizer

    def has(self, parameter):
        if self.optimizer is not None:
            return self.key < len(self.container) and self.container[self.key] is parameter
        return dict.get(self.container, self.key) is parameter


def is_only_in_graphs(parameter, library):
    """True if what has a parameter beside Python is nothing, or the node of autograd that adds to its
    gradient, of which there is one at a time: asked for it, autograd makes no second reference."""
    uses = library.torch_cpu_tensor_use_count(parameter._cdata)
    if uses > 1 + parameter.requires_grad or getattr(parameter, "_post_accumulate_grad_hooks", None):
        return False
    if uses == 1:
        return True
    with torch.inference_mode(False):  # which also lets autograd see what operators do inside
        view = parameter.view_as(parameter).grad_fn
        node = view.next_functions[0][0] if view is not None else None
    return node is not None and library.torch_cpu_tensor_use_count(parameter._cdata) == uses


class Weight(Lasting):
    """A storage of parameters. It is among the stash's items while autograd keeps it."""

    def __init__(self, weights, name, storage):
        super().__init__(storage)
        self.weights, self.name = weights, name
        self.parameters, self.places = [], []  # and of each parameter its places
        self.kept_count = 0  # tensors over the storage that autograd keeps

    def text(self):
        return f"the weight {self.name}"

    def is_known(self, i):
        """True if all references that Python has of a parameter are in its places."""
        uses = PARAMETER_USES + self.weights.known_uses(self.parameters[i], self.places[i])
        return (sys.getrefcount(self.parameters[i]) == uses
                and weakref.getweakrefcount(self.parameters[i]) == 0)

    def is_sole(self, library):
        """True if nobody can read it unnoticed: graphs have at most one reference of a parameter, to add to
        its gradient, and tensors of what they keep."""
        if library.torch_cpu_storage_use_count(self.key) != len(self.parameters) + 1 + self.kept_count:
            return False
        for i in range(len(self.parameters)):
            if not self.is_known(i):
                return False
            if not is_only_in_graphs(self.parameters[i], library):
                return False
        return self.parked is None or self.version == self.versions()

    def versions(self):
        return [parameter._version for parameter in self.parameters]

    def note_version(self):
        self.version = self.versions()


class KeptWeight:
    """A weight as autograd keeps it."""

    __slots__ = ("weights", "item", "tensor", "version", "is_noted")

    def __init__(self, weights, item, tensor, is_noted):
        self.weights, self.item, self.is_noted = weights, item, is_noted
        self.tensor, self.version = tensor.detach(), tensor._version

    def get(self):
        """Returns the tensor, as a Handle does."""
        if self.tensor._version != self.version:
            raise changed(self.tensor.shape, self.tensor._version, self.version)
        if self.item.storage is None or self.item.in_ticket:
            self.weights.stash.fetch(self.item)
        return self.tensor

    def __del__(self):
        self.tensor = None
        owner = self.weights.stash.owner
        if owner.is_in_own_step():
            self.weights.release(self.item, self.is_noted)
        else:
            owner.end_late(self.weights.release, self.item, self.is_noted)


class Weights:
    def __init__(self, stash, model, optimizers, small_bytes):
        self.stash, self.library, self.small_bytes = stash, stash.library, small_bytes
        self.model, self.optimizers = model, optimizers
        self.items = []  # in the order of the model
        self.by_parameter = {}  # by the parameter's id
        self.movable = {}  # by the storage's key: those that may leave in this step
        self.movable_bytes, self.held = 0, []  # as the last step began; names and bytes of those that stay
        self.persistent = set()  # keys of all storages of parameters and buffers
        self.busy = set()  # those that an optimizer's step uses
        self.leaves = False  # memory was short of them: they leave behind their uses
        self.stepping = None  # the optimizer whose step has lists of its own of all its parameters
        self.is_quiet = False  # who asks for parameters does not read them
        self.left_bytes = 0
        self.on_stay, self.on_wait = lambda item: None, lambda wait_ns: None
        self.gradients = Gradients(stash, small_bytes)
        self.gradients.weight_of, self.gradients.bring = self.by_id, self.bring
        self.scan()

    # ---- which there are ----

    def groups(self):
        """All optimizers with each of their groups."""
        return [(optimizer, group) for optimizer in self.optimizers for group in optimizer.param_groups]

    def watch(self):
        """Puts watched containers where parameters are, also where they are new. Returns, by the id of each
        parameter, it, its name and its places."""
        found = {}
        if type(self.model).zero_grad is torch.nn.Module.zero_grad:
            self.model.__dict__.setdefault("zero_grad", ZeroGrad(self, self.model))
        for prefix, module in self.model.named_modules():
            parameters = own_parameters(module)
            if parameters and type(parameters) is not WatchedParameters:
                parameters = module.__dict__["_parameters"] = WatchedParameters(self.touch, parameters)
            for name, parameter in dict.items(parameters or {}):
                if parameter is not None:
                    known = found.setdefault(id(parameter), (parameter, f"{prefix}.{name}".lstrip("."), []))
                    known[2].append(Place(parameters, name))
        for optimizer, group in self.groups():
            if type(group["params"]) is not WatchedList:
                group["params"] = WatchedList(self.touch, group["params"])
            parameters = plain_list(group)
            for i, parameter in enumerate(parameters):
                if id(parameter) in found:
                    found[id(parameter)][2].append(Place(parameters, i, optimizer))
        return found

    def scan(self):
        """Finds the weights, before a step."""
        before = {item.key: item for item in self.items}
        items, replaced, self.by_parameter = {}, [], {}
        self.persistent = {storage._cdata for storage in map(storage_of, self.model.buffers())
                           if storage is not None}
        for parameter, name, places in self.watch().values():
            storage = storage_of(parameter) if parameter.is_cpu else None
            if storage is None:
                continue
            key = storage._cdata
            self.persistent.add(key)
            item = before.get(key) or items.get(key)
            if item is None and (storage.nbytes() < self.small_bytes or storage.is_shared()):
                continue
            if key not in items:
                items[key] = item = item or Weight(self, name, storage)
                replaced.append((item, item.parameters))
                item.parameters, item.places = [], []
            item.parameters.append(parameter)
            item.places.append(places)
            self.by_parameter[id(parameter)] = item
            self.gradients.watch(parameter)
        for key, item in before.items():
            if key not in items:  # the model has other ones now
                self.bring(item)
                item.is_stuck = True
                replaced.append((item, item.parameters))
                item.parameters, item.places = [], []
        for item, parameters in replaced:
            if list(map(id, parameters)) != list(map(id, item.parameters)):
                for parameter in parameters:
                    self.gradients.bring_of(id(parameter))
        self.gradients.keep_watching(self.by_parameter.keys())
        self.items = list(items.values())

    def by_id(self, parameter_id):
        return self.by_parameter.get(parameter_id)

    def begin_step(self):
        self.gradients.forget_others()
        self.scan()
        self.movable = {item.key: item for item in self.items
                        if item.storage is None or item.is_sole(self.library)}
        self.movable_bytes = sum(item.size_bytes for item in self.movable.values())
        self.held = [(item.name, item.size_bytes) for item in self.items if item.key not in self.movable]

    def end_step(self):
        self.gradients.current = None

    def known_uses(self, parameter, places):
        """How many references of a parameter are known."""
        count = sum(dict.__contains__(optimizer.state, parameter) for optimizer in self.optimizers)
        for place in places:
            if place.has(parameter):
                count += 1 + (place.optimizer is not None and place.optimizer is self.stepping)
        return count

    def close(self):
        """Brings all back, and puts the containers that there were."""
        if self.model is None:
            return
        self.gradients.close()
        self.bring_all()
        if getattr(self.model.__dict__.get("zero_grad"), "weights", None) is self:
            del self.model.__dict__["zero_grad"]
        for module in self.model.modules():
            parameters = own_parameters(module)
            if type(parameters) is WatchedParameters:
                parameters.touch = lambda parameter: None  # somebody may have it, and goes on
                module.__dict__["_parameters"] = parameters.plain()
        for _, group in self.groups():
            if type(group["params"]) is WatchedList:
                group["params"].touch = lambda parameter: None
                group["params"] = plain_list(group)[:]
        for item in self.items:
            item.parameters, item.places = [], []
        self.items, self.by_parameter, self.movable = [], {}, {}
        self.model = self.optimizers = None

    # ---- who asks for them ----

    def touch(self, parameter):
        """Somebody is to have a parameter: it is there, and what is parked of it may be wrong from now on."""
        if self.is_quiet:
            return
        item = self.by_parameter.get(id(parameter))
        if item is not None:
            self.bring(item)
        if self.gradients.gone:
            self.gradients.bring_of(id(parameter))

    def bring(self, item):
        """Somebody is to have an item in hand: its bytes come back, and what is parked of it goes."""
        if item.storage is not None and item.parked is None:
            return
        with self.stash.owner:
            self.bring_now(item)

    def bring_now(self, item):
        begin = now_ns()
        if item.is_listed:
            self.stash.on_drop(None)
        if item.storage is None or item.in_ticket:
            self.stash.fetch(item)
        if item.parked is not None:
            if item in self.stash.leaving:  # or it would leave under the hands of who has it now
                self.stash.leaving.remove(item)
            self.library.parked_wait(item.parked)  # a way out, of which nothing is asked any more
            self.library.parked_release(item.parked)
            item.parked, item.out_ticket = None, 0
            self.on_stay(item)
        self.on_wait(now_ns() - begin)

    def bring_all(self):
        for item in self.items:
            self.bring(item)

    def begin_use(self, parameters):
        """The optimizer is to change these."""
        items = [item for item in map(self.by_parameter.get, map(id, parameters)) if item is not None]
        self.busy = set(items)
        for item in items:
            self.bring(item)
        for parameter in parameters:
            self.gradients.bring_of(id(parameter))

    def end_use(self):
        self.busy = set()

    @contextlib.contextmanager
    def zeroing(self, sets_to_none):
        """Around what drops all gradients, or makes them zero. It reads no weights."""
        try:
            if not sets_to_none:
                self.gradients.is_held = True
                self.gradients.bring_all()
            self.is_quiet = True
            yield
        finally:
            self.is_quiet = self.gradients.is_held = False
            self.gradients.forget_others()

    # ---- what autograd keeps ----

    def keep(self, item, tensor, is_noted):
        """Returns the handle of a tensor over a weight. `is_noted`: it is planned."""
        item.kept_count += 1
        if is_noted:
            item.handles += 1
            if not item.is_listed:
                item.is_listed = True
                self.stash.enlist(item)
        return KeptWeight(self, item, tensor, is_noted)

    def release(self, item, was_noted):
        item.kept_count -= 1
        if not was_noted:
            return
        item.handles -= 1
        if item.handles == 0:
            self.stash.delist(item)
            item.is_listed, item.record = False, None
            if self.leaves and self.model is not None:
                self.leave(item)

    # ---- memory is short ----

    def leave(self, item):
        """Its bytes are given up as soon as they have left."""
        if item not in self.busy and item.is_sole(self.library) and self.stash.start_out(item):
            left_bytes = self.stash.drop(item)
            self.left_bytes += left_bytes
            if left_bytes == 0 and item not in self.stash.leaving:
                self.stash.leaving.append(item)

    def relieve(self, needed_bytes):
        """Frees memory, of what is used last first. Returns the bytes."""
        victims, sum_bytes = [], 0
        for item in reversed(self.items):
            if sum_bytes >= needed_bytes:
                break
            if (item.storage is not None and not item.is_listed and item not in self.busy
                    and item.is_sole(self.library) and self.stash.start_out(item)):
                victims.append(item)
                sum_bytes += item.size_bytes
        freed_bytes = 0
        for item in victims:
            freed_bytes += self.stash.wait_and_drop(item)
        self.left_bytes += freed_bytes
        self.leaves = self.leaves or freed_bytes > 0
        if freed_bytes < needed_bytes:
            others = [item for item in reversed(self.items) if item not in self.busy]
            freed_bytes += self.gradients.relieve(others, needed_bytes - freed_bytes)
        return freed_bytes

    def leave_early(self):
        """There was no plan: more has to leave without being asked."""
        self.gradients.leaves = self.leaves
        self.leaves = True

    def text(self):
        """What of the weights could leave in the last step."""
        text = (f"{self.movable_bytes / 1e6:.1f} MB of weights can leave, "
                f"{self.left_bytes / 1e6:.1f} MB have in all steps")
        if self.gradients.left_bytes > 0:
            text += f", and {self.gradients.left_bytes / 1e6:.1f} MB of gradients"
        if not self.held:
            return text
        held_bytes = sum(size_bytes for _, size_bytes in self.held)
        more = ", ..." if len(self.held) > NAME_COUNT_MAX else ""
        names = ", ".join(name for name, _ in self.held[:NAME_COUNT_MAX]) + more
        return (f"{text}; {held_bytes / 1e6:.1f} MB cannot, as the program or another part of PyTorch has "
                f"them too: {names}")
