# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload(): steps within a limit learn the same as steps without, and what went wrong elsewhere.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload.py [CASE...]

Exits with 77, which ctest reports as skipped, without PyTorch."""
import copy
import functools
import gc
import os
import pickle
import sys
import tempfile
import threading
import unittest

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed (python3-torch)")
    sys.exit(77)

from torch import nn
from torch.utils.checkpoint import checkpoint

import dao.torch
from dao.torch import library
from models import make_step

SIDE = 200  # of the matrices of the small cases: 160,000 bytes each, which is enough to leave
EVERYTHING = 2**62
LIMIT_OF_PAGES = 4 << 20  # for pages of 64 KiB: the limits here are small


class Wide(nn.Module):
    """Layers with much to keep, a skip over all of them, and a batch norm."""

    def __init__(self, width=32, depth=6):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
            for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        skip = x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.head((x + skip).mean((2, 3)))


class Case(unittest.TestCase):
    def setUp(self):
        gc.collect()
        self.library = library.load(LIMIT_OF_PAGES)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def offload(self, model=None, optimizer=None, limit="1GiB", to=None):
        model = model or nn.Linear(2, 2)
        optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
        o = dao.torch.offload(model, optimizer, limit, to or f"file:{self.folder}")
        self.addCleanup(o.close)
        return o


def leave(o):
    """All that can leave leaves."""
    o.stash.relieve(EVERYTHING)


class Training(Case):
    """Whole steps."""

    def setUp(self):
        super().setUp()
        self.batches = {}

    def batch(self, count):
        if count not in self.batches:
            torch.manual_seed(count)
            self.batches[count] = torch.randn(count, 3, 40, 40), torch.randint(10, (count,))
        return self.batches[count]

    def make(self):
        torch.manual_seed(1)
        model = Wide()
        return model, torch.optim.Adam(model.parameters())

    def train(self, model, optimizer, count=32):
        x, y = self.batch(count)
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def peak(self):
        """The most bytes of a step without a limit, and the losses of some."""
        self.library.check(self.library.trim(library.HOST, 0, None))
        model, optimizer = self.make()
        self.library.check(self.library.stats_reset_peaks(library.HOST))
        losses = [self.train(model, optimizer) for _ in range(8)]
        return self.library.stats().peak_used_bytes, losses

    def within(self, share, to):
        peak_bytes, losses = self.peak()
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
        for word in ("limit", "written a day", "forecast", "bound", "waited", "no hook", "bind",
                     "nothing moves", "GB/s in"):
            self.assertIn(word, report)

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

    def test_a_limit_that_cannot_work_says_what_would(self):
        peak_bytes, _ = self.peak()
        model, optimizer = self.make()
        o = self.offload(model, optimizer, int(peak_bytes * 0.15))
        text = "at least .* MB.*cannot leave.*The operator is in"
        with self.assertRaisesRegex(dao.torch.OffloadError, text):
            with o.step():
                self.train(model, optimizer)

    def test_what_would_fit_in_one_piece_is_told_apart(self):
        o = self.offload(limit="12MB")
        o.holders = {"needed": 1_500_000, "used": 6_000_000, "sums": {"gradients": 6_000_000},
                     "reserved": 5 * 2**21, "hole": 1_400_000}
        try:
            raise RuntimeError("no memory")
        except RuntimeError as error:
            with_holes = o.explain(error)
            o.holders["used"] = 11_000_000
            without = o.explain(error)
        self.assertIn("the largest hole between tensors has 1.4 MB. A limit of 12.6 MB", with_holes)
        self.assertNotIn("hole", without)

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


class StateLeaves(Case):
    """The optimizer's state between its uses."""

    def train(self, model, optimizer):
        optimizer.zero_grad(set_to_none=True)
        torch.manual_seed(7)
        loss = model(torch.randn(8, 900)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    def make(self, kind=torch.optim.Adam, **options):
        torch.manual_seed(1)
        model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(900, 900), nn.Tanh())))
        return model, kind(model.parameters(), lr=0.01, **options)

    def losses(self, count, *arguments, **options):
        model, optimizer = self.make(*arguments, **options)
        return [self.train(model, optimizer) for _ in range(count)]

    def test_steps_learn_the_same_with_room_for_a_part_of_the_state(self):
        weights_bytes = 8 * 900 * 901 * 4
        for kind, options in ((torch.optim.Adam, {}), (torch.optim.SGD, {"momentum": 0.9}),
                              (torch.optim.AdamW, {"amsgrad": True})):
            with self.subTest(kind=kind.__name__):
                expected = self.losses(3, kind, **options)
                self.library.check(self.library.trim(library.HOST, 0, None))
                model, optimizer = self.make(kind, **options)
                limit_bytes = 3 * weights_bytes  # weights, gradients, and a part of the state
                o = self.offload(model, optimizer, limit_bytes)
                found = []
                for _ in range(3):
                    self.library.check(self.library.stats_reset_peaks(library.HOST))
                    with o.step():
                        found.append(self.train(model, optimizer))
                    self.assertLessEqual(self.library.stats().peak_reserved_bytes, limit_bytes)
                self.assertEqual(found, expected)
                self.assertGreater(o.state.left_bytes, 0)
                o.close()
                self.assertEqual(self.train(model, optimizer), self.losses(4, kind, **options)[-1])
                del model, optimizer
                gc.collect()

    def test_state_dicts_have_all_of_it(self):
        model, optimizer = self.make()
        self.train(model, optimizer)
        expected = [value.clone() for state in optimizer.state.values() for value in state.values()]
        o = self.offload(model, optimizer)
        with o.step():
            pass
        o.state.note_all()
        o.state.relieve(EVERYTHING)
        self.assertGreater(o.state.away_bytes, 0)
        saved = optimizer.state_dict()
        self.assertEqual(o.state.away_bytes, 0)
        found = [value for state in saved["state"].values() for value in state.values()]
        self.assertTrue(all(map(torch.equal, expected, found)))
        o.state.relieve(EVERYTHING)
        optimizer.load_state_dict(saved)
        self.assertTrue(all(map(torch.equal, expected, [
            value for state in optimizer.state.values() for value in state.values()])))

    def compare_states(self, found, expected, where):
        for parameter, values in found.items():
            for name, value in values.items():
                self.assertTrue(torch.equal(value, expected[parameter][name]), f"{where}, {name}")

    def test_whoever_reads_state_finds_it(self):
        model, optimizer = self.make()
        self.train(model, optimizer)
        first = next(model.parameters())
        expected = {p: {name: value.clone() for name, value in values.items()}
                    for p, values in optimizer.state.items()}
        own = optimizer.state
        o = self.offload(model, optimizer)
        with o.step():
            pass
        o.state.note_all()
        readings = (
            lambda: {first: optimizer.state[first]},
            lambda: {first: optimizer.state.get(first)},
            lambda: dict(optimizer.state.items()),
            lambda: dict(zip(optimizer.state, optimizer.state.values())),
            lambda: dict(optimizer.state),
            lambda: {**optimizer.state},
            lambda: copy.copy(optimizer.state),
            lambda: dict(zip(model.parameters(), copy.deepcopy(optimizer).state.values())),
            lambda: {} if "exp_avg" in repr(optimizer.state) else None,
            lambda: pickle.loads(pickle.dumps(optimizer.state)) and {},
        )
        for i, read in enumerate(readings):
            gc.collect()
            o.state.relieve(EVERYTHING)
            self.assertGreater(o.state.away_bytes, 0)
            self.compare_states(read(), expected, f"reading {i}")
        held = optimizer.state[first]["exp_avg"]
        values = optimizer.state[model[2].weight]
        o.state.relieve(EVERYTHING)  # what somebody has stays
        self.assertTrue(torch.equal(held, expected[first]["exp_avg"]))
        self.assertTrue(torch.equal(values["exp_avg_sq"], expected[model[2].weight]["exp_avg_sq"]))
        o.close()
        self.assertIs(optimizer.state, own)
        self.assertEqual(len(own), len(expected))

    def test_a_schedule_of_learning_rates_goes_on(self):
        found = []
        for is_within, is_before in ((False, False), (True, False), (True, True)):
            model, optimizer = self.make()
            if is_before:
                schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
            o = self.offload(model, optimizer)
            if not is_before:
                schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
            if not is_within:
                o.close()
            losses = []
            for _ in range(5):
                if is_within:
                    with o.step():
                        losses.append(self.train(model, optimizer))
                    o.state.relieve(EVERYTHING)
                else:
                    losses.append(self.train(model, optimizer))
                schedule.step()
            found.append(losses)
            o.close()
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])

    def test_what_the_optimizer_has_goes_with_it(self):
        model, optimizer = self.make()
        own = type(optimizer).step
        o = self.offload(model, optimizer)
        o.close()
        self.assertIs(optimizer.step.__func__, own)


