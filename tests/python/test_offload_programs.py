# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload(): programs as people write them learn the same within limits as they do without.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload_programs.py [CASE...]"""
import contextlib
import pickle

from offload_case import Case, SIDE, main

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from dao.torch import library


class NoLimit:
    """What a program has in place of an offload when it runs without."""

    def step(self):
        return contextlib.nullcontext()


def bytes_of(model):
    """All of its values, in memory that is not the place's."""
    return [value.numpy().tobytes() for value in model.state_dict().values()]


class Programs(Case):
    """A program is a function that returns a model, its optimizer and a function: that makes step i within
    o.step() and returns what it computed."""

    def run_steps(self, step, o, count):
        results = []
        for i in range(count):
            torch.manual_seed(1000 + i)
            results.append(step(o, i))
        return results

    def without(self, program, count):
        """The most bytes of a program that runs without a limit, its results and its parameters."""
        self.library.check(self.library.trim(library.HOST, 0, None))
        torch.manual_seed(1)
        model, _, step = program()
        self.library.check(self.library.stats_reset_peaks(library.HOST))
        results = self.run_steps(step, NoLimit(), count)
        return self.library.stats().peak_used_bytes, results, bytes_of(model)

    def check_program(self, program, shares, planned, count=8):
        """The same in every bit, never above the limit, and at least `planned` steps as planned."""
        peak_bytes, results, values = self.without(program, count)
        for share in shares:
            with self.subTest(share=share):
                torch.manual_seed(1)
                model, optimizer, step = program()
                o = self.offload(model, optimizer, int(peak_bytes * share))
                self.library.check(self.library.stats_reset_peaks(library.HOST))
                self.assertEqual(self.run_steps(step, o, count), results)
                self.assertLessEqual(self.library.stats().peak_reserved_bytes, o.limit_bytes)
                self.assertGreaterEqual(o.planned_count, planned, o.report())
                o.close()
                self.assertTrue(bytes_of(model) == values)
                del model, optimizer, step, o


class Adversaries(Programs):
    def two_optimizers(self):
        """A GAN: one of its optimizers is the offload's, the other one the program's own. Its pictures come
        from a worker of a data loader, in shared memory."""
        critic = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.LeakyReLU(0.2),
                               nn.Conv2d(16, 16, 3, padding=1), nn.Tanh(), nn.Flatten(),
                               nn.Linear(16 * 28 * 28, 1))
        maker = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                              nn.Conv2d(16, 3, 3, padding=1))
        model = nn.ModuleDict({"critic": critic, "maker": maker})
        optimizer = torch.optim.Adam(critic.parameters())
        other = torch.optim.SGD(maker.parameters(), 0.1, momentum=0.9)
        pictures = iter(torch.utils.data.DataLoader(torch.randn(64, 3, 28, 28), batch_size=8, num_workers=1))

        def step(o, i):
            real = next(pictures)
            with o.step():
                fake = maker(torch.randn(8, 3, 28, 28))
                loss = critic(fake.detach()).mean() - critic(real).mean()
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                other.zero_grad(set_to_none=True)
                critic(fake).mean().neg().backward()
                other.step()
                return loss.item()

        return model, optimizer, step

    def test_two_optimizers_and_a_data_loader(self):
        self.check_program(self.two_optimizers, (1, 0.7), 4)


class Depths(Programs):
    """Steps of several shapes, all of which begin alike."""

    def deep(self):
        layers = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(inplace=True))
                  for _ in range(6)]
        model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *layers)
        optimizer = torch.optim.Adam(model.parameters())

        def step(o, i):
            with o.step():
                x = model[0](torch.randn(8, 3, 28, 28))
                for layer in layers[:4 + i % 3]:
                    x = x + layer(x)
                loss = x.square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                return loss.item()

        return model, optimizer, step

    def test_shapes_that_begin_alike_follow_their_plans(self):
        self.check_program(self.deep, (1, 0.6), 6, count=12)

    def test_a_shape_that_is_met_later_gets_a_plan(self):
        def late():
            model, optimizer, step = self.deep()
            return model, optimizer, lambda o, i: step(o, 0 if i < 4 else 1 + i % 2)

        self.check_program(late, (0.6,), 8, count=14)  # all but two of each of three shapes


