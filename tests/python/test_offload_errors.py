# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload(): errors say what was asked for, what the limit is, where, and what to do.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload_errors.py [CASE...]"""
import ctypes.util
import gc
from unittest import mock

from offload_case import Case, EVERYTHING, SIDE, Wide, leave, main

import torch
from torch import nn

import dao.torch
from dao.torch import OffloadError, library
from dao.torch.explain import Holders, explain


def foreign(tensor):
    """Zeros in memory that is not the place's."""
    return torch.frombuffer(bytearray(4 * tensor.numel()), dtype=torch.float).view_as(tensor)


class Arguments(Case):
    def test_sizes_and_targets_are_named(self):
        for arguments, words in (({"limit": "8 parsecs"}, 'the limit "8 parsecs" is no size: write 8GiB'),
                                 ({"limit": 2**63}, "the limit .* at most [0-9]+ bytes"),
                                 ({"to": "pinned:much"}, 'pinned memory of "much" is no size'),
                                 ({"to": "tape"}, 'to="tape" is nothing to move to: write "pinned"'),
                                 ({"to": f"file:{self.folder},file:/tmp"}, 'to="file:/tmp" is a second one'),
                                 ({"to": ["pinned", "pinned:2GB"]}, 'to="pinned:2GB" is a second one')):
            with self.assertRaisesRegex(ValueError, words):
                self.offload(**arguments)

    def test_what_is_no_optimizer_is_named(self):
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        twice = [optimizer, optimizer]
        for given, error, words in ((model, TypeError, "the optimizer is a Linear, no torch.optim.Optimizer"),
                                    ([], TypeError, "the optimizer is a list, .* or a list of them"),
                                    ([optimizer, None], TypeError, "the optimizer is a NoneType"),
                                    (twice, ValueError, "the same optimizer is there twice")):
            with self.assertRaisesRegex(error, words):
                dao.torch.offload(model, given, "1GiB")

    def test_a_folder_that_takes_no_file_is_named(self):
        with self.assertRaisesRegex(OffloadError, "nothing can be moved to 'file:/proc': .+"):
            self.offload(to="file:/proc")

    def test_what_is_on_a_device_is_named(self):
        layer = nn.Linear(2, 2)
        layer.bias = nn.Parameter(torch.empty(2, device="meta"))
        with self.assertRaisesRegex(OffloadError, "0.bias of the model is on meta.*call model.cpu"):
            self.offload(nn.Sequential(layer))

    def test_another_version_of_the_library_is_told(self):
        with self.assertRaisesRegex(library.LibraryError, "another version than the package dao"):
            library.Library(ctypes.util.find_library("m"))


