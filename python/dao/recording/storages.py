# SPDX-License-Identifier: Apache-2.0
"""Which storages live, by weak references: a recording keeps no byte alive longer than the program does.

A storage is known by the address of its object, which a weak reference keeps from being used anew. When
its last strong reference goes, its bytes are freed and the weak reference has expired: a sweep over all
of them between two operators finds what was released."""
from itertools import compress

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from dao.recording.step import Tensor

if hasattr(torch.Tensor, "untyped_storage"):
    untyped_storage = torch.Tensor.untyped_storage
else:  # PyTorch 1.13
    untyped_storage = torch.Tensor._storage
has_expired = torch.UntypedStorage._expired
strided = torch.strided


def storage_of(tensor):
    """Returns a tensor's storage; None for one that has none of its own, such as a sparse one."""
    if tensor.layout is not strided:
        return None
    try:
        return untyped_storage(tensor)
    except (NotImplementedError, RuntimeError):
        return None


def part_of(tensor, storage):
    """Returns the bytes that a tensor spans in its storage, (offset, bytes), and whether it has all of
    them."""
    item_bytes = tensor.element_size()
    span = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        span += (size - 1) * stride
    offset = tensor.storage_offset() * item_bytes
    is_dense = span == tensor.numel()
    if offset == 0 and span * item_bytes >= storage.nbytes():
        return None, is_dense
    return (offset, span * item_bytes), is_dense


class Storages:
    def __init__(self):
        self.live = {}  # address of the storage's object -> (weak reference, Tensor)

    def find(self, storage):
        """Returns the Tensor of a storage that is known and has kept its size; else None."""
        known = self.live.get(storage._cdata)
        return known[1] if known is not None and known[1].size_bytes == storage.nbytes() else None

    def add(self, storage, device, is_born):
        """Notes a storage. Returns its Tensor and, if it was known with another size, the one that this
        ends."""
        key, ended = storage._cdata, None
        if key in self.live:
            ended = self.live[key][1]
        tensor = Tensor(storage.nbytes(), str(device), is_born)
        self.live[key] = (StorageWeakRef(storage), tensor)
        return tensor, ended

    def sweep(self):
        """Returns the Tensors whose storages have gone since the last sweep."""
        gone = list(compress(self.live, map(has_expired, self.live)))  # in C: it runs for each operator
        return [self.live.pop(key)[1] for key in gone]
