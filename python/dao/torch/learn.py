# SPDX-License-Identifier: Apache-2.0
"""What a step does with memory, as its hooks see it. Each call of a hook ends a "kernel"."""
import itertools


class Record:
    """Of a storage that was kept: after which kernel it was packed; `periods` in which nobody else had it, as
    [kernel in which they begin, kernel that unpacks it, None if none did]; in which kernel it was freed."""

    __slots__ = ("number", "size_bytes", "packed", "periods", "freed")

    def __init__(self, number, size_bytes, packed):
        self.number, self.size_bytes, self.packed = number, size_bytes, packed
        self.periods, self.freed = [], None

    def begun(self, count):
        """The same, as far as the first `count` hooks know of it."""
        record = Record(self.number, self.size_bytes, self.packed)
        record.periods = [[begin, needed if needed is not None and needed <= count else None]
                          for begin, needed in self.periods if begin <= count]
        record.freed = self.freed if self.freed is not None and self.freed <= count else None
        return record

    def is_sole(self):
        return bool(self.periods) and self.periods[-1][1] is None

    def away(self, last):
        """Returns the periods in which it may be away, as [(kernel at whose end it may leave, kernel that
        needs it back)], if `last` is the last kernel that it lives in."""
        return [(begin, needed) for begin, needed in self.periods
                if needed is not None and begin < needed <= last]


class Learner:
    """A step's records, and of each kernel its time and the most bytes in use beside the kept storages."""

    def __init__(self):
        self.records = []
        self.events = []  # 2 * record + is_unpack
        self.times_ns = []
        self.other_bytes = []
        self.names = []  # of the operator that packed or unpacked
        self.most_other = 0
        self.closed_bytes = 0  # of storages freed in this kernel, which stays() counts to its end
        self.peak = (0, 0, 0)  # most bytes in use, of these beside the kept storages, the kernel

    def begun(self, count, kernel_count):
        """A learner of a step that has begun as this one and goes on otherwise behind its first `count`
        hooks, when so many kernels have ended."""
        learner = Learner()
        learner.records = [record.begun(count) for record in self.records if record.packed < count]
        learner.events = self.events[:count]
        learner.times_ns, learner.other_bytes, learner.names = (
            values[:kernel_count] for values in (self.times_ns, self.other_bytes, self.names))
        return learner

    def note_peak(self, peak_bytes, resident_bytes):
        self.most_other = max(self.most_other, peak_bytes - resident_bytes - self.closed_bytes)
        self.peak = max(self.peak, (peak_bytes, peak_bytes - resident_bytes, len(self.times_ns)))

    def end_kernel(self, time_ns, name):
        self.times_ns.append(max(time_ns, 0))
        self.other_bytes.append(self.most_other)
        self.names.append(name)
        self.most_other = self.closed_bytes = 0

    def pack(self, item):
        if item.record is None:
            item.record = Record(len(self.records), item.size_bytes, len(self.times_ns) - 1)
            self.records.append(item.record)
        self.events.append(2 * item.record.number)

    def unpack(self, item):
        record = item.record
        if record is None:  # of a step before
            self.events.append(-1)
            return
        if record.is_sole():
            record.periods[-1][1] = len(self.times_ns)
        self.events.append(2 * record.number + 1)

    def sole(self, item):
        if item.record is not None and not item.record.is_sole():
            item.record.periods.append([len(self.times_ns), None])

    def close(self, item):
        if item.record is not None:
            item.record.freed = len(self.times_ns)
            self.closed_bytes += item.size_bytes

    def peak_text(self):
        """Where the most bytes were, and what of them is not what autograd keeps."""
        peak_bytes, other_bytes, kernel = self.peak
        phase = {"pack": "forward", "unpack": "backward"}.get(
            self.names[min(kernel, len(self.names) - 1)],
            "what follows the last hook, such as the optimizer's step")
        return (f"the most was in {phase}; {other_bytes / 1e6:.1f} MB of it "
                f"({100 * other_bytes / max(1, peak_bytes):.0f} %) is not what autograd keeps")

    def signature(self):
        return tuple(self.events), tuple(record.size_bytes for record in self.records)

    def stays(self):
        """Returns which storages may be away, as [(record, kernels that use it)], and of each kernel the
        bytes that stay: of storages that have to be there, and what no hook sees. The first kernel of a
        storage is the one at whose end it may leave; another one needs it back, and so do those behind it in
        which somebody has it. As long as somebody else has a storage he may write to it, and not only through
        tensors whose versions tell: parts of unsafe_chunk() have versions of their own. So its bytes are its
        last ones once nobody else has it. Behind its last unpack it is left in memory until it is freed."""
        count = len(self.times_ns)
        away, changes = [], [0] * (count + 1)  # of bytes that have to be there, between two kernels
        for record in self.records:
            first = record.packed + 1
            last = count - 1 if record.freed is None else min(record.freed, count - 1)
            if first > last:
                continue
            changes[first] += record.size_bytes
            changes[last + 1] -= record.size_bytes
            periods = record.away(last)
            if periods:
                kernels = [periods[0][0]]
                for (_, needed), (final, _) in zip(periods, periods[1:]):
                    kernels += range(needed, final + 1)
                kernels.append(periods[-1][1])
                away.append((record, kernels))
                changes[kernels[0]] -= record.size_bytes
                changes[kernels[-1] + 1] += record.size_bytes
        return away, [other + held for other, held in zip(self.other_bytes, itertools.accumulate(changes))]
