# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload(): what went wrong elsewhere.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload_traps.py [CASE...]"""
import functools
import gc

from offload_case import Case, SIDE, leave, main

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import dao.torch
from dao.torch import library
from dao.torch.stash import Item


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

    def test_what_has_been_unpacked_does_not_go(self):
        """Neither before autograd has made a tensor of its own of it, nor while a node has that."""
        o = self.offload()
        note_event, given_up = o.note_event, []

        def drop_and_note(item, is_unpack):
            given_up.append(o.stash.drop(item))
            note_event(item, is_unpack)

        class Reads(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x * 2)
                return x.sum()

            @staticmethod
            def backward(ctx, grad):
                y, = ctx.saved_tensors
                given_up.append(o.stash.drop(item))
                expected = torch.equal(y, b.detach() * 2)
                del y
                given_up.append(o.stash.drop(item))
                return grad.expand(SIDE, SIDE) * expected

        b = self.kept()
        with o.step():
            loss = Reads.apply(b)
            item, = [item for item in o.stash.resident if item.is_sole(self.library)]
            o.stash.start_out(item)
            self.library.check(self.library.parked_wait(item.parked))
            o.note_event = drop_and_note
            loss.backward()
        self.assertEqual(given_up, [0, 0, item.size_bytes])
        self.assertEqual(b.grad.sum(), SIDE * SIDE)

    def start_and_wait(self, stash, start_out, item):
        """A way out that is as quick as can be."""
        is_started = start_out(item)
        if item.parked is not None:
            stash.library.parked_wait(item.parked)
        return is_started

    def test_an_input_that_the_program_has_does_not_go(self):
        o = self.offload()
        x, w = torch.randn(SIDE, SIDE), self.kept()  # autograd hands x itself to the hook
        with o.step():
            loss = (w * x).sum()
            leave(o)
            self.assertEqual(list(o.stash.away), [])
            loss.backward()
        self.assertTrue(torch.equal(w.grad, x))

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

    def test_conjugates_and_negatives_come_back_as_such(self):
        o = self.offload()
        z = torch.randn(SIDE, SIDE, dtype=torch.cfloat, requires_grad=True)

        def loss():
            conjugate = z.exp().conj()  # views with a bit that says how to read them
            return (conjugate * conjugate * conjugate.imag.exp()).abs().sum()

        expected = torch.autograd.grad(loss(), z)[0]
        with o.step():
            kept = loss()
            leave(o)
            self.assertGreater(o.stash.drop_count, 0)
            self.assertTrue(torch.equal(torch.autograd.grad(kept, z)[0], expected))

    def test_expanded_tensors_move_their_storage(self):
        o = self.offload()
        row = torch.randn(1, 40000, requires_grad=True)
        with o.step():
            wide = row.exp().expand(50, 40000)
            loss = (wide * wide).sum()
            del wide
            before = o.stash.stats().directions[0].moved_bytes
            leave(o)
            moved = o.stash.stats().directions[0].moved_bytes - before
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
        with self.assertRaisesRegex(dao.torch.OffloadError, "weight of the model is on meta"):
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
            # the node of the softmax keeps its output, which is too small to leave
            loss = b.exp().sin().cos()[:4].softmax(1).sum()
            leave(o)
            self.assertGreater(o.stash.stats().parked_count, 0)
        del loss
        gc.collect()
        self.assertEqual(o.stash.stats().parked_count, 0)
        self.assertEqual((o.stash.resident_bytes, len(o.stash.away), len(o.stash.by_key)), (0, 0, 0))

    def test_garbage_that_is_collected_in_close(self):
        o = self.offload()
        with o.step():
            ring = [self.kept().exp().sum() for _ in range(3)]
            leave(o)
        ring.append(ring)
        fetch = o.stash.fetch

        def collect(item):
            fetch(item)
            gc.collect()  # as Python may do anywhere

        o.stash.fetch = collect
        self.assertEqual(len(o.stash.away), 3)
        gc.disable()
        try:
            del ring
            o.close()
        finally:
            gc.enable()
        self.assertEqual((len(o.stash.away), len(o.stash.resident)), (0, 0))

    def test_what_ends_as_others_are_looked_at_is_not_looked_at(self):
        o = self.offload()
        asked = []

        class Looked(Item):
            def is_sole(self, library):
                asked.append(self.storage is not None)
                return super().is_sole(library)

        with o.step():
            kept = [self.kept().exp().sum() for _ in range(3)]
            o.stash.shared.update(o.stash.resident)
            for item in o.stash.shared:
                item.__class__ = Looked
            o.stash.note_shared(lambda _: kept.clear(), leaves=False)
        self.assertEqual(asked, [True])

    def test_an_end_that_failed_may_be_tried_again(self):
        o = self.offload()
        bring_all = o.stash.bring_all

        def fail():
            raise dao.torch.OffloadError("the file is gone")

        o.stash.bring_all = fail
        self.assertRaisesRegex(dao.torch.OffloadError, "the file is gone", o.close)
        o.stash.bring_all = bring_all
        o.close()
        self.assertEqual(self.library.stats().limit_bytes, 0)

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
        self.assertRegex(o.report(), r"[0-9.]+ MB of it \([0-9]+ %\) is not what autograd keeps")

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


if __name__ == "__main__":
    main()
