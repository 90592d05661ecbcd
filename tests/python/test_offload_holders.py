# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload(): who has weights, and how he gets them, beside modules and steps.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload_holders.py [CASE...]"""
import copy
import pickle
import threading
import weakref

from offload_case import EVERYTHING, SIDE, main
from test_offload_weights import DEPTH, WeightsCase

import torch
from torch import nn

from dao.torch import library
from dao.torch.offload import OffloadError


class Holders(WeightsCase):
    def test_lists_of_groups_are_nothing_for_c_code(self):
        o, _, optimizer = self.started()
        self.assertEqual(self.away(o), [])
        with self.assertRaisesRegex(TypeError, "WatchedList"):
            torch._foreach_norm(optimizer.param_groups[0]["params"])
        norms = torch._foreach_norm(list(optimizer.param_groups[0]["params"]))
        self.assertTrue(all(norm > 0 for norm in norms))

    def test_lists_of_groups_change_as_lists_do(self):
        o, model, optimizer = self.started()
        parameters = optimizer.param_groups[0]["params"]
        count = len(parameters)
        last = parameters.pop()
        self.assertIs(last, list(model.parameters())[-1])
        parameters += [last]
        parameters[0] = parameters[0]
        self.assertEqual(len(parameters), count)
        self.assertEqual(parameters, list(optimizer.param_groups[0]["params"]))

    def test_keys_of_state_are_there(self):
        model, optimizer = self.make(torch.optim.Adam)
        o = self.offload(model, optimizer)
        with o.step():
            self.train(model, optimizer)
        expected = [parameter.detach().clone() for parameter in optimizer.state]
        readings = (
            lambda: list(optimizer.state.keys()),
            lambda: list(reversed(optimizer.state))[::-1],
            lambda: list(dict(optimizer.state | {})),
            lambda: [optimizer.state.popitem()[0] for _ in expected][::-1],  # the last one: it takes them out
        )
        for i, read in enumerate(readings):
            o.states[0].relieve(EVERYTHING)
            self.assertEqual(self.away(o), [], f"before reading {i}")
            self.assertTrue(all(map(torch.equal, read(), expected)), f"reading {i}")

    def test_what_weak_references_have_stays(self):
        o, model, _ = self.started()
        reference = weakref.ref(model.layers[1].weight)
        self.assertEqual(self.away(o), ["layers.1.weight"])
        self.assertTrue(torch.isfinite(reference()).all())
        del reference
        self.assertEqual(self.away(o), [])

    def test_what_is_traced_behind_the_first_step_stays(self):
        o, model, _ = self.started()
        x = torch.randn(1, SIDE)
        traced = torch.jit.trace(model, x)
        expected = traced(x).detach()
        self.assertEqual(len(self.away(o)), DEPTH - 1)
        with o.step():
            model(x).sum().backward()
            self.assertEqual(len(self.away(o)), DEPTH - 1)
        self.assertTrue(torch.equal(traced(x), expected))

    def test_models_that_change_before_the_first_step(self):
        for change in (lambda model: setattr(model.layers, "1", nn.Linear(SIDE, SIDE)),
                       lambda model: model.double(),
                       lambda model: self.offload(model, torch.optim.SGD(model.parameters(), lr=0.01))):
            model, optimizer = self.make()
            o = self.offload(model, optimizer)
            self.away(o)
            change(model)
            with o.step():
                model(torch.randn(8, SIDE, dtype=model.layers[0].weight.dtype)).sum().backward()
            self.assertEqual((o.step_count, o.errors), (1, []))
            o.close()

    def test_memory_may_be_short_before_the_first_step(self):
        o = self.offload(*self.make())
        self.assertGreater(o.relieve(library.HOST, EVERYTHING, None), 0)
        self.assertEqual(o.errors, [])

    def test_a_step_that_cannot_begin_is_none(self):
        o, model, optimizer = self.started()
        scan, o.weights.scan = o.weights.scan, lambda: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            with o.step():
                pass
        o.weights.scan = scan
        with o.step():
            self.train(model, optimizer)

    def test_other_threads_make_nothing_leave(self):
        o, _, _ = self.started()
        freed = []
        thread = threading.Thread(target=lambda: freed.append(o.relieve(library.HOST, EVERYTHING, None)))
        thread.start()
        thread.join()
        self.assertEqual(freed, [0])
        self.assertGreater(o.relieve(library.HOST, EVERYTHING, None), 0)

    def test_gradients_of_parameters_that_want_them_since_stay(self):
        model, optimizer = self.make()
        model.requires_grad_(False)
        o = self.offload(model, optimizer)
        with o.step():
            model.requires_grad_(True)
            model(torch.randn(8, SIDE)).sum().backward()
            self.assertEqual(self.gradients_away(o), 0)
            model(torch.randn(8, SIDE)).sum().backward()

    def test_hooks_of_parameters_that_are_gone_go(self):
        o, model, _ = self.started()
        count = len(o.weights.gradients.hooks)
        for _ in range(8):  # with the ids of those that were there
            model.layers[1] = nn.Linear(SIDE, SIDE)
            with o.step():
                model(torch.randn(8, SIDE)).sum().backward()
                self.gradients_away(o)
                model(torch.randn(8, SIDE)).sum().backward()
        self.assertEqual(len(o.weights.gradients.hooks), count)

    def test_weights_that_leave_the_model_stay_for_graphs(self):
        o, model, optimizer = self.started()
        self.away(o)
        for _ in range(2):
            with o.step():
                loss = model(torch.randn(8, SIDE)).sum()
                self.away(o)
                loss.backward(retain_graph=True)
                optimizer.zero_grad(set_to_none=True)
        layer, model.layers[6] = model.layers[6], nn.Identity()
        with o.step():
            self.away(o)
            self.assertTrue(torch.isfinite(layer.weight).all())

    def test_zero_grad_of_the_model_is_as_the_optimizers(self):
        o, model, _, expected = self.gradients()
        self.assertEqual(self.gradients_away(o), DEPTH - 2)
        model.zero_grad(set_to_none=False)
        self.assertEqual(len(self.away(o)), 0)  # none came back
        self.assertEqual([p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None],
                         [0] * len(expected))
        self.away(o)
        model.zero_grad(set_to_none=True)
        self.assertTrue(all(item.storage is None for item in o.weights.items))
        self.assertTrue(all(parameter.grad is None for parameter in model.parameters()))

    def test_zero_grad_of_copies_is_their_own(self):
        o, model, _, expected = self.gradients()
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            copied(torch.randn(8, SIDE)).sum().backward()
            copied.zero_grad(set_to_none=True)
            self.assertTrue(all(parameter.grad is None for parameter in copied.parameters()))
        self.assertTrue(torch.equal(model.layers[0].weight.grad, expected["layers.0.weight"]))
        o.close()
        self.assertNotIn("zero_grad", model.__dict__)

    def test_without_room_outside_of_a_step_a_weight_is_named(self):
        o, model, _ = self.started()
        self.assertEqual(self.away(o), [])
        self.library.check(self.library.trim(library.HOST, 0, None))
        self.library.check(self.library.limit_set(library.HOST, self.library.stats().reserved_bytes))
        with self.assertRaisesRegex(OffloadError, "a loop over parameters"):
            held = list(model.parameters()) + [torch.empty(SIDE, SIDE) for _ in range(DEPTH)]
        held = None
        self.library.check(self.library.limit_set(library.HOST, 0))
        self.assertTrue(all(torch.isfinite(parameter).all() for parameter in model.parameters()))


if __name__ == "__main__":
    main()
