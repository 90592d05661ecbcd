# SPDX-License-Identifier: Apache-2.0
"""A plan of what leaves, when, and when it comes back, by dao/swap.h, from a step that was learnt."""
import ctypes
import itertools
from ctypes import byref, c_void_p

from dao.torch.library import (HOST_IN, HOST_OUT, NO_WAIT, READ, WRITE, SwapBound, SwapKernel,
                               SwapPlanConfig, SwapProblem, SwapTensor, SwapTier, SwapUse)

GRANULARITY_WHOLE = 1
ADDRESSES_NONE = 3  # PyTorch's allocator places tensors: a plan counts bytes


class Problem:
    """dao_swap_problem_t of a step, with what it points to. A storage is written where it may leave first,
    and read where it is needed back; all other bytes stay."""

    def __init__(self, learner, limit_bytes, in_speed, out_speed):
        away, staying_bytes = learner.stays()
        tensors = (SwapTensor * max(1, len(learner.records)))()
        used = [[] for _ in staying_bytes]
        for record in learner.records:
            tensors[record.number] = SwapTensor(record.size_bytes, False)
        for record, final, needed in away:
            used[final].append((record.number, WRITE))
            used[needed].append((record.number, READ))
        uses = (SwapUse * max(1, 2 * len(away)))(*itertools.chain.from_iterable(used))
        address, position, kernels = ctypes.addressof(uses), 0, []
        for time_ns, bytes_, its in zip(learner.times_ns, staying_bytes, used):
            kernels.append((time_ns, bytes_, address + position * ctypes.sizeof(SwapUse), len(its)))
            position += len(its)
        kernels = (SwapKernel * len(kernels))(*kernels)
        self.kept, self.speeds = (tensors, uses, kernels), (in_speed, out_speed)
        self.problem = SwapProblem(
            tensors=tensors, tensor_count=len(learner.records), kernels=kernels, kernel_count=len(kernels),
            capacity_bytes=max(0, limit_bytes),
            host=SwapTier(in_bytes_per_second=max(1, int(in_speed)),
                          out_bytes_per_second=max(1, int(out_speed))))

    def bound(self, library):
        bound = SwapBound()
        library.check(library.swap_find_bound(byref(self.problem), byref(bound)))
        return bound


class Copy:
    """A whole storage's way: it may start after `kernels` kernels and `outs` ways out of the step."""

    __slots__ = ("number", "kernels", "outs")

    def __init__(self, number, fence):
        self.number = number
        self.kernels = max(0, fence.done[0]) if fence.done[0] != NO_WAIT else 0
        self.outs = max(0, fence.done[HOST_OUT]) if fence.done[HOST_OUT] != NO_WAIT else 0


class Plan:
    """The copies of a step, in the order in which they start."""

    def __init__(self, library, learner, problem):
        handle, config = c_void_p(), SwapPlanConfig(GRANULARITY_WHOLE, ADDRESSES_NONE)
        library.check(library.swap_plan_make(byref(problem.problem), byref(config), byref(handle)))
        try:
            schedule = library.swap_plan_schedule(handle).contents
            copies = [[Copy(schedule.copies[stream][i].tensor, schedule.copies[stream][i].after)
                       for i in range(schedule.copy_count[stream])] for stream in (HOST_OUT, HOST_IN)]
            self.step_ns = schedule.step_ns
            self.out_bytes, self.in_bytes = schedule.out_bytes, schedule.in_bytes
        finally:
            library.swap_plan_destroy(handle)
        self.outs, self.ins = copies
        self.events, self.sizes = learner.events, [record.size_bytes for record in learner.records]
        self.kernel_ns = sum(learner.times_ns)
        self.problem = problem
