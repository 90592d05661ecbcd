# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload(): weights, and their gradients, that leave between their uses.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload_weights.py [CASE...]"""
import copy
import gc
import pickle

from offload_case import Case, EVERYTHING, SIDE, main

import torch
from torch import nn

from dao.torch import library

DEPTH = 8


class Tied(nn.Module):
    """Layers of which two have the same weight, one is frozen, and one is read without its forward()."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(SIDE, SIDE) for _ in range(DEPTH))
        self.layers[5].weight = self.layers[2].weight
        self.layers[3].weight.requires_grad_(False)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = layer(x).tanh()
        return nn.functional.linear(x, self.layers[-1].weight)


class WeightsCase(Case):
    def make(self, kind=torch.optim.SGD):
        torch.manual_seed(3)
        model = Tied()
        return model, kind(model.parameters(), lr=0.01)

    def train(self, model, optimizer):
        torch.manual_seed(7)
        loss = model(torch.randn(8, SIDE)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def gathers(self, model, optimizer):
        """Three backward passes a step, whose gradients are added and made zero."""
        losses = []
        for i in range(3):
            torch.manual_seed(i)
            loss = model(torch.randn(8, SIDE)).square().mean()
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return losses

    def away(self, o):
        """All that can leave does; returns the names of the weights that stay."""
        gc.collect()
        o.stash.relieve(EVERYTHING)
        o.weights.relieve(EVERYTHING)
        return [item.name for item in o.weights.items if item.storage is not None]

    def started(self):
        model, optimizer = self.make()
        o = self.offload(model, optimizer)
        with o.step():
            self.train(model, optimizer)
        return o, model, optimizer

    def gradients(self):
        """A model with gradients."""
        o, model, optimizer = self.started()
        with o.step():
            model(torch.randn(8, SIDE)).sum().backward()
        return o, model, optimizer, {name: parameter.grad.clone() for name, parameter in
                                     model.named_parameters() if parameter.grad is not None}

    def gradients_away(self, o):
        self.away(o)
        return sum(gradient.storage is None for gradient in o.weights.gradients.gone.values())


class Weights(WeightsCase):
    def within(self, share, train, kind, step_count):
        """Compares steps within a share of the bytes of the weights to steps without a limit."""
        model, optimizer = self.make(kind)
        expected = [train(model, optimizer) for _ in range(step_count)]
        weights = [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
        del model, optimizer
        gc.collect()
        others_bytes = self.library.stats().used_bytes  # of graphs whose backward was refused
        model, optimizer = self.make(kind)
        self.library.check(self.library.trim(library.HOST, 0, None))
        limit_bytes = others_bytes + int(share * (DEPTH - 1) * SIDE * SIDE * 4)
        o = self.offload(model, optimizer, limit_bytes)
        found = []
        for _ in range(step_count):
            self.library.check(self.library.stats_reset_peaks(library.HOST))
            with o.step():
                found.append(train(model, optimizer))
            self.assertLessEqual(self.library.stats().peak_reserved_bytes, limit_bytes)
        self.assertEqual(found, expected)
        self.assertGreater(o.weights.left_bytes, 0)
        o.close()
        self.assertEqual([parameter.detach().numpy().tobytes() for parameter in model.parameters()], weights)
        return o

    def test_steps_learn_the_same_with_room_for_a_part_of_the_weights(self):
        for kind in (torch.optim.SGD, torch.optim.Adam):
            with self.subTest(kind=kind.__name__):
                o = self.within(1.9, self.train, kind, 6)  # as many gradients as weights
                self.assertGreater(o.planned_count, 0, o.report())

    def test_steps_learn_the_same_with_room_for_a_part_of_the_gradients(self):
        for kind, train in ((torch.optim.Adam, self.train), (torch.optim.SGD, self.gathers)):
            with self.subTest(kind=kind.__name__):
                o = self.within(1.3, train, kind, 3)
                self.assertGreater(o.weights.gradients.left_bytes, 0)

    def test_what_leaves_on_demand_is_counted(self):
        model, optimizer = self.make(torch.optim.Adam)
        o = self.offload(model, optimizer)
        with o.step():
            self.train(model, optimizer)
            model(torch.randn(8, SIDE)).sum().backward()
            counts = [o.stash.evicted_count]
            for relieve in (o.states[0].relieve, o.weights.relieve):
                self.assertGreater(relieve(EVERYTHING), 0)
                counts.append(o.stash.evicted_count)
            items = [*o.weights.items, *o.weights.gradients.gone.values()]
            away = sum(item.storage is None for item in items)
        self.assertEqual(counts[1] - counts[0], sum(entry.is_away for entry in o.states[0].order))
        self.assertEqual(counts[2] - counts[1], away)
        self.assertIn(f"{counts[2]} evicted on demand", o.report())

    def test_whoever_reads_gradients_finds_them(self):
        o, model, optimizer, expected = self.gradients()
        names = [name for name, _ in model.named_parameters()]
        readings = (
            lambda: {name: parameter.grad for name, parameter in model.named_parameters()},
            lambda: {"layers.4.weight": model.layers[4].weight.grad},
            lambda: dict(zip(names, [p.grad for p in optimizer.param_groups[0]["params"]])),
            lambda: dict(zip(names, [p.grad for p in optimizer.param_groups[0]["params"][:]])),
        )
        for i, read in enumerate(readings):
            self.assertEqual(self.gradients_away(o), DEPTH - 2, f"before reading {i}")
            for name, gradient in read().items():
                self.assertTrue(gradient is None or torch.equal(gradient, expected[name]), f"{name}, {i}")
            gradient = None

    def test_gradients_that_somebody_has_or_adds_to(self):
        o, model, optimizer, expected = self.gradients()
        held = model.layers[4].weight.grad
        part = model.layers[6].weight.grad[1:]
        self.assertEqual(self.gradients_away(o), DEPTH - 4)
        self.assertTrue(torch.equal(held, expected["layers.4.weight"]))
        self.assertTrue(torch.equal(part, expected["layers.6.weight"][1:]))
        del held, part
        self.assertEqual(self.gradients_away(o), DEPTH - 2)
        torch.manual_seed(5)
        x = torch.randn(8, SIDE)
        model(x).sum().backward()  # adds, outside of a step
        sums = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        optimizer.zero_grad(set_to_none=True)
        model(x).sum().backward()
        found = [p.grad + expected[n] for n, p in model.named_parameters() if p.grad is not None]
        self.assertTrue(all(map(torch.allclose, sums, found)))

    def test_gradients_that_are_dropped_leave_nothing_behind(self):
        o, model, optimizer, _ = self.gradients()
        self.assertEqual(self.gradients_away(o), DEPTH - 2)
        optimizer.zero_grad(set_to_none=True)
        self.assertEqual(o.weights.gradients.gone, {})
        o.weights.bring_all()
        self.assertEqual(o.stash.stats().parked_count, 0)
        hooks = model.layers[0].weight._backward_hooks
        self.assertEqual(len(hooks), 1)
        o.close()
        self.assertEqual(len(hooks), 0)

    def test_whoever_reads_weights_finds_them(self):
        o, model, optimizer = self.started()
        expected = {name: parameter.clone() for name, parameter in model.state_dict().items()}
        names = [name for name, _ in model.named_parameters()]

        def in_order(parameters):
            """Others leave while these are gone through."""
            for i, parameter in enumerate(parameters):
                o.weights.relieve(EVERYTHING)
                self.assertTrue(torch.equal(parameter, expected[names[i]]))

        readings = (
            lambda: dict(model.named_parameters()),
            lambda: model.state_dict(),
            lambda: {"layers.0.weight": model.layers[0].weight},
            lambda: {f"layers.4.{name}": value for name, value in dict(model.layers[4]._parameters).items()},
            lambda: {f"layers.4.{name}": value for name, value in {**model.layers[4]._parameters}.items()},
            lambda: {f"layers.4.{name}": value for name, value in model.layers[4]._parameters.copy().items()},
            lambda: dict(copy.deepcopy(model).named_parameters()),
            lambda: dict(pickle.loads(pickle.dumps(model)).named_parameters()),
            lambda: in_order(model.parameters()) or {},
            lambda: in_order(optimizer.param_groups[0]["params"]) or {},
            lambda: dict(zip(names, optimizer.param_groups[0]["params"][:])),
            lambda: dict(zip(names, optimizer.param_groups[0]["params"] + [])),
            lambda: dict(zip(names, copy.deepcopy(optimizer).param_groups[0]["params"])),
            lambda: dict(zip(names, [] + optimizer.param_groups[0]["params"])),
            lambda: dict(zip(names, sum((group["params"] for group in optimizer.param_groups), []))),
            lambda: dict(zip(names, 1 * optimizer.param_groups[0]["params"])),
            lambda: {f"layers.4.{name}": value for name, value in (model.layers[4]._parameters | {}).items()},
            lambda: {f"layers.4.{name}": value for name, value in ({} | model.layers[4]._parameters).items()},
            lambda: {"layers.0.weight": model.layers[0]._parameters.get("weight")},
        )
        for i, read in enumerate(readings):
            self.assertEqual(self.away(o), [], f"before reading {i}")
            for name, parameter in read().items():
                self.assertTrue(torch.equal(parameter, expected[name]), f"{name} of reading {i}")
            parameter = None

    def test_what_the_program_has_stays(self):
        o, model, _ = self.started()
        weight = model.layers[0].weight
        outside = model.layers[1](torch.randn(1, SIDE, requires_grad=True))  # no hooks: the graph has it
        frozen = model.layers[3](torch.randn(1, SIDE, requires_grad=True))
        view = model.layers[2].weight.view(-1)[5:]
        array = model.layers[4].weight.detach().numpy()
        with o.step():
            self.assertEqual(self.away(o), [f"layers.{i}.weight" for i in range(5)])
            self.assertRegex(o.report(), "0.8 MB cannot.* too: layers.0.weight, layers.1.weight")
            outside.sum().backward()
            frozen.sum().backward()
        self.assertEqual(weight.sum().item(), model.layers[0].weight.sum().item())
        del weight, outside, frozen, view, array
        self.assertEqual(self.away(o), ["layers.4.weight"])  # numpy() has fixed its size
        said = o.weights.text()
        o.close()
        self.assertEqual(o.weights.text(), said)

    def test_what_a_scripted_module_has_stays(self):
        model, optimizer = self.make()
        scripted = torch.jit.script(model.layers[1])
        o = self.offload(model, optimizer)
        with o.step():
            self.assertEqual(self.away(o), ["layers.1.weight"])
            scripted(torch.randn(1, SIDE)).sum().backward()

    def test_what_is_written_past_its_version_is_not_lost(self):
        o, model, _ = self.started()
        for i in range(3):
            self.away(o)
            model.layers[6].weight.data.fill_(i)
            self.assertEqual(self.away(o), [])
            self.assertEqual(model.layers[6].weight.sum().item(), i * SIDE * SIDE)

    def test_a_weight_that_is_changed_before_backward_is_found(self):
        o, model, _ = self.started()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            with o.step():
                loss = model(torch.randn(8, SIDE, requires_grad=True)).sum()
                self.away(o)
                with torch.no_grad():
                    model.layers[4].weight.add_(1)
                self.away(o)
                loss.backward()

    def test_weights_leave_between_forward_and_backward(self):
        o, model, optimizer = self.started()
        x = torch.randn(8, SIDE)
        model(x).sum().backward()
        expected = [parameter.grad for parameter in model.parameters()]
        optimizer.zero_grad(set_to_none=True)
        for _ in range(2):  # the second time as a part of the plan's items
            with o.step():
                loss = model(x).sum()
                self.assertEqual([name for name in self.away(o) if name != "layers.2.weight"], [])
                loss.backward()
            found = [parameter.grad for parameter in model.parameters()]
            optimizer.zero_grad(set_to_none=True)
            self.assertEqual([g is None for g in found], [g is None for g in expected])
            self.assertTrue(all(f is None or torch.equal(f, e) for f, e in zip(found, expected)))

    def test_weights_that_are_replaced_or_new(self):
        o, model, optimizer = self.started()
        self.away(o)
        model.layers[0].weight = nn.Parameter(torch.ones(SIDE, SIDE))
        del model.layers[1].weight
        model.layers[1].weight = nn.Parameter(torch.ones(SIDE, SIDE))
        model.more = nn.Linear(SIDE, SIDE)
        optimizer.add_param_group({"params": model.more.parameters()})
        for _ in range(2):
            with o.step():
                self.train(model, optimizer)
            self.assertEqual(self.away(o), [])
        self.assertIn("more.weight", [item.name for item in o.weights.items])

    def test_the_end_leaves_what_was_there(self):
        o, model, optimizer = self.started()
        self.away(o)
        o.close()
        self.assertIs(type(model.layers[0]._parameters), type(nn.Linear(1, 1)._parameters))
        self.assertIs(type(optimizer.param_groups[0]["params"]), list)
        again, same = self.make()
        self.train(again, same)
        self.assertTrue(all(map(torch.equal, model.parameters(), again.parameters())))
        self.assertEqual(self.train(model, optimizer), self.train(again, same))


if __name__ == "__main__":
    main()
