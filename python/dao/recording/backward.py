# SPDX-License-Identifier: Apache-2.0
"""Whether autograd's backward pass is what runs an operator."""
import sys
import threading

import torch

ENTRIES = {torch.autograd.backward.__code__, torch.autograd.grad.__code__}


def is_in_backward(forward_thread):
    """A function that runs backward passes is on the stack; or this is one of autograd's own threads,
    which have no other stack of Python's."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code in ENTRIES:
            return True
        frame = frame.f_back
    return threading.get_ident() != forward_thread
