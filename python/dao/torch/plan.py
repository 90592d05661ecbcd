# SPDX-License-Identifier: Apache-2.0
"""A plan of what leaves, when, and when it comes back, by dao/swap.h, from a step that was learnt."""
from ctypes import POINTER, byref, c_void_p, cast, pointer

from dao.torch.library import (HOST_IN, HOST_OUT, NO_WAIT, LibraryError, SwapBound, SwapCopy,
                               SwapKernel, SwapPlanConfig, SwapProblem, SwapTensor, SwapTier, SwapUse)

GRANULARITY_WHOLE = 1
ADDRESSES_STATIC = 1


class Problem:
    """dao_swap_problem_t of a step, with what it points to."""

    def __init__(self, learner, limit_bytes, in_speed, out_speed):
        accesses = learner.accesses()
        self.always_bytes = min(learner.other_bytes)  # beside the kept storages, in all kernels
        tensors = (SwapTensor * max(1, len(learner.records)))()
        for record in learner.records:
            tensors[record.number] = SwapTensor(record.size_bytes, False)
        uses = (SwapUse * max(1, sum(map(len, accesses))))()
        kernels = (SwapKernel * len(accesses))()
        position = 0
        for kernel, used, time_ns, other in zip(kernels, accesses, learner.times_ns, learner.other_bytes):
            kernel.time_ns, kernel.workspace_bytes = time_ns, other - self.always_bytes
            kernel.uses = cast(byref(uses, position * 8), POINTER(SwapUse))
            kernel.use_count = len(used)
            for number, access in sorted(used.items()):
                uses[position] = SwapUse(number, access)
                position += 1
        self.kept, self.speeds = (tensors, uses, kernels), (in_speed, out_speed)
        self.kernel_count = len(kernels)
        self.problem = SwapProblem(
            tensors=tensors, tensor_count=len(learner.records), kernels=kernels, kernel_count=len(kernels),
            capacity_bytes=max(0, limit_bytes - self.always_bytes),
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
        handle, config = c_void_p(), SwapPlanConfig(GRANULARITY_WHOLE, ADDRESSES_STATIC)
        library.check(library.swap_plan_make(byref(problem.problem), byref(config), byref(handle)))
        try:
            schedule = library.swap_plan_schedule(handle).contents
            copies = [[Copy(schedule.copies[stream][i].tensor, schedule.copies[stream][i].after)
                       for i in range(schedule.copy_count[stream])] for stream in (HOST_OUT, HOST_IN)]
            self.step_ns, self.fluid_step_ns = schedule.step_ns, schedule.fluid_step_ns
            self.out_bytes, self.in_bytes = schedule.out_bytes, schedule.in_bytes
        finally:
            library.swap_plan_destroy(handle)
        self.outs, self.ins = copies
        self.events, self.sizes = learner.events, [record.size_bytes for record in learner.records]
        self.kernel_ns = sum(learner.times_ns)
        self.bound, self.always_bytes = problem.bound(library), problem.always_bytes
        self.speeds = problem.speeds