class Habits(Case):
    """What programs do around a step."""

    def make(self):
        torch.manual_seed(1)
        model = nn.ModuleList(nn.Linear(SIDE, SIDE) for _ in range(6))
        return model, torch.optim.Adam(model.parameters())

    def loss(self, model, seed, count=400):
        x = torch.randn(count, SIDE, generator=torch.Generator().manual_seed(seed))
        for layer in model:
            x = x + nn.functional.relu(layer(x), inplace=True)
        return x.square().mean()

    def plain(self, model, optimizer, i):
        optimizer.zero_grad()
        loss = self.loss(model, i % 2)
        loss.backward()
        optimizer.step()
        return loss.item()

    def gathers(self, model, optimizer, i):
        losses = [self.loss(model, 4 * i + k) / 4 for k in range(2)]
        for loss in losses:
            loss.backward()
        if i % 2 == 1:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return [loss.item() for loss in losses]

    def half(self, model, optimizer, i):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.loss(model, i % 2)
        loss.backward()
        optimizer.step()
        return loss.item()

    def tied(self, model, optimizer, i):
        model[3].weight = model[0].weight
        return self.plain(model, optimizer, i)

    def listens(self, model, optimizer, i):
        seen = []
        handles = [module.register_forward_hook(lambda m, x, y: seen.append(y.detach().sum().item()))
                   for module in model]
        handles.append(model[2].weight.register_hook(lambda grad: grad * 0.5))
        seen.append(self.plain(model, optimizer, i))
        for handle in handles:
            handle.remove()
        return seen

    def fails_backward(self, model, optimizer, i):
        if i != 3:
            return self.plain(model, optimizer, i)
        handle = model[3].weight.register_hook(lambda grad: [].pop())
        try:
            self.loss(model, 0).backward()
        except IndexError:
            return "failed"
        finally:
            handle.remove()

    def penalizes(self, model, optimizer, i):
        optimizer.zero_grad()
        loss = self.loss(model, i % 2)
        grads = torch.autograd.grad(loss, list(model[0].parameters()), create_graph=True)
        (loss + sum(grad.square().sum() for grad in grads)).backward()
        optimizer.step()
        return loss.item()

    def test_all_learn_the_same_within_a_limit(self):
        for habit in (self.plain, self.gathers, self.half, self.tied, self.listens, self.fails_backward,
                      self.penalizes):
            with self.subTest(habit=habit.__name__):
                gc.collect()
                self.library.check(self.library.trim(library.HOST, 0, None))
                model, optimizer = self.make()
                self.library.check(self.library.stats_reset_peaks(library.HOST))
                expected = [habit(model, optimizer, i) for i in range(6)]
                limit_bytes = int(0.8 * self.library.stats().peak_used_bytes)
                model, optimizer = self.make()
                o, found = self.offload(model, optimizer, limit_bytes), []
                for i in range(6):
                    self.library.check(self.library.stats_reset_peaks(library.HOST))
                    with o.step():
                        found.append(habit(model, optimizer, i))
                    self.assertLessEqual(self.library.stats().peak_reserved_bytes, limit_bytes)
                o.close()
                self.assertEqual(found, expected)
                del model, optimizer, o

    def test_two_models_in_two_threads(self):
        expected = []
        for _ in range(2):
            model, optimizer = self.make()
            expected.append([self.plain(model, optimizer, i) for i in range(5)])
        pairs = [self.make() for _ in range(2)]
        offloads = [self.offload(*pair, limit) for pair, limit in zip(pairs, ("25MB", "40MB"))]
        self.assertEqual(self.library.stats().limit_bytes, 25_000_000)
        found = [[], []]

        def work(k):
            for i in range(5):
                with offloads[k].step():
                    found[k].append(self.plain(*pairs[k], i))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, expected)
        offloads[0].close()
        self.assertEqual(self.library.stats().limit_bytes, 40_000_000)
        offloads[1].close()
        self.assertEqual(self.library.stats().limit_bytes, 0)


