# SPDX-License-Identifier: Apache-2.0
"""Names of modules, and which of them runs, by hooks on all modules.

A module that is called while no other one runs is a root. Its parts are named as its named_modules()
names them, behind the name of its class; those of the model that was given have no such beginning."""
import weakref

from torch.nn.modules import module as hooks


class Modules:
    def __init__(self, model=None):
        self.names = weakref.WeakKeyDictionary()  # module -> its path
        self.roots = set()
        self.running = []
        self.parameters = []  # (tensor, tag, name)
        self.handles = []
        if model is not None:
            self.add_root(model, "")

    def add_root(self, root, root_name):
        beginning = root_name + "." if root_name else ""
        for name, module in root.named_modules():
            self.names.setdefault(module, (beginning + name).rstrip(".") or type(root).__name__)
        self.parameters += [(p, "parameter", beginning + name) for name, p in root.named_parameters()]
        self.parameters += [(b, "buffer", beginning + name) for name, b in root.named_buffers()]

    def free_name(self, root):
        name, count = type(root).__name__, 1
        while name in self.roots:
            count += 1
            name = f"{type(root).__name__}#{count}"
        self.roots.add(name)
        return name

    def before_forward(self, module, _inputs):
        if module not in self.names:
            self.add_root(module, self.free_name(module))
        self.running.append(module)

    def after_forward(self, module, _inputs, _output):
        # A forward that ended by an exception has left its own module on the stack.
        while self.running and self.running.pop() is not module:
            pass

    def current(self):
        return self.names[self.running[-1]] if self.running else None

    def begin(self):
        self.handles = [hooks.register_module_forward_pre_hook(self.before_forward),
                        hooks.register_module_forward_hook(self.after_forward)]

    def end(self):
        for handle in self.handles:
            handle.remove()
