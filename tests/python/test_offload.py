# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload(): steps within a limit learn the same as steps without.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload.py [CASE...]"""
import functools
import os
import sys
from unittest import mock

from offload_case import Case, SIDE, Wide, leave, main

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import dao.torch
from dao.torch import library
from dao.torch.offload import bytes_of
from models import make_step


class Recomputing(Wide):
    """The same, whose layers are run again for the backward pass."""

    def __init__(self, is_reentrant):
        super().__init__()
        for layer in self.layers:
            layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=is_reentrant)


class Training(Case):
    """Whole steps."""

    def setUp(self):
        super().setUp()
        self.batches = {}
        self.kind = Wide

    def batch(self, count):
        if count not in self.batches:
            torch.manual_seed(count)
            self.batches[count] = torch.randn(count, 3, 28, 28), torch.randint(10, (count,))
        return self.batches[count]

    def make(self):
        torch.manual_seed(1)
        model = self.kind()
        return model, torch.optim.Adam(model.parameters())

    def train(self, model, optimizer, count=32):
        x, y = self.batch(count)
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    peaks = {}

    def peak(self):
        """The most bytes of a step without a limit, and the losses of some: once for each kind of model."""
        self.library.check(self.library.trim(library.HOST, 0, None))
        if self.kind not in self.peaks:
            model, optimizer = self.make()
            self.library.check(self.library.stats_reset_peaks(library.HOST))
            losses = [self.train(model, optimizer) for _ in range(8)]
            self.peaks[self.kind] = self.library.stats().peak_used_bytes, losses
        return self.peaks[self.kind]

    def within(self, share, to):
        peak_bytes, losses = self.peak()
        self.losses = losses
        model, optimizer = self.make()
        limit_bytes = int(peak_bytes * share)
        o = self.offload(model, optimizer, limit_bytes, to)
        for i, loss in enumerate(losses):
            self.library.check(self.library.stats_reset_peaks(library.HOST))
            with o.step():
                self.assertEqual(self.train(model, optimizer), loss, f"step {i} at {share}")
            self.assertLessEqual(o.figures["peak_bytes"], limit_bytes)
            self.assertLessEqual(self.library.stats().peak_reserved_bytes, limit_bytes)
        return o

    def test_losses_are_the_same_within_any_limit(self):
        for share in (1.1, 0.8, 0.6):
            with self.subTest(share=share):
                o = self.within(share, f"file:{self.folder}")
                self.assertEqual(o.planned_count, 6, o.report())
                self.assertEqual(o.deviated_count, 0)
                self.assertEqual(o.figures["out_bytes"] > 0, share < 1)
                o.close()

    def test_planned_steps_fetch_nothing_on_demand(self):
        o = self.within(0.7, f"file:{self.folder}")
        self.assertEqual((o.figures["fetch_count"], o.figures["evicted_count"]), (0, 0), o.report())
        report = o.report()
        for word in ("limit", "written a day", "forecast", "bound", "waited", "autograd keeps", "bind",
                     "nothing moves", "GB/s in"):
            self.assertIn(word, report)

    def test_layers_that_are_run_again_learn_the_same(self):
        """What PyTorch 1.13 keeps for layers that are not re-entrant no hook sees: it stays."""
        peak_bytes, losses = self.peak()
        for is_reentrant, share in ((True, 0.8), (False, 1.1)):
            with self.subTest(is_reentrant=is_reentrant):
                self.kind = functools.partial(Recomputing, is_reentrant)
                o = self.within(share, f"file:{self.folder}")
                self.assertEqual(self.losses, losses)
                self.assertLess(o.limit_bytes, peak_bytes)
                self.assertEqual(o.figures["out_bytes"] > 0, share < 1)
                o.close()

    def test_pinned_memory_and_a_file_behind_it(self):
        for to in ("pinned", f"pinned:1MB,file:{self.folder}"):
            with self.subTest(to=to):
                o = self.within(0.7, to)
                self.assertGreater(o.figures["out_bytes"], 0)
                o.close()

    def test_deviations_stay_within_the_limit_and_the_plan_goes_on(self):
        peak_bytes, _ = self.peak()
        model, optimizer = self.make()
        o = self.offload(model, optimizer, int(peak_bytes * 0.7))
        plain, plain_optimizer = self.make()
        x, _ = self.batch(32)

        def both(function):
            with o.step():
                result = function(model, optimizer)
            return result

        def evaluate(model, optimizer):
            model.eval()
            with torch.no_grad():
                value = model(x).sum().item()
            model.train()
            return value

        def fail(model, optimizer):
            model.layers[3].register_forward_pre_hook(stop)
            model(x)

        def stop(module, args):
            module._forward_pre_hooks.clear()
            raise KeyError("in the middle")

        def two_graphs(model, optimizer):
            optimizer.zero_grad(set_to_none=True)
            first, second = model(x).square().mean(), model(x * 0.5).square().mean()
            second.backward()
            first.backward()
            optimizer.step()
            return first.item() + second.item()

        steps = [self.train] * 4 + [lambda m, p: self.train(m, p, 16), evaluate, self.train, two_graphs,
                                    self.train, fail, self.train, self.train]
        with_limit = []
        for step in steps:
            self.library.check(self.library.stats_reset_peaks(library.HOST))
            try:
                with_limit.append(both(step))
            except KeyError:
                with_limit.append("stopped")
            self.assertLessEqual(self.library.stats().peak_reserved_bytes, o.limit_bytes)
        planned = o.planned_count
        self.assertGreaterEqual(planned, 4, o.report())
        o.close()
        without = []
        for step in steps:
            try:
                without.append(step(plain, plain_optimizer))
            except KeyError:
                without.append("stopped")
        self.assertEqual(with_limit, without)

    def test_a_shape_that_begins_like_another_gets_its_plan(self):
        model, optimizer = self.make()
        o = self.offload(model, optimizer)
        for depth, planned in ((6, 2), (3, 2), (6, 2)):
            layers = model.layers
            model.layers = layers[:depth]
            before = o.planned_count
            for _ in range(6):
                with o.step():
                    self.train(model, optimizer, 4)
            model.layers = layers
            self.assertGreaterEqual(o.planned_count - before, planned, f"{depth} layers")
        self.assertEqual(len(o.plans), 2)

    def test_shapes_in_turns_get_plans(self):
        peak_bytes, _ = self.peak()
        model, optimizer = self.make()
        o = self.offload(model, optimizer, int(peak_bytes * 0.8))
        for i in range(9):
            with o.step():
                self.train(model, optimizer, (16, 32, 24)[i % 3])
        self.assertEqual((len(o.plans), o.planned_count), (3, 3), o.report())

    def test_shapes_that_never_come_again_leave_nothing_behind(self):
        model, optimizer = self.make()
        sides = range(40, 46)
        with self.offload(model, optimizer) as o:
            with o.step():
                model(torch.randn(4, 3, sides[-1], sides[-1])).sum().backward()
            peak_bytes = o.figures["peak_bytes"]
        o = self.offload(model, optimizer, int(peak_bytes * 0.8))
        for side in sides:
            with o.step():
                model(torch.randn(4, 3, side, side)).sum().backward()
            self.assertEqual((len(o.stash.resident), len(o.stash.away), len(o.stash.leaving)), (0, 0, 0))
        self.assertGreater(o.stash.drop_count, 0)

    def test_a_limit_that_cannot_work_says_what_would(self):
        peak_bytes, _ = self.peak()
        model, optimizer = self.make()
        o = self.offload(model, optimizer, int(peak_bytes * 0.15))
        text = "at least .* MB.*cannot leave.*The operator is in"
        with self.assertRaisesRegex(dao.torch.OffloadError, text):
            with o.step():
                self.train(model, optimizer)

    def test_other_models_learn_the_same(self):
        from models import Net, Text
        for kind in (Net, Text):
            model, step = make_step(kind)
            losses = [step() for _ in range(4)]
            model, step = make_step(kind)
            o = self.offload(model)
            with_hooks = []
            for _ in range(4):
                with o.step():
                    with_hooks.append(step())
            self.assertEqual(losses, with_hooks)
            o.close()