class Traps(Case):
    """What others have met, each as they met it."""

    def kept(self):
        return torch.randn(SIDE, SIDE, requires_grad=True)

    def test_a_change_in_place_is_found(self):
        o = self.offload()
        b = self.kept()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            with o.step():
                c = b.exp()
                d = c * c
                c.add_(1)
                d.sum().backward()
        small = torch.randn(3, requires_grad=True)  # too small to leave, and checked all the same
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            with o.step():
                c = small.exp()
                d = c * c
                c.add_(1)
                d.sum().backward()

    def test_a_change_in_place_before_it_leaves_is_found(self):
        o = self.offload()
        b = self.kept()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            with o.step():
                c = b.exp()
                d = (c * c).sum()
                c.add_(1)
                del c
                leave(o)
                d.backward()

    def test_an_address_that_is_used_anew_is_another_storage(self):
        o = self.offload()
        b = self.kept()
        grads = []
        for leaves in (False, True):
            b.grad = None
            with o.step():
                x = b
                for _ in range(12):
                    x = (x * 0.9).sin()
                    if leaves:
                        leave(o)
                x.sum().backward()
            grads.append(b.grad.clone())
        self.assertTrue(torch.equal(*grads))
        self.assertGreater(o.stash.drop_count, 10)
        self.assertEqual(o.stash.stats().parked_count, 0)

    def test_what_a_reader_still_has_does_not_go(self):
        o = self.offload()
        b = self.kept()
        with o.step():
            c = b.exp()
            d = c.sin()  # c is kept, and read again below
            o.stash.start_out(o.stash.by_key[c._storage()._cdata])
            leave(o)
            e = c.cos()  # the same storage, not a second one
            self.assertEqual(len([i for i in o.stash.resident if i.key == c._storage()._cdata]), 1)
            (d.sum() + e.sum()).backward()
        self.assertTrue(torch.allclose(b.grad, b.exp() * (b.exp().cos() - b.exp().sin())))

    def start_and_wait(self, stash, start_out, item):
        """A way out that is as quick as can be."""
        is_started = start_out(item)
        if item.parked is not None:
            stash.library.parked_wait(item.parked)
        return is_started

    def test_parts_that_are_written_after_others_were_kept_leave_as_they_are_then(self):
        class Gates(nn.Module):
            """Parts of one storage with versions of their own, each changed and kept in its turn, as in an
            LSTM."""

            def forward(self, x):
                for _ in range(8):
                    parts = (x * 1.01).unsafe_chunk(4)
                    x = torch.cat([part.sigmoid_() for part in parts])
                return x

        found = []
        for is_within in (False, True):
            torch.manual_seed(2)
            gates = Gates()
            x = torch.randn(4 * SIDE, SIDE, requires_grad=True)
            self.library.check(self.library.trim(library.HOST, 0, None))
            self.library.check(self.library.stats_reset_peaks(library.HOST))
            o = self.offload(limit="7MB" if is_within else "1GB")
            o.stash.start_out = functools.partial(self.start_and_wait, o.stash, o.stash.start_out)
            for _ in range(6):
                x.grad = None
                with o.step():
                    gates(x).square().sum().backward()
            found.append(x.grad.clone())
            if is_within:
                self.assertEqual(o.planned_count, 4, o.report())
                self.assertGreater(o.figures["out_bytes"], 0, o.report())
            o.close()
        self.assertTrue(torch.equal(*found))

    def test_views_of_one_storage_are_told_apart(self):
        o = self.offload()
        q = self.kept()
        expected = torch.autograd.grad((q.exp() @ q.exp().T.contiguous().T).sum(), q)[0]
        expected_square = torch.autograd.grad(((lambda e: e @ e.T)(q.exp()) ** 2).sum(), q)[0]
        with o.step():
            e = q.exp()
            loss = ((e @ e.T) ** 2).sum()
            first, second = q.exp().chunk(2)
            chunks = (first * second).sum()
            del e, first, second
            leave(o)
            self.assertTrue(torch.equal(torch.autograd.grad(loss, q)[0], expected_square))
            chunks.backward()
        self.assertEqual(expected.shape, q.grad.shape)
        half = q.exp().chunk(2)
        self.assertTrue(torch.allclose(q.grad, torch.cat([half[1], half[0]]) * q.exp()))

    def test_expanded_tensors_move_their_storage(self):
        o = self.offload()
        row = torch.randn(1, 40000, requires_grad=True)
        with o.step():
            wide = row.exp().expand(50, 40000)
            loss = (wide * wide).sum()
            del wide
            before = o.stash.stats().lanes[0].moved_bytes
            leave(o)
            moved = o.stash.stats().lanes[0].moved_bytes - before
            loss.backward()
        self.assertLess(moved, 2 * 4 * 40000 + 1)
        self.assertTrue(torch.allclose(row.grad, 100 * row.exp() ** 2, rtol=1e-4))

    def test_weights_that_come_as_views_stay(self):
        model = nn.Linear(SIDE, SIDE)
        o = self.offload(model)
        with o.step():
            x = torch.randn(SIDE, SIDE)
            loss = nn.functional.linear(x, model.weight.view(SIDE, SIDE).t()).sum()
            keys = {item.key for item in o.stash.resident}
            self.assertNotIn(model.weight._storage()._cdata, keys)
            loss.backward()

    def test_a_way_back_follows_its_way_out(self):
        o = self.offload()
        b = self.kept()
        with o.step():
            loss = b.exp().sin().sum()
            for item in list(o.stash.resident):
                o.stash.start_out(item)  # and nobody waits for it
            loss.backward()
        self.assertTrue(torch.allclose(b.grad, b.exp() * b.exp().cos()))

    def test_other_devices_are_refused_in_one_sentence(self):
        model = nn.Linear(2, 2, device="meta")
        with self.assertRaisesRegex(dao.torch.OffloadError, "on the CPU so far"):
            self.offload(model)

    def test_an_unpacked_tensor_that_outlives_its_node_stays(self):
        o, seen = self.offload(), []

        class Keeps(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp()
                ctx.save_for_backward(y)
                return y.sum()

            @staticmethod
            def backward(ctx, grad):
                y, = ctx.saved_tensors
                seen.append(y)
                return grad * y

        b = self.kept()
        with o.step():
            loss = Keeps.apply(b)
            leave(o)
            self.assertGreater(len(o.stash.away), 0)
            loss.backward()
            leave(o)
            torch.full((SIDE, SIDE), float("nan"))
        self.assertTrue(torch.equal(seen[0], b.exp()))

    def test_an_abandoned_backward_leaves_nothing(self):
        o = self.offload()
        b = self.kept()
        with o.step():
            loss = b.exp().sin().cos().sum()
            leave(o)
            self.assertGreater(o.stash.stats().parked_count, 0)
        del loss
        gc.collect()
        self.assertEqual(o.stash.stats().parked_count, 0)
        self.assertEqual((o.stash.resident_bytes, len(o.stash.away), len(o.stash.by_key)), (0, 0, 0))

    def test_unpacking_twice_and_double_backward(self):
        o = self.offload()
        b = self.kept()
        with o.step():
            loss = b.exp().sin().sum()
            leave(o)
            loss.backward(retain_graph=True)
            leave(o)
            once = b.grad.clone()
            loss.backward()
            self.assertTrue(torch.equal(b.grad, 2 * once))
            grad, = torch.autograd.grad((b.exp() ** 2).sum(), b, create_graph=True)
            leave(o)
            second, = torch.autograd.grad(grad.sum(), b)
        self.assertTrue(torch.allclose(second, 4 * (2 * b).exp(), rtol=1e-4))

    def test_checkpoints_learn_the_same(self):
        layer = nn.Linear(SIDE, SIDE)
        o = self.offload(layer)
        for reentrant in (True, False):
            grads = []
            for leaves in (False, True):
                b = torch.ones(SIDE, SIDE, requires_grad=True)
                with o.step():
                    x = b.sin()
                    y = checkpoint(lambda x: layer(x).exp(), x, use_reentrant=reentrant)
                    del x
                    if leaves:
                        leave(o)
                    y.sum().backward()
                grads.append(b.grad)
            self.assertTrue(torch.equal(*grads))

    def test_what_no_hook_saw_is_reported(self):
        class Hides(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.x = x * 1  # no hook is told
                return x.sum()

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.x

        model = nn.Linear(1024, 1024)
        o = self.offload(model)
        for _ in range(2):
            with o.step():
                x = model(torch.randn(1024, 1024))
                Hides.apply(x).backward()
        self.assertRegex(o.report(), r"[0-9.]+ MB of it \([0-9]+ %\) no hook")

    def test_compiled_models_are_refused_in_one_sentence(self):
        model = nn.Linear(2, 2)
        model._orig_mod = model.weight  # what torch.compile()'s wrapper has
        with self.assertRaisesRegex(dao.torch.OffloadError, "torch.compile"):
            self.offload(model)

    def test_an_exception_of_unpack_is_a_runtime_error(self):
        o = self.offload()
        b = self.kept()
        with self.assertRaises(RuntimeError):
            with o.step():
                loss = b.exp().sum()
                leave(o)
                for item in o.stash.away:
                    item.error = dao.torch.OffloadError("its bytes are lost")
                loss.backward()
        with o.step():  # and the next step works
            b.exp().sum().backward()

    def test_pinned_memory_that_is_the_models_own_kind_is_named(self):
        o = self.offload(to="pinned")
        with o.step():
            self.kept().exp().sum().backward()
        self.assertIn("pinned memory is memory of the same machine", o.report())

    def test_where_the_peak_is_is_said(self):
        model = nn.Linear(1500, 1500)
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
        o = self.offload(model, optimizer)
        for _ in range(3):
            with o.step():
                model(torch.randn(2, 1500)).sum().backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        self.assertIn("in what follows the last hook, such as the optimizer's step", o.report())


class Refusals(Case):
    def test_sizes_and_targets_that_are_none(self):
        for limit in ("8 parsecs", "-1GB", "", "0"):
            with self.assertRaisesRegex(ValueError, "is no size"):
                self.offload(limit=limit)
        for to in ("tape", "file:", "pinned:much"):
            with self.assertRaises(ValueError):
                self.offload(to=to)
        with self.assertRaisesRegex(library.LibraryError, "/no/such"):
            self.offload(to="file:/no/such/folder")

    def test_a_limit_below_what_is_live(self):
        model = nn.Linear(2000, 2000)
        with self.assertRaisesRegex(dao.torch.OffloadError, "cannot be set"):
            self.offload(model, limit="1MB")
        self.assertEqual(self.library.stats().limit_bytes, 0)

    def test_steps_in_steps_and_after_the_end(self):
        o = self.offload()
        with o.step():
            with self.assertRaisesRegex(dao.torch.OffloadError, "in a step already"):
                with o.step():
                    pass
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
    torch.set_num_threads(1)
    unittest.main()
