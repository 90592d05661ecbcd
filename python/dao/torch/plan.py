# SPDX-License-Identifier: Apache-2.0
"""A plan of what leaves, when, and when it comes back, by dao/swap.h, from a step that was learnt; and where
a step is in it, by dao/swap_follow.h."""
import bisect
import ctypes
import itertools
import struct
from ctypes import byref, c_void_p

from dao.torch.library import (COMPUTE, HOST_IN, HOST_OUT, READ, WRITE, SwapAction, SwapBound, SwapKernel,
                               SwapPlanConfig, SwapProblem, SwapTensor, SwapTier, SwapUse)

GRANULARITY_WHOLE = 1
ADDRESSES_NONE = 3  # PyTorch's allocator places tensors: a plan counts bytes
PLAN_WORK = 10**6  # some 10 ms of search behind a first plan, for which the training waits


def array_of(kind, members, rows, count):
    """An array of structures with these members, as `struct` has them: a ctypes object a row takes longer,
    and makes Python collect garbage."""
    array = (kind * max(1, count))()
    pack, size_bytes = struct.Struct(members).pack_into, ctypes.sizeof(kind)
    for i, row in enumerate(rows):
        pack(array, i * size_bytes, *row)
    return array


class Problem:
    """dao_swap_problem_t of a step, with what it points to. A storage is written where it may leave first,
    and read where it has to be there from then on; all other bytes stay."""

    def __init__(self, learner, limit_bytes, in_speed, out_speed):
        away, staying_bytes = learner.stays()
        tensors = array_of(SwapTensor, "Q?", ((record.size_bytes, False) for record in learner.records),
                           len(learner.records))
        # of each use a number, of its kernel, its tensor and whether it is written: numbers are never garbage
        codes = sorted((kernel << 32 | record.number) * 2 + (READ if i else WRITE)
                       for record, users in away for i, kernel in enumerate(users))
        counts = [0] * len(staying_bytes)
        for code in codes:
            counts[code >> 33] += 1
        self.ends_again = {  # how many kernels have ended when what was back may go again
            kernel + 1 for _, users in away
            for kernel, following in zip(users[1:], users[2:]) if following > kernel + 1}
        uses = array_of(SwapUse, "Ii", ((code >> 1 & 0xffffffff, code & 1) for code in codes), len(codes))
        address, its_bytes = ctypes.addressof(uses), ctypes.sizeof(SwapUse)
        firsts = itertools.accumulate(counts, initial=0)
        kernels = array_of(SwapKernel, "QQPI?I", (
            (time_ns, bytes_, address + first * its_bytes, count, False, 0) for time_ns, bytes_, first, count
            in zip(learner.times_ns, staying_bytes, firsts, counts)), len(counts))
        self.kept, self.speeds = (tensors, uses, kernels), (in_speed, out_speed)
        self.problem = SwapProblem(
            tensors=tensors, tensor_count=len(learner.records), kernels=kernels, kernel_count=len(counts),
            capacity_bytes=max(0, limit_bytes),
            host=SwapTier(in_bytes_per_second=max(1, int(in_speed)),
                          out_bytes_per_second=max(1, int(out_speed))))

    def bound(self, library):
        bound = SwapBound()
        library.check(library.swap_find_bound(byref(self.problem), byref(bound)))
        return bound


class Plan:
    """A plan, and what of it a step has done."""

    def __init__(self, library, learner, problem):
        self.library, self.handle, self.follower = library, c_void_p(), c_void_p()
        config = SwapPlanConfig(GRANULARITY_WHOLE, ADDRESSES_NONE, work_limit=PLAN_WORK)
        library.check(library.swap_plan_make(byref(problem.problem), byref(config), byref(self.handle)))
        schedule = library.swap_plan_schedule(self.handle)
        library.check(library.swap_follower_create(byref(problem.problem), schedule, byref(self.follower)))
        schedule = schedule.contents
        self.step_ns, self.out_bytes, self.in_bytes = schedule.step_ns, schedule.out_bytes, schedule.in_bytes
        self.starts = sorted({schedule.copies[stream][i].done[COMPUTE] for stream in (HOST_OUT, HOST_IN)
                              for i in range(schedule.copy_count[stream])} | problem.ends_again)
        self.events, self.sizes = learner.events, [record.size_bytes for record in learner.records]
        self.event_count = len(self.events)
        self.kernel_ns = sum(learner.times_ns)
        self.problem = problem
        self.action = SwapAction()
        self.action_at = byref(self.action)

    def __del__(self):
        self.library.swap_follower_destroy(self.follower)
        self.library.swap_plan_destroy(self.handle)

    def begins_as(self, other, event_count, size_count):
        """True if the first hooks are those of another plan, and the storages that they know."""
        return (self.events[:event_count] == other.events[:event_count]
                and self.sizes[:size_count] == other.sizes[:size_count])

    def restart(self):
        self.library.swap_follower_restart(self.follower)

    def end_kernels(self, count):
        """The first `count` kernels of the step have ended."""
        self.library.check(self.library.swap_follower_kernel_end(self.follower, count - 1))

    def end_out(self):
        """The oldest way out under way has ended."""
        self.library.check(self.library.swap_follower_copy_end(self.follower, HOST_OUT))

    def due(self, count):
        """How many kernels have to end until more may move, if `count` have and no way out ends. The
        follower's own answer counts also what is given up as it has left, which happens by itself here."""
        following = bisect.bisect_right(self.starts, count)
        return self.starts[following] if following < len(self.starts) else self.event_count + 1

    def moves(self):
        """What may move by now: the number of a storage, and whether it leaves (HOST_OUT), comes back
        (HOST_IN) or, once it is back, may go again without a copy (COMPUTE). Who needs it waits for its way
        in himself, so that one ends here as it starts; when memory is given up its owner knows."""
        following, action = self.library.swap_follower_next, self.action
        while following(self.follower, self.action_at):
            if action.stream == HOST_IN:
                self.library.check(self.library.swap_follower_copy_end(self.follower, HOST_IN))
            if not action.is_dead:
                yield action.tensor, action.stream
