# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload(): what is learnt of a step, and the plan that it becomes.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload_plan.py [CASE...]"""
import itertools
from types import SimpleNamespace

from offload_case import Case, main

from dao.torch.learn import Learner
from dao.torch.library import COMPUTE, HOST_IN, HOST_OUT
from dao.torch.plan import Plan, Problem

SIZE = 1000
SPEED = 10**9  # bytes/s: a storage takes 1,000 ns
KERNEL_NS = 2000


def step(events, other_bytes=0):
    """A step as its hooks would tell it: "p3" packs storage 3, "u3" unpacks it, "s3" is when nobody else has
    it any more, "f3" when it is freed. Packs and unpacks end kernels."""
    learner, items = Learner(), {}
    for event in events:
        item = items.setdefault(event[1:], SimpleNamespace(size_bytes=SIZE, record=None))
        if event[0] in "pu":
            learner.note_peak(other_bytes + learner.closed_bytes, 0)
            learner.end_kernel(KERNEL_NS, event)
        {"p": learner.pack, "u": learner.unpack, "s": learner.sole, "f": learner.close}[event[0]](item)
    learner.note_peak(other_bytes + learner.closed_bytes, 0)
    learner.end_kernel(KERNEL_NS, "end")
    return learner


def layers(count):
    """Each layer packs a storage, and the backward pass unpacks them in turn."""
    events = []
    for i in range(count):
        events += [f"p{i}"] + ([f"s{i - 1}"] if i > 0 else [])
    for i in reversed(range(count)):
        events += [f"u{i}"] + ([f"f{i + 1}"] if i + 1 < count else [])
    return events


def followed(plan, kernel_count):
    """Follows a plan whose ways out end at once: the storages that leave, those that come back, and behind
    which kernels memory may be given up."""
    ways = {HOST_OUT: [], HOST_IN: [], COMPUTE: []}
    for ended in range(1, kernel_count + 1):
        plan.end_kernels(ended)
        for number, stream in plan.moves():
            ways[stream].append((number, ended) if stream == COMPUTE else number)
            if stream == HOST_OUT:
                plan.end_out()
    return ways[HOST_OUT], ways[HOST_IN], ways[COMPUTE]


class Learnt(Case):
    def test_a_storage_may_be_away_from_its_last_holder_to_its_first_unpack(self):
        learner = step(["p0", "p1", "s0", "p2", "p3", "u3", "u0", "u1", "f0", "u2"], 50)
        away, staying = learner.stays()
        self.assertEqual([(record.number, kernels) for record, kernels in away], [(0, [2, 6])])
        counts = 0, 1, 1, 2, 3, 3, 3, 4, 3  # of storages 1, 2, 3, and of 0 where it has to be
        self.assertEqual(staying, [50 + SIZE * count for count in counts])

    def test_what_is_freed_is_counted_once_in_its_kernel(self):
        learner, item = Learner(), SimpleNamespace(size_bytes=SIZE, record=None)
        learner.end_kernel(KERNEL_NS, "p")
        learner.pack(item)
        learner.note_peak(50 + SIZE, SIZE)
        learner.close(item)
        learner.note_peak(70 + SIZE, 0)  # as much took its place
        learner.end_kernel(KERNEL_NS, "end")
        self.assertEqual(learner.stays()[1], [0, 70 + SIZE])

    def test_what_somebody_has_all_along_stays(self):
        away, staying = step(["p0", "p1", "u0", "s0", "u1"]).stays()
        self.assertEqual(away, [])
        self.assertEqual(staying, [0, SIZE, 2 * SIZE, 2 * SIZE, 2 * SIZE])

    def test_what_is_unpacked_twice_may_be_away_twice(self):
        """From kernel 4 to 6 somebody has what was unpacked."""
        learner = step(["p0", "s0", "p1", "p2", "u0", "u2", "p0", "s0", "p3", "u3", "u0", "u1"])
        away, staying = learner.stays()
        self.assertEqual([(record.number, kernels) for record, kernels in away], [(0, [1, 4, 5, 6, 9])])
        self.assertEqual(staying, [SIZE * count for count in (0, 0, 1, 2, 2, 2, 2, 3, 3, 3, 4)])