class Refusals(Case):
    def test_sizes_have_the_units_of_the_command(self):
        for text, size_bytes in (("100", 100), ("100B", 100), ("8G", 8 << 30), ("8gb", 8 * 10**9),
                                 ("8Gi", 8 << 30), ("8GiB", 8 << 30), ("500M", 500 << 20),
                                 ("500 MB", 500 * 10**6), ("1.5kB", 1500), ("2T", 2 << 40)):
            self.assertEqual(bytes_of(text, "the limit"), size_bytes)

    def test_sizes_and_targets_that_are_none(self):
        for limit in ("8 parsecs", "-1GB", "", "0", 0, -5, True, None, 1.5, "1e400", "infGB", "nanGB",
                      2**63, "99999999TiB"):
            with self.assertRaisesRegex(ValueError, "is no size"):
                self.offload(limit=limit)
        for to in ("tape", "file:", "pinned:much", "pinned:0", "", [], None, 7, [7]):
            with self.assertRaises(ValueError):
                self.offload(to=to)

    def test_what_is_wrong_is_found_before_the_allocator_is_pytorchs(self):
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        cases = ((model, optimizer, "file:/no/such/folder", ValueError, "/no/such/folder is no directory"),
                 (model, optimizer, f"file:{__file__}", ValueError, "is no directory"),
                 (model, model, "pinned", TypeError, "the optimizer is a Linear"),
                 (optimizer, model, "pinned", TypeError, "the model is a SGD"))
        with mock.patch.object(library, "load", side_effect=AssertionError("loaded already")):
            for *models, to, error, words in cases:
                with self.assertRaisesRegex(error, words):
                    self.offload(*models, to=to)

    def test_a_limit_below_what_is_live(self):
        live = torch.zeros(500_000)
        with self.assertRaisesRegex(dao.torch.OffloadError, "limit of 1.0 MB cannot be set.*raise the limit"):
            self.offload(limit="1MB")
        self.assertEqual(self.library.stats().limit_bytes, 0)
        self.assertEqual(live.sum(), 0)

    def test_what_began_ends_where_the_rest_cannot_begin(self):
        model = nn.Linear(SIDE, SIDE)
        attributes = set(vars(model))
        self.offload().close()  # what starts once has started
        threads = len(os.listdir("/proc/self/task"))
        module = sys.modules["dao.torch.offload"]  # dao.torch.offload is the function
        with mock.patch.object(module, "State", side_effect=MemoryError("no state")):
            with self.assertRaisesRegex(MemoryError, "no state"):
                self.offload(model)
        self.assertEqual(len(os.listdir("/proc/self/task")), threads)
        self.assertEqual(set(vars(model)), attributes)
        self.assertIs(type(model._parameters), type(nn.Module()._parameters))
        self.offload(model).close()

    def test_steps_in_steps_and_after_the_end(self):
        o = self.offload()
        with o.step():
            with self.assertRaisesRegex(dao.torch.OffloadError, "in a step already"):
                with o.step():
                    pass
            with self.assertRaisesRegex(dao.torch.OffloadError, "a step is under way"):
                o.close()
        o.close()
        with self.assertRaisesRegex(dao.torch.OffloadError, "closed"):
            with o.step():
                pass
        self.assertEqual(self.library.stats().limit_bytes, 0)

    def test_a_graph_outlives_the_offload(self):
        o = self.offload()
        b = torch.randn(SIDE, SIDE, requires_grad=True)
        with o.step():
            loss = b.exp().sum()
            leave(o)
        o.close()
        loss.backward()
        self.assertTrue(torch.equal(b.grad, b.exp()))

    def test_a_file_that_takes_no_more_keeps_what_it_has(self):
        o = self.offload(to="pinned:200KB")
        b = torch.randn(SIDE, SIDE, requires_grad=True)
        with o.step():
            loss = b.exp().sin().cos().sum()
            leave(o)  # one storage has room
            self.assertIn("have no room", o.stash.refused)
            loss.backward()
        self.assertTrue(torch.allclose(b.grad, -b.exp().sin().sin() * b.exp().cos() * b.exp()))


if __name__ == "__main__":
    main()
