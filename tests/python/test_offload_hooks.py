# SPDX-License-Identifier: Apache-2.0
"""The hooks of dao.torch.offload() in C, in steps that follow a plan: they take the calls that are as
planned, and do what those in Python do.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload_hooks.py"""
import os
import subprocess
import sys
import unittest
from unittest import mock

from offload_case import SIDE, Case, Wide, main

import torch

from dao.torch import fields
from dao.torch.offload import Offload

CHAIN = 8  # storages that a step of Counted.step() keeps


def losses(folder):
    """Steps that are learnt and followed, some of them others than planned, in half of what they need."""
    torch.manual_seed(1)
    model = Wide()
    optimizer = torch.optim.Adam(model.parameters())
    values = []
    with dao.torch.offload(model, optimizer, "24MiB", f"file:{folder}") as o:
        for step in range(10):
            with o.step():
                loss = model(torch.randn(4 if step == 6 else 8, 3, 48, 48)).square().sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            values.append(loss.item().hex())
    return values, o.planned_count, o.report()


@unittest.skipIf(fields.native is None, f"hooks in C: {fields.why_python}")
class Counted(Case):
    def setUp(self):
        super().setUp()
        self.calls = {"pack": 0, "unpack": 0}
        for name in self.calls:
            patch = mock.patch.object(Offload, name, self.counting(name, getattr(Offload, name)))
            patch.start()
            self.addCleanup(patch.stop)

    def counting(self, name, method):
        def call(o, argument):
            self.calls[name] += 1
            return method(o, argument)
        return call

    def step(self, o, between=lambda kept: None):
        """Returns the gradient of a chain of operators; `between` has what these have made."""
        x = torch.full((SIDE, SIDE), 0.5, requires_grad=True)
        with o.step():
            made = [x]
            for _ in range(CHAIN):
                made.append(made[-1].sin())
            between(made)
            made[-1].sum().backward()
        return x.grad

    def planned(self):
        o = self.offload()
        for _ in range(3):
            self.step(o)
        self.assertEqual(o.planned_count, 1)
        self.calls.update(pack=0, unpack=0)
        return o

    def assert_nothing_kept(self, o):
        self.assertEqual((o.stash.by_key, o.stash.resident, o.stash.shared, o.stash.resident_bytes),
                         ({}, {}, {}, 0))

    def test_calls_as_planned_are_not_pythons(self):
        o = self.planned()
        self.step(o)
        self.assertEqual(self.calls, {"pack": 1, "unpack": 0})  # the first one tells which plan it is
        self.assertEqual(o.planned_count, 2)
        self.assert_nothing_kept(o)

    def test_a_call_that_is_not_the_plans_is_pythons(self):
        o = self.planned()
        self.step(o, lambda made: made[-1].reshape(-1)[:SIDE * SIDE // 2].sin())
        self.assertEqual(self.calls, {"pack": 2, "unpack": CHAIN})  # the first one, and that call
        self.assertEqual(o.deviated_count, 1)
        self.assert_nothing_kept(o)

    def test_what_was_changed_in_place_raises_in_a_planned_step(self):
        o = self.planned()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            self.step(o, lambda made: made[-2].add_(1))
        self.assertTrue(torch.equal(self.step(o), self.step(o)))

    def test_one_that_has_left_in_a_planned_step_comes_back(self):
        o = self.planned()
        expected = self.step(o)

        def leave(made):
            del made[1:-1]
            o.stash.relieve(2**62)
            self.assertGreater(len(o.stash.away), 0)

        self.assertTrue(torch.equal(self.step(o, leave), expected))
        self.assert_nothing_kept(o)

    def test_waiting_for_what_is_on_its_way_out_evicts_nothing(self):
        o = self.planned()

        def leave(made):
            del made[1:-1]
            stash = o.stash
            before = stash.evicted_count
            self.assertTrue(stash.start_out(list(stash.resident)[1]))  # the first is held here
            self.assertGreater(stash.relieve(1), 0)
            self.assertEqual((len(stash.away), stash.evicted_count), (1, before))
            self.assertGreater(stash.relieve(1), 0)
            self.assertEqual((len(stash.away), stash.evicted_count), (2, before + 1))

        self.step(o, leave)

    def test_what_is_never_unpacked_ends_with_its_graph(self):
        o = self.planned()
        x = torch.full((SIDE, SIDE), 0.5, requires_grad=True)
        with o.step():
            y = x.sin()
            self.assertEqual(len(o.stash.resident), 1)
            del y
            self.assert_nothing_kept(o)

    def test_a_graph_that_outlives_its_step_ends_later(self):
        o = self.planned()
        x = torch.full((SIDE, SIDE), 0.5, requires_grad=True)
        with o.step():
            y = x.sin()
        self.assertEqual(len(o.stash.resident), 1)
        y.sum().backward()
        del y
        self.assert_nothing_kept(o)
        self.assertTrue(torch.equal(x.grad, x.detach().cos()))

    def test_hooks_in_python_learn_the_same(self):
        in_c, planned_count, report = losses(self.folder)
        self.assertGreater(planned_count, 3)
        self.assertNotIn("hooks are Python", report)
        answer = subprocess.run(
            [sys.executable, __file__, "--losses", self.folder], check=True, capture_output=True, text=True,
            env={**os.environ, "LIBDAO_TORCH_HOOKS": ""})
        *in_python, last = answer.stdout.splitlines()
        self.assertEqual(last, "hooks are Python, and dearer than those in C: LIBDAO_TORCH_HOOKS says so")
        self.assertEqual(in_python, in_c)


class Found(unittest.TestCase):
    def test_one_that_is_not_there_is_said(self):
        with mock.patch.dict(os.environ, LIBDAO_TORCH_HOOKS="/nowhere/libdao_torch_hooks.so"):
            native, why = fields.find_native()
        self.assertIsNone(native)
        self.assertIn("not found (/nowhere", why)

    @unittest.skipIf(fields.native is None, f"hooks in C: {fields.why_python}")
    def test_one_of_another_version_is_not_taken(self):
        with mock.patch.object(fields, "VERSION", fields.VERSION + 1):
            native, why = fields.find_native()
        self.assertIsNone(native)
        self.assertIn("another version", why)


if __name__ == "__main__":
    import dao.torch
    if "--losses" in sys.argv:
        torch.set_num_threads(1)
        values, _, report = losses(sys.argv[-1])
        print("\n".join([*values, *(line for line in report.splitlines() if "Python" in line)]))
    else:
        main()
