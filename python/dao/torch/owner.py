# SPDX-License-Identifier: Apache-2.0
"""Whose offload() is. What moves bytes belongs to one thread at a time: the one that is in a step, else the
last one that asked for something. Python changes threads, and collects garbage, between any two lines and
inside of calls of C; so what another thread ends is settled by the owner, and what it asks for in a step that
is not its own is refused."""
import collections
import contextlib
import threading
from threading import get_ident

from dao.torch.library import OffloadError


class Owner:
    def __init__(self):
        self.lock = threading.Lock()
        self.thread, self.is_in_step, self.is_closed = get_ident(), False, False
        self.late = collections.deque()  # what other threads have ended: (function, arguments)

    @contextlib.contextmanager
    def step(self):
        with self.lock:
            if self.is_in_step:
                raise OffloadError("a step is in a step already" if self.thread == get_ident() else
                                   "another thread is in a step of this offload already")
            self.thread, self.is_in_step = get_ident(), True
        try:
            self.settle()
            yield
        finally:
            self.is_in_step = False

    def close(self):
        """Nothing moves any more: what lives on may be ended and read by any thread."""
        self.settle()
        self.is_closed = True

    def is_here(self):
        return self.thread == get_ident()

    def take(self):
        """This thread is to move bytes."""
        if self.thread != get_ident() and not self.is_closed:
            with self.lock:
                if self.is_in_step:
                    raise OffloadError(
                        "another thread is in a step: until it ends only that thread can run the backward "
                        "pass of what the step has kept, call the optimizer, or read weights, gradients and "
                        "state that are away")
                self.thread = get_ident()
        if self.late:
            self.settle()

    def end(self, function, *arguments):
        """Calls a function that gives something up: now, or as soon as the owner comes by."""
        if self.thread == get_ident() or self.is_closed:
            function(*arguments)
        else:
            self.late.append((function, arguments))

    def settle(self):
        while self.late:
            function, arguments = self.late.popleft()
            function(*arguments)