class InSteps(Case):
    def test_what_is_larger_than_the_limit_is_explained(self):
        """Nobody is asked to free memory for it."""
        o = self.offload(limit="12MB")
        with self.assertRaises(OffloadError) as caught:
            with o.step():
                torch.empty(20_000_000, dtype=torch.uint8)
        text = str(caught.exception)
        self.assertRegex(text, "within 12.0 MB: here it needs at least 2[0-9].[0-9] MB, as an operator asks "
                               "for 20.0 MB beside [0-9.]+ MB that cannot leave")
        self.assertRegex(text, "The operator is in .*errors.py:[0-9]+: .*torch.empty.*Raise the limit")

    def test_a_tensor_that_cannot_come_back_is_explained(self):
        o = self.offload(limit="12MB")
        b = torch.randn(SIDE, SIDE, requires_grad=True)
        with self.assertRaisesRegex(OffloadError, "within 12.0 MB.*as what comes back asks for 0.2 MB.*"
                                                  "The operator is in"):
            with o.step():
                loss = b.exp().sum()
                leave(o)
                hoard = []
                with self.assertRaisesRegex(RuntimeError, "libdao"):
                    while True:
                        hoard.append(torch.empty(100_000, dtype=torch.uint8))
                loss.backward()

    def test_what_would_fit_in_one_piece_is_told_apart(self):
        o = self.offload(limit="12MB")
        o.holders = holders = Holders(o, 1_500_000)
        holders.used_bytes, holders.reserved_bytes, holders.hole_bytes = 6_000_000, 5 * 2**21, 1_400_000
        try:
            raise RuntimeError("libdao: cpu: 1500000 bytes asked for")
        except RuntimeError as error:
            with_holes = explain(o, error, error)
            holders.used_bytes = 11_000_000
            without = explain(o, error, error)
        self.assertIn("the largest hole between tensors has 1.4 MB. A limit of 12.6 MB", with_holes)
        self.assertNotIn("hole", without)

    def test_other_errors_stay_what_they_are(self):
        o = self.offload()
        with self.assertRaisesRegex(RuntimeError, "^mine$") as caught:
            with o.step():
                raise RuntimeError("mine")
        self.assertNotIsInstance(caught.exception, OffloadError)

    def test_bytes_that_are_lost_are_named(self):
        o = self.offload()
        b = torch.randn(SIDE, SIDE, requires_grad=True)
        for call in ("mover_in", "parked_wait"):
            words = "^what autograd keeps, 0.2 MB, has left memory and does not come back.*latest checkpoint$"
            with self.assertRaisesRegex(OffloadError, words):
                with o.step():
                    loss = b.exp().sum()
                    leave(o)
                    with mock.patch.object(self.library, call, return_value=1):
                        loss.backward()

    def test_a_change_in_place_says_what_to_do(self):
        o = self.offload()
        b = torch.randn(SIDE, SIDE, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation: a tensor of .*clone"):
            with o.step():
                c = b.exp()
                d = (c * c).sum()
                c.add_(1)
                d.backward()


class BetweenSteps(Case):
    def test_state_for_which_there_is_no_room_is_named(self):
        model = nn.Linear(500, 500)
        optimizer = torch.optim.Adam(model.parameters())
        o = self.offload(model, optimizer, limit="12MB")
        with o.step():
            model(torch.ones(1, 500)).sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        o.states[0].relieve(EVERYTHING)
        hoard = []
        with self.assertRaisesRegex(RuntimeError, "libdao"):
            while True:
                hoard.append(torch.empty(100_000, dtype=torch.uint8))
        words = "no room within 12.0 MB for the optimizer's .exp_avg.*1.0 MB, which .* of a step.*the limit"
        with self.assertRaisesRegex(OffloadError, words):
            optimizer.state_dict()
        hoard.clear()
        self.assertEqual(len(optimizer.state_dict()["state"]), 2)


class Freed(Case):
    """What is said to be freed is free: else the place asks for no more, and training ends too early."""

    def test_bytes_that_are_not_the_places_do_not_leave(self):
        o = self.offload()
        w = torch.ones(SIDE, SIDE, requires_grad=True)
        with o.step():
            loss = (w * foreign(w)).sum()
            leave(o)
            self.assertEqual(list(o.stash.away), [])
            loss.backward()
        self.assertEqual(w.grad.abs().sum(), 0)

    def test_what_has_ended_on_its_way_out_is_not_counted_while_somebody_has_it(self):
        o = self.offload()
        with o.step():
            tensor = torch.randn(SIDE, SIDE)
            kept = o.pack(tensor)
            o.stash.start_out(kept.item)
            with mock.patch.object(o.stash, "is_done", return_value=False):
                del kept
            self.assertEqual(len(o.stash.doomed), 1)
            self.assertEqual(o.stash.relieve_doomed(), 0)

    def test_state_from_before_leaves_as_all_other(self):
        """Adagrad makes its state at once, and who goes on with a training has loaded his."""
        model = nn.Linear(500, 500)
        optimizer = torch.optim.Adagrad(model.parameters())
        for parameter, values in optimizer.state.items():  # as if made before the allocator was the place's
            values["sum"] = foreign(parameter)
        o = self.offload(model, optimizer)
        gc.collect()
        used_bytes = self.library.stats().used_bytes
        self.assertEqual(o.states[0].relieve(EVERYTHING), 1_000_000)
        self.assertLessEqual(self.library.stats().used_bytes, used_bytes - 1_000_000)

    def test_what_is_above_the_limit_leaves_as_it_is_set(self):
        model = nn.Sequential(*(nn.Linear(500, 500) for _ in range(4)))
        optimizer = torch.optim.Adagrad(model.parameters())
        gc.collect()
        others_bytes = self.library.stats().used_bytes
        o = self.offload(model, optimizer, others_bytes + 6_000_000)  # of weights and state 8 MB
        self.assertLessEqual(self.library.stats().reserved_bytes, o.limit_bytes)
        with o.step():
            model(torch.ones(1, 500)).sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
