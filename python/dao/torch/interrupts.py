# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in a step. Python raises KeyboardInterrupt between any two lines, also of what C calls: of a hook
that ends, or of memory that is asked for. There it would be lost, or leave bytes half moved. So it waits,
while this package's own code runs, until that has ended, and is raised where the program is then."""
import _thread
import contextlib
import os
import signal
import threading
import time

PACKAGE = os.path.dirname(__file__)
RETRY_S = 0.001


def is_in_package(frame):
    """True if a frame is of this package, or was called by one; or is one that enters or leaves a step."""
    if frame.f_code.co_filename == contextlib.__file__:
        return True
    while frame is not None and os.path.dirname(frame.f_code.co_filename) != PACKAGE:
        frame = frame.f_back
    return frame is not None


def raise_later(number):
    time.sleep(RETRY_S)
    signal.raise_signal(number)  # whichever thread raises it, the main thread gets it


@contextlib.contextmanager
def held():
    """Ctrl-C does not interrupt this package. Other threads than the main one are never interrupted."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def handle(number, frame):
        if is_in_package(frame):
            _thread.start_new_thread(raise_later, (number,))
        else:
            before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handle:  # else the program has one of its own now
            signal.signal(signal.SIGINT, before)
