# SPDX-License-Identifier: Apache-2.0
"""What hooks look at in each call, as base classes: of C where libdao_torch_hooks.so is found, which then has
the calls that are as planned, too; else of Python.

The library lies beside libdao_torch_cpu.so; LIBDAO_TORCH_HOOKS is its path otherwise, and nothing for hooks
in Python."""
import ctypes
import os
import sysconfig

VERSION = 1  # HOOKS_VERSION of integrations/torch/dao_torch_hooks.c


def find_native():
    """Returns the module in C, or None and why there is none."""
    beside = os.path.join(os.path.dirname(os.environ.get("LIBDAO_TORCH_CPU", "")), "libdao_torch_hooks.so")
    path = os.environ.get("LIBDAO_TORCH_HOOKS", beside)
    if not path:
        return None, "LIBDAO_TORCH_HOOKS says so"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None, "those in C need Python's lock"
    try:
        make = ctypes.PyDLL(path).dao_torch_hooks_module
    except (AttributeError, OSError) as error:
        return None, f"libdao_torch_hooks.so is not found ({error})"
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_int,)
    module = make(VERSION)
    return module, None if module is not None else f"{path} is of another version than the package dao"


class Item:
    parked = record = None
    in_ticket = 0

    def __init__(self, key, storage, size_bytes):
        self.key, self.storage, self.size_bytes = key, storage, size_bytes
        self.cells = []
        self.handles = 0


class Cell:
    __slots__ = ("tensor", "version", "shape")

    def __init__(self, tensor):
        self.tensor = tensor = tensor.detach()
        self.version = tensor._version


class Handle:
    __slots__ = ("stash", "item", "cell")

    def __init__(self, stash, item, cell):
        self.stash, self.item, self.cell = stash, item, cell

    def __del__(self):
        self.stash.end(self.item)


class Progress:
    pass


native, why_python = find_native()
if native is not None:
    Item, Cell, Handle, Progress = native.Item, native.Cell, native.Handle, native.Progress