class Recurrent(Programs):
    def cells(self):
        """Cells of a GRU in a loop, and an optimizer whose state is there before the offload."""
        model = nn.ModuleDict({"embed": nn.Embedding(64, 96), "cell": nn.GRUCell(96, 160),
                               "out": nn.Linear(160, 64)})
        optimizer = torch.optim.Adagrad(model.parameters(), 1e-2)

        def step(o, i):
            x = torch.randint(64, (64, 12))
            with o.step():
                hidden, outputs = torch.zeros(64, 160), []
                for symbol in x.t():
                    hidden = model["cell"](model["embed"](symbol), hidden)
                    outputs.append(model["out"](hidden))
                loss = nn.functional.cross_entropy(torch.cat(outputs), x.t().flatten())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                return loss.item()

        return model, optimizer, step

    def test_cells_of_a_gru(self):
        self.check_program(self.cells, (1, 0.7), 4)


class SecondOrder(Programs):
    """Graphs of gradients: what autograd keeps is unpacked several times."""

    def critic(self):
        """A critic with a gradient penalty, as a WGAN-GP has."""
        layers = [nn.Conv2d(3, 16, 3, padding=1), nn.LeakyReLU(0.2)]
        for _ in range(5):
            layers += [nn.Conv2d(16, 16, 3, padding=1), nn.LeakyReLU(0.2)]
        critic = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * 28 * 28, 1))
        optimizer = torch.optim.Adam(critic.parameters())

        def step(o, i):
            with o.step():
                real, fake = torch.randn(2, 8, 3, 28, 28)
                mixed = torch.lerp(real, fake, torch.rand(8, 1, 1, 1)).requires_grad_()
                gradient, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
                penalty = (gradient.flatten(1).norm(dim=1) - 1).square().mean()
                loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                return loss.item()

        return critic, optimizer, step

    def test_a_gradient_penalty_follows_a_plan(self):
        self.check_program(self.critic, (1, 0.7, 0.5), 4)


class Rewriting(Programs):
    """Weights that are read, written and loaded in the middle of steps."""

    def rewriting(self):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(SIDE, SIDE), nn.Tanh()) for _ in range(4)))
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        states = []

        def step(o, i):
            with o.step():
                x = torch.randn(4 * SIDE, SIDE)
                loss = model(x).square().mean()
                before = pickle.dumps(model)
                loss.backward()
                with torch.no_grad():  # a second pass a little way up, as sharpness aware training has it
                    values = parameters_to_vector(model.parameters())
                    ascent = parameters_to_vector([p.grad for p in model.parameters()])
                    vector_to_parameters(values + 0.05 * ascent / ascent.norm(), model.parameters())
                    del ascent
                optimizer.zero_grad()
                second = model(x).square().mean()
                second.backward()
                vector_to_parameters(values, model.parameters())
                del values
                if i % 3 == 0:
                    states[:] = map(pickle.dumps, (model.state_dict(), optimizer.state_dict()))
                if i % 3 == 2:
                    model.load_state_dict(pickle.loads(states[0]))
                    optimizer.load_state_dict(pickle.loads(states[1]))
                optimizer.step()
                optimizer.zero_grad()
                change = sum((p - q).abs().sum().item()
                             for p, q in zip(model.parameters(), pickle.loads(before).parameters()))
                return loss.item(), second.item(), change

        return model, optimizer, step

    def test_weights_are_read_written_and_loaded_within_steps(self):
        self.check_program(self.rewriting, (1, 0.9), planned=3, count=6)


if __name__ == "__main__":
    main()
