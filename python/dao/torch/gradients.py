# SPDX-License-Identifier: Apache-2.0
"""Gradients between the backward pass and the optimizer's step. They leave as weights do, and behind these.

    p.grad --start_out(): another parameter's is next, or memory is short--> leaving --> away: 0 bytes
       ^                                                                                    |
       +-- the backward pass adds to it, step(), whoever asks for its parameter <-----------+

A gradient leaves only while nobody but its parameter has it, and nobody can reach that unnoticed. A hook of
the parameter brings it back before the backward pass adds to it, and keeps it until the next one's turn."""
import functools
import sys
import weakref

from dao.recording.storages import storage_of
from dao.torch.stash import Lasting

GRADIENT_USES = 2  # of sys.getrefcount(gradient): its argument and the variable
TENSOR_USES = 2  # the parameter's, and Python's object of it


class Gradient(Lasting):
    """The storage of a gradient that is away or on its way out."""

    def __init__(self, gradients, weight, index, storage):
        super().__init__(storage)
        self.gradients, self.weight, self.index = gradients, weight, index

    def text(self):
        return f"the gradient of {self.weight.name}"

    def is_current(self):
        """True if it is still the gradient of its parameter."""
        gradient = self.weight.parameters[self.index].grad
        storage = None if gradient is None else storage_of(gradient)
        return storage is not None and storage._cdata == self.key

    def note_version(self):
        self.version = self.weight.parameters[self.index].grad._version

    def is_sole(self, library):
        if not self.weight.is_known(self.index) or not self.is_current():
            return False
        if self.gradients.is_held or self.gradients.current == id(self.weight.parameters[self.index]):
            return False
        gradient = self.weight.parameters[self.index].grad
        if self.parked is not None and gradient._version != self.version:
            return False  # what is parked is not what there is
        return (not gradient.requires_grad and sys.getrefcount(gradient) == GRADIENT_USES
                and weakref.getweakrefcount(gradient) == 0
                and library.torch_cpu_tensor_use_count(gradient._cdata) == TENSOR_USES
                and library.torch_cpu_storage_use_count(self.key) == 1 + 1)  # the gradient, and this object


class Gradients:
    def __init__(self, stash, small_bytes):
        self.stash, self.library, self.small_bytes = stash, stash.library, small_bytes
        self.gone = {}  # those that are away or leaving, by the parameter's id
        self.hooks = {}  # by the parameter's id
        self.current = None  # the id of the parameter whose gradient is being added to
        self.is_held = False  # all of them are needed at once
        self.leaves = False  # memory was short of them: they leave once they are there
        self.left_bytes = 0
        self.weight_of = lambda parameter_id: None
        self.bring = lambda gradient: None

    def watch(self, parameter):
        """Notices when the backward pass has a gradient for a parameter."""
        if parameter.requires_grad and not self.is_watched(parameter):
            self.hooks[id(parameter)] = parameter.register_hook(
                functools.partial(self.on_gradient, id(parameter)))

    def is_watched(self, parameter):
        """Ids are used anew, numbers of hooks are not."""
        hook = self.hooks.get(id(parameter))
        return hook is not None and hook.id in (parameter._backward_hooks or ())

    def keep_watching(self, parameter_ids):
        """Forgets all other parameters."""
        for parameter_id in self.hooks.keys() - parameter_ids:
            self.hooks.pop(parameter_id).remove()

    def on_gradient(self, parameter_id, _):
        with self.stash.owner:
            before, self.current = self.current, parameter_id
            self.bring_of(parameter_id)
            if self.leaves and before is not None and before != parameter_id:
                weight = self.weight_of(before)
                for index in range(len(weight.parameters) if weight is not None else 0):
                    self.leave(weight, index)

    def bring_of(self, parameter_id):
        """A parameter's gradient is to be read or written."""
        gradient = self.gone.get(parameter_id)
        if gradient is not None:
            self.bring(gradient)
            del self.gone[parameter_id]

    def bring_all(self):
        for parameter_id in list(self.gone):
            self.bring_of(parameter_id)

    def forget_others(self):
        """Gives up what is no parameter's gradient any more."""
        for parameter_id, gradient in list(self.gone.items()):
            if not gradient.is_current():
                del self.gone[parameter_id]
                self.stash.discard(gradient)

    def close(self):
        self.bring_all()
        for hook in self.hooks.values():
            hook.remove()
        self.hooks, self.weight_of = {}, lambda parameter_id: None

    # ---- memory is short ----

    def find(self, weight, index):
        """Returns the gradient of a parameter that is in memory, as an item; None if there is none."""
        parameter = weight.parameters[index]
        known = self.gone.get(id(parameter))
        if known is not None:
            return known if known.storage is not None else None
        if not self.is_watched(parameter):
            return None
        gradient = parameter.grad
        storage = None if gradient is None else storage_of(gradient)
        if storage is None or storage.nbytes() < self.small_bytes or not gradient.is_cpu:
            return None
        return Gradient(self, weight, index, storage)

    def start_out(self, weight, index):
        """Returns the gradient of a parameter if it begins to leave."""
        gradient = self.find(weight, index)
        if gradient is None or not gradient.is_sole(self.library) or not self.stash.start_out(gradient):
            return None
        self.gone[id(weight.parameters[index])] = gradient
        return gradient

    def leave(self, weight, index):
        gradient = self.start_out(weight, index)
        if gradient is not None:
            self.left_bytes += gradient.size_bytes

    def relieve(self, weights, needed_bytes):
        """Frees memory of the gradients of some weights. Returns the bytes."""
        victims, sum_bytes, freed_bytes = [], 0, 0
        for weight in weights:
            for index in range(len(weight.parameters)):
                gradient = self.start_out(weight, index) if sum_bytes < needed_bytes else None
                if gradient is not None:
                    victims.append(gradient)
                    sum_bytes += gradient.size_bytes
        for gradient in victims:
            freed_bytes += self.stash.wait_and_drop(gradient)
        self.left_bytes += freed_bytes
        self.leaves = self.leaves or freed_bytes > 0
        return freed_bytes