class Planned(Case):
    def plan(self, learner, limit_bytes):
        problem = Problem(learner, limit_bytes, SPEED, SPEED)
        return problem, Plan(self.library, learner, problem)

    def test_a_step_of_many_hooks_states_two_uses_of_a_storage(self):
        learner = step(layers(1000))
        problem, plan = self.plan(learner, 300 * SIZE)
        self.assertLessEqual(sum(kernel.use_count for kernel in problem.kept[2]), 2 * 1000)
        self.assertEqual(plan.out_bytes, plan.in_bytes)
        left, back, given_up = followed(plan, len(learner.times_ns))
        self.assertEqual(sorted(left), sorted(back))
        self.assertEqual(len(set(left)), len(left))
        self.assertGreaterEqual(len(left), 700)
        plan.restart()
        self.assertEqual(followed(plan, len(learner.times_ns)), (left, back, given_up))

    def test_what_is_back_goes_again_without_a_copy(self):
        events = [event for event in layers(40) if event[0] in "ps"]
        for kind in "sf":  # two backward passes of one graph
            for i in reversed(range(40)):
                events += [f"u{i}", f"{kind}{i}"]
        learner = step(events)
        _, plan = self.plan(learner, 13 * SIZE)
        left, back, given_up = followed(plan, len(learner.times_ns))
        self.assertEqual(len(set(left)), len(left))
        self.assertGreater(len(back), len(left) + 20)
        self.assertGreater(len({ended for _, ended in given_up if ended > 40}), 20)

    def test_what_goes_again_is_due(self):
        learner = step(["p0", "s0", "p1", "p2", "p3", "u0", "s0", "u1", "u2", "u3", "u0", "f0"])
        learner.other_bytes[3] = 11 * SIZE  # before each unpack a kernel that leaves no room for it
        learner.other_bytes[8] = 10 * SIZE
        _, plan = self.plan(learner, 13 * SIZE + SIZE // 2)
        given_up = followed(plan, len(learner.times_ns))[2]
        self.assertEqual([number for number, _ in given_up], [0, 0])
        self.assertIn(given_up[1][1], {plan.due(ended) for ended in range(given_up[1][1])})

    def test_a_plan_takes_little_more_than_the_bound_though_it_is_searched_briefly(self):
        events, sizes = layers(500), itertools.cycle(range(1, 64))
        learner = step(events)
        for record in learner.records:
            record.size_bytes = SIZE * next(sizes) // 16
        problem, plan = self.plan(learner, sum(record.size_bytes for record in learner.records) * 6 // 10)
        self.assertGreater(plan.out_bytes, 0)
        self.assertLess(plan.step_ns, 1.01 * problem.bound(self.library).step_ns)

    def test_a_plan_that_is_due_later_has_nothing_before(self):
        learner = step(layers(40))
        _, plan = self.plan(learner, 13 * SIZE)
        due, moved = 0, 0
        for ended in range(1, len(learner.times_ns) + 1):
            plan.end_kernels(ended)
            moves = list(plan.moves())
            for _, stream in moves:
                if stream == HOST_OUT:
                    plan.end_out()
            moves = [move for move in [*moves, *plan.moves()] if move[1] != COMPUTE]
            if moves:
                self.assertGreaterEqual(ended, due)
            moved += len(moves)
            due = plan.due(ended)
        self.assertGreater(moved, 40)

    def test_a_plan_without_moves_has_nothing_due(self):
        learner = step(layers(40))
        _, plan = self.plan(learner, 100 * SIZE)
        self.assertEqual(plan.out_bytes, 0)
        self.assertGreater(plan.due(1), len(learner.events))

    def test_bytes_that_stay_need_no_place(self):
        learner = step(layers(40), 7 * SIZE)
        _, plan = self.plan(learner, 20 * SIZE)
        self.assertGreater(plan.out_bytes, 0)
        _, alone = self.plan(step(layers(40)), 13 * SIZE)
        self.assertEqual(plan.out_bytes, alone.out_bytes)
        self.assertEqual(plan.step_ns, alone.step_ns)


if __name__ == "__main__":
    main()
