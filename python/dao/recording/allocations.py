# SPDX-License-Identifier: Apache-2.0
"""What operators allocate for themselves, from PyTorch's profiler: it sees each allocation and free of
PyTorch's allocators, with its address, in order.

Around each operator stands a mark. A block that is allocated and freed between begin and end of a mark is
workspace; one that outlives it is a storage that the recorder has seen, by its address, or else *hidden*:
a buffer that a library keeps for later."""
import contextlib

import torch
from torch.autograd import profiler

MARK = "dao#"


class MemoryProfile(profiler.profile):
    """PyTorch's profiler, without the table of functions that it makes at the end."""

    def _parse_kineto_results(self, _result):
        return []


class Event:
    """An allocation or free, or the begin or end of the operator `mark`."""

    __slots__ = ("time_ns", "kind", "mark", "address", "size_bytes", "device")
    BEGIN, CHANGE, END = range(3)

    def __init__(self, time_ns, kind, mark, address=0, size_bytes=0, device=None):
        self.time_ns, self.kind, self.mark = time_ns, kind, mark
        self.address, self.size_bytes, self.device = address, size_bytes, device


class Life:
    """A block, from its allocation during or behind a call to its free during or behind another one."""

    __slots__ = ("size_bytes", "device", "born", "is_outside", "gone", "is_storage", "tensor")

    def __init__(self, event, born, is_outside):
        self.size_bytes, self.device = event.size_bytes, event.device
        self.born, self.is_outside = born, is_outside
        self.gone = None  # the call; None: it lives on
        self.is_storage = False  # the recorder has seen a storage in it
        self.tensor = None  # which one, if that was found and not brought to life by a call


def flatten(nodes, mark, events):
    """Lists the events of a tree of the profiler's. Recursion is as deep as calls of operators are
    nested."""
    for node in nodes:
        name = node.name() if callable(node.name) else node.name
        if name.startswith(MARK):
            index = int(name[len(MARK):])
            events.append(Event(node.start_time_ns, Event.BEGIN, index))
            flatten(node.children, index, events)
            events.append(Event(node.end_time_ns, Event.END, index))
        elif name == "[memory]":
            about = node.extra_fields
            events.append(Event(node.start_time_ns, Event.CHANGE, mark, about.ptr, about.alloc_size,
                                str(about.device)))
        else:
            flatten(node.children, mark, events)


class Allocations:
    """Calls are numbered from 0; call -1 is what was before the first one. After end(): `lives` that are
    no storage of a call's, and `workspace_bytes` of (call, device)."""

    def __init__(self):
        self.profile = MemoryProfile(profile_memory=True, use_kineto=True)
        self.born = {}  # call -> addresses of the storages that it brought to life
        self.found = {}  # call -> (address, Tensor) of operands that nobody knew before
        self.lives, self.workspace_bytes = [], {}

    def begin(self):
        self.profile.__enter__()

    @contextlib.contextmanager
    def call(self, index):
        """Marks what runs in it as call `index`. profiler.record_function() allocates, in PyTorch 1.13."""
        mark = torch.ops.profiler._record_function_enter_new(f"{MARK}{index}", None)
        try:
            yield
        finally:
            torch.ops.profiler._record_function_exit(mark)

    def end(self):
        self.profile.__exit__(None, None, None)
        events = []
        flatten(self.profile.kineto_results.experimental_event_tree(), None, events)
        events.sort(key=lambda event: event.time_ns)
        self.follow(events)

    def follow(self, events):
        live, sums = {}, {}
        call = -1
        most, begin = {}, {}
        for event in events:
            if event.kind == Event.BEGIN:
                call = event.mark
                begin, most = dict(sums), dict(sums)
                for address, tensor in self.found.get(call, ()):
                    if address in live:
                        live[address].is_storage, live[address].tensor = True, tensor
            elif event.kind == Event.END:
                self.end_call(call, live, begin, most)
            else:
                self.change(event, call, live, sums)
                bytes_now = sums[event.device]
                most[event.device] = max(most.get(event.device, 0), bytes_now)
        self.lives = [life for life in self.lives if life.tensor is not None or not life.is_storage]

    def change(self, event, call, live, sums):
        sums[event.device] = sums.get(event.device, 0) + event.size_bytes
        if event.size_bytes > 0:
            live[event.address] = Life(event, call, event.mark is None)
            self.lives.append(live[event.address])
        elif event.address in live:
            life = live.pop(event.address)
            life.gone = call
            if event.mark is not None and life.born == call and not life.is_outside:
                self.lives.remove(life)  # workspace

    def end_call(self, call, live, begin, most):
        for address in self.born.get(call, ()):
            if address in live:
                live[address].is_storage = True
        stays = {}
        for life in reversed(self.lives):
            if life.born != call or life.is_outside:
                break
            stays[life.device] = stays.get(life.device, 0) + life.size_bytes
        for device, most_bytes in most.items():
            extra_bytes = most_bytes - begin.get(device, 0) - stays.get(device, 0)
            self.workspace_bytes[call, device] = max(0, extra_bytes)
