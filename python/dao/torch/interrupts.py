# SPDX-License-Identifier: Apache-2.0
"""Signals in a step. Python calls a program's handlers between any two lines, also of what C calls: of a hook
that ends, or of memory that is asked for. What they raise there, as Ctrl-C and timeouts do, would be lost, or
leave bytes half moved; and they could ask for weights that are half moved themselves. So a handler waits,
while this package's own code runs, until that has ended, and is called where the program is then."""
import _thread
import contextlib
import os
import signal
import sys
import threading
import time

PACKAGE = os.path.dirname(__file__)
RETRY_S = 0.001
# Calls a handler in the main thread. Python below 3.10 needs a signal for that, which ends a process whose
# handler has gone meanwhile.
call_handler = _thread.interrupt_main if sys.version_info >= (3, 10) else signal.raise_signal


def is_in_package(frame):
    """True if a frame is of this package, or was called by one; or is one that enters or leaves a step."""
    if frame.f_code.co_filename == contextlib.__file__:
        return True
    while frame is not None and os.path.dirname(frame.f_code.co_filename) != PACKAGE:
        frame = frame.f_back
    return frame is not None


class Held:
    """A signal whose handler waits. Whoever has taken this one's handler for the program's may set it again
    behind the step: it goes on to work."""

    def __init__(self, number, before):
        self.number, self.before = number, before
        self.is_waiting = False
        self.lock = threading.Lock()  # handlers do not change while one is to be called

    def is_set(self):
        return signal.getsignal(self.number) == self.handle

    def handle(self, number, frame):
        if not is_in_package(frame):
            self.is_waiting = False
            self.before(number, frame)
        elif not self.is_waiting:
            self.is_waiting = True
            try:
                _thread.start_new_thread(self.call_later, ())
            except RuntimeError:  # there is no thread to be had: the end calls it
                pass

    def call_later(self):
        """Calls the handler again and again, until it does not wait any more."""
        while True:
            time.sleep(RETRY_S)
            with self.lock:
                self.is_waiting = self.is_waiting and self.is_set()
                if not self.is_waiting:
                    return
                call_handler(self.number)

    def end(self):
        """Puts the program's handler back, and calls it if it waits. If the program has another one by now,
        that is its own."""
        with self.lock:
            if not self.is_set():
                return
            signal.signal(self.number, self.before)
            was_waiting, self.is_waiting = self.is_waiting, False
        if was_waiting:
            self.before(self.number, sys._getframe())


@contextlib.contextmanager
def held():
    """No handler of the program interrupts this package. Other threads than the main one never are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with contextlib.ExitStack() as stack:
        for number in range(1, signal.NSIG):
            before = signal.getsignal(number)
            if callable(before):
                one = Held(number, before)
                stack.callback(one.end)
                signal.signal(number, one.handle)
        yield
