# SPDX-License-Identifier: Apache-2.0
"""What autograd keeps for the backward pass, by hooks that hand each tensor back as it is.

With hooks PyTorch does not look whether a kept tensor was changed in place. So these do."""
import torch


class Kept:
    """A tensor that autograd keeps, with its version and the module that kept it."""

    __slots__ = ("tensor", "version", "module")

    def __init__(self, tensor, module):
        self.tensor, self.version, self.module = tensor, tensor._version, module


class Saved:
    """`on_pack(tensor)` is told of each tensor that is kept; `module` is called for the path that runs."""

    def __init__(self, on_pack, module):
        self.on_pack, self.module = on_pack, module
        self.backward_module = None  # which kept the tensor that was unpacked last
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, tensor):
        self.on_pack(tensor)
        return Kept(tensor, self.module())

    def unpack(self, kept):
        if kept.tensor._version != kept.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: a tensor of {list(kept.tensor.shape)} is at version {kept.tensor._version}, "
                f"expected version {kept.version}")
        self.backward_module = kept.module
        return kept.tensor
