# SPDX-License-Identifier: Apache-2.0
"""When operators run: on the host by its clock, on a device by events in their streams."""
import time

import torch


class HostClock:
    def begin(self):
        self.zero = time.perf_counter()

    def run(self, op, function, args, kwargs):
        begin = time.perf_counter()
        result = function(*args, **kwargs)
        op.begin_us, op.cost_us = (begin - self.zero) * 1e6, (time.perf_counter() - begin) * 1e6
        return result

    def end(self):
        pass


class DeviceClock:
    """Times are read at the end, so that no operator waits for one before it."""

    def begin(self):
        self.events = []  # (Operator, begin, end)
        self.streams = {}  # handle -> number
        self.zero = self.mark(torch.cuda.current_stream())

    def mark(self, stream):
        event = torch.cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def run(self, op, function, args, kwargs):
        stream = torch.cuda.current_stream()
        op.stream = self.streams.setdefault(stream.cuda_stream, len(self.streams))
        begin = self.mark(stream)
        result = function(*args, **kwargs)
        self.events.append((op, begin, self.mark(stream)))
        return result

    def end(self):
        torch.cuda.synchronize()
        for op, begin, end in self.events:
            op.begin_us = self.zero.elapsed_time(begin) * 1e3
            op.cost_us = begin.elapsed_time(end) * 1e3
