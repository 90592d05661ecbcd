# SPDX-License-Identifier: Apache-2.0
"""Whose offload() is. What moves bytes belongs to one thread at a time: the one that is in a step, else the
last one that asked for something. Python changes threads, and collects garbage, between any two lines and
inside of calls of C; so what moves bytes outside of a step holds a lock, and what another thread asks for in
a step that is not its own is refused.

    with owner: ...       bytes move: in a step of this thread, or with the lock
    owner.end_late(f)     something ends outside of a step of this thread: at once where nobody else is in
                          one or moves bytes; otherwise it is `late`, and ends as that thread comes by: at the
                          latest as it ends what it does

Within a step no other thread gets further than to find that out, so the step itself needs no lock."""
import collections
import contextlib
import threading
from threading import get_ident

from dao.torch.library import OffloadError


class Owner:
    def __init__(self):
        self.lock = threading.RLock()  # held while bytes move outside of steps, and as a step begins
        self.thread = get_ident()
        self.stepping = None  # the thread that is in a step
        self.late = collections.deque()  # what other threads have ended: (function, arguments)

    @contextlib.contextmanager
    def step(self):
        with self.lock:
            if self.stepping is not None:
                raise OffloadError("a step is in a step already: one has to end before the next one begins"
                                   if self.thread == get_ident() else
                                   "another thread is in a step of this offload already: steps run in turn")
            self.thread = self.stepping = get_ident()
        try:
            self.settle()
            yield
        finally:
            self.stepping = None
            self.settle()

    def __enter__(self):
        """This thread is to move bytes; what another one moves outside of a step has ended by then."""
        self.lock.acquire()
        try:
            if self.thread != get_ident():
                if self.stepping is not None:
                    raise OffloadError(
                        "another thread is in a step: until it ends only that thread can run the backward "
                        "pass of what the step has kept, call the optimizer, or read weights, gradients and "
                        "state that are away")
                self.thread = get_ident()
            if self.late:
                self.settle()
        except BaseException:
            self.lock.release()
            raise

    def __exit__(self, *exception):
        self.lock.release()
        if self.late:
            self.settle()

    def take(self):
        """This thread is to call what moves bytes."""
        if self.stepping != get_ident() or self.late:
            with self:
                pass

    def is_free(self):
        """True if this thread is in a step, and nothing is late: then it needs no lock."""
        return self.stepping == get_ident() and not self.late

    def is_here(self):
        return self.thread == get_ident()

    def is_in_own_step(self):
        return self.stepping == get_ident()

    def end_late(self, function, *arguments):
        """Calls a function that gives something up, outside of a step of this thread: now, or as soon as the
        thread comes by that may."""
        self.late.append((function, arguments))
        self.settle()

    def settle(self):
        """Ends what is late. Whoever has had the lock calls this once he has given it back, and whoever was
        in a step as it has ended, so that nothing stays late."""
        while self.late and self.lock.acquire(blocking=False):
            try:
                if self.stepping not in (None, get_ident()):
                    return
                self.end_next()
            finally:
                self.lock.release()

    def end_next(self):
        try:
            function, arguments = self.late.popleft()
        except IndexError:  # garbage was collected, which has settled it
            return
        function(*arguments)
