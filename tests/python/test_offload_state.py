# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload(): the state of optimizers, and what programs do around a step.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload_state.py [CASE...]"""
import copy
import gc
import pickle
import threading

from offload_case import Case, EVERYTHING, SIDE, main

import torch
from torch import nn

from dao.torch import library


class StateLeaves(Case):
    """The optimizer's state between its uses."""

    def train(self, model, optimizer):
        optimizer.zero_grad(set_to_none=True)
        torch.manual_seed(7)
        loss = model(torch.randn(8, 600)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    def make(self, kind=torch.optim.Adam, **options):
        torch.manual_seed(1)
        model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(600, 600), nn.Tanh())))
        return model, kind(model.parameters(), lr=0.01, **options)

    def losses(self, count, *arguments, **options):
        model, optimizer = self.make(*arguments, **options)
        return [self.train(model, optimizer) for _ in range(count)]

    def test_steps_learn_the_same_with_room_for_a_part_of_the_state(self):
        weights_bytes = 8 * 600 * 601 * 4
        for kind, options in ((torch.optim.Adam, {}), (torch.optim.SGD, {"momentum": 0.9}),
                              (torch.optim.AdamW, {"amsgrad": True})):
            with self.subTest(kind=kind.__name__):
                *expected, behind = self.losses(4, kind, **options)
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
                self.assertGreater(o.states[0].left_bytes, 0)
                o.close()
                self.assertEqual(self.train(model, optimizer), behind)
                del model, optimizer
                gc.collect()

    def several(self):
        """A model of two halves, each with an optimizer of its own."""
        model, _ = self.make()
        return model, [torch.optim.Adam(model[:8].parameters(), 0.01),
                       torch.optim.SGD(model[8:].parameters(), 0.1, momentum=0.9)]

    def train_all(self, model, optimizers):
        loss = self.train(model, optimizers[0])
        for optimizer in optimizers[1:]:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss

    def test_several_optimizers_learn_the_same(self):
        halves_bytes = 4 * 600 * 601 * 4
        expected = [self.train_all(*made) for made in [self.several()] for _ in range(4)]
        model, optimizers = self.several()
        # weights and gradients of both, and some of the 3 halves of state; then less than weights and state
        for limit_bytes in (5 * halves_bytes, 4 * halves_bytes):
            with self.subTest(limit_bytes=limit_bytes):
                self.library.check(self.library.trim(library.HOST, 0, None))
                model, optimizers = self.several()
                o = self.offload(model, optimizers, limit_bytes)
                found = []
                for _ in range(4):
                    with o.step():
                        found.append(self.train_all(model, optimizers))
                    self.assertLessEqual(o.figures["peak_bytes"], limit_bytes)
                self.assertEqual(found, expected)
                self.assertTrue(all(state.left_bytes > 0 for state in o.states), o.report())
                self.assertGreater(o.weights.movable_bytes, 1.9 * halves_bytes)
                o.close()
                for optimizer in optimizers:
                    self.assertIs(type(optimizer.param_groups[0]["params"]), list)
                    self.assertNotIn("step", optimizer.__dict__)
                del model, optimizers
                gc.collect()

    def test_weights_of_one_optimizer_are_away_while_another_one_steps(self):
        model, optimizers = self.several()
        o = self.offload(model, optimizers)
        seen = []

        def step_now(*arguments, **options):
            seen.append(o.weights.by_id(id_of_a_weight).is_sole(self.library))
            return step(*arguments, **options)

        with o.step():
            self.train_all(model, optimizers)
            o.weights.leave_early()
            id_of_a_weight = id(model[0].weight)
            step, o.states[1].step_now = o.states[1].step_now, step_now
            optimizers[1].step()
        self.assertTrue(seen and all(seen), seen)

    def test_state_dicts_have_all_of_it(self):
        model, optimizer = self.make()
        self.train(model, optimizer)
        expected = [value.clone() for state in optimizer.state.values() for value in state.values()]
        o = self.offload(model, optimizer)
        with o.step():
            pass
        o.states[0].note_all()
        o.states[0].relieve(EVERYTHING)
        self.assertGreater(o.states[0].away_bytes, 0)
        saved = optimizer.state_dict()
        self.assertEqual(o.states[0].away_bytes, 0)
        found = [value for state in saved["state"].values() for value in state.values()]
        self.assertTrue(all(map(torch.equal, expected, found)))
        o.states[0].relieve(EVERYTHING)
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
        o.states[0].note_all()
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
            o.states[0].relieve(EVERYTHING)
            self.assertGreater(o.states[0].away_bytes, 0)
            self.compare_states(read(), expected, f"reading {i}")
        held = optimizer.state[first]["exp_avg"]
        values = optimizer.state[model[2].weight]
        o.states[0].relieve(EVERYTHING)  # what somebody has stays
        self.assertTrue(torch.equal(held, expected[first]["exp_avg"]))
        self.assertTrue(torch.equal(values["exp_avg_sq"], expected[model[2].weight]["exp_avg_sq"]))
        o.close()
        self.assertIs(optimizer.state, own)
        self.assertEqual(len(own), len(expected))

    def test_state_that_was_an_array_stays(self):
        model, optimizer = self.make()
        self.train(model, optimizer)
        o = self.offload(model, optimizer)
        o.states[0].note_all()
        optimizer.state[model[0].weight]["exp_avg"].numpy()  # its storage keeps its size from now on
        for _ in range(2):
            o.states[0].relieve(EVERYTHING)
            self.assertEqual(sum(not entry.is_away for entry in o.states[0].order), 1)
        with o.step():
            self.train(model, optimizer)

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
                    o.states[0].relieve(EVERYTHING)
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

    def loss(self, model, seed, count=200):
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


if __name__ == "__main__":
    main()
