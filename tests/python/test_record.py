# SPDX-License-Identifier: Apache-2.0
"""dao.record(): what a recorded step says, held against PyTorch's own counts and against the command.

    DAO_COMMAND=build/dev/dao PYTHONPATH=python python3 tests/python/test_record.py [CASE...]

Exits with 77, which ctest reports as skipped, without PyTorch."""
import base64
import gc
import hashlib
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings
import zipfile

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed (python3-torch)")
    sys.exit(77)

from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import dao
from models import Net, Text, Wide, alive_bytes, count_peak, make_step


class Case(unittest.TestCase):
    def setUp(self):
        gc.collect()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "step.dao")

    def record(self, function, **options):
        """Records a function; returns the recording and the operators of the file as lists of words."""
        with dao.record(self.path, **options) as recording:
            function()
        with open(self.path) as file:
            lines = [line.split() for line in file]
        self.tensors = {words[1]: words for words in lines if words[0] == "tensor"}
        self.operators = [words for words in lines if words[0] == "op"]
        return recording

    def operator(self, name):
        """The only operator of that name: the words behind its times."""
        found = [words for words in self.operators if words[1] == name]
        self.assertEqual(len(found), 1, name)
        return [word for word in found[0][4:] if word[0] in "<>*=^-"]


    def signs_by_name(self, operator):
        return {" ".join(self.tensors[word[1:]][4:]): word[0] for word in self.operator(operator)
                if word[0] != "^"}


class AllocatedPeaks(Case):
    def check_model(self, kind):
        counted = count_peak(kind)
        left = alive_bytes()
        _, step = make_step(kind)
        step(), step()
        recording = self.record(step)
        self.assertEqual(recording.peak_bytes, left + counted)
        self.assertEqual(dao.info(self.path)["peak_bytes"], left + counted)

    def test_peak_of_convolutions_is_the_allocators_to_the_byte(self):
        self.check_model(Net)

    def test_peak_of_a_transformer_is_the_allocators_to_the_byte(self):
        self.check_model(Text)

    def test_peak_in_an_optimizers_step_is_the_allocators_to_the_byte(self):
        self.check_model(Wide)

    def test_the_first_step_makes_the_optimizers_state(self):
        counted = count_peak(Net, warming_steps=0)
        left = alive_bytes()
        _, step = make_step(Net)
        self.assertEqual(self.record(step).peak_bytes, left + counted)

    def test_fake_tensors_have_the_peak_of_real_ones(self):
        def forward_and_backward(record):
            torch.manual_seed(1)
            # Without numbers as operands: those are real tensors in either case.
            model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(800, 9))
            x = torch.randn(8, 3, 12, 12)
            return record(lambda: model(x).square().sum().backward(), workspace=False)
        left = alive_bytes()
        real = forward_and_backward(self.record).peak_bytes - left
        real_operators = [words[1] for words in self.operators]
        left = alive_bytes(fake=True)
        with FakeTensorMode():
            fake = forward_and_backward(self.record)
        self.assertEqual(fake.peak_bytes, left + real)
        self.assertEqual([words[1] for words in self.operators], real_operators)
        self.assertEqual(dao.info(self.path)["peak_bytes"], left + real)

    def test_a_fake_step_may_multiply_by_a_number(self):
        with FakeTensorMode():
            x = torch.randn(4, 4, requires_grad=True)
            self.record(lambda: (x * 0.5).sum().backward())
        self.assertEqual([words[1] for words in self.operators].count("aten::mul.Tensor"), 2)

    def test_that_a_fake_step_may_be_larger_than_the_machine(self):
        with FakeTensorMode():
            model = nn.Sequential(*(nn.Linear(1 << 16, 1 << 16) for _ in range(4)))  # 64 GiB
            optimizer = torch.optim.Adam(model.parameters())

            def step():
                optimizer.zero_grad(set_to_none=True)
                model(torch.randn(8, 1 << 16)).sum().backward()
                optimizer.step()

            self.record(step)
            recording = self.record(step, cost=lambda name, args, kwargs, result: 0.001)
        self.assertGreater(recording.peak_bytes, 256 << 30)  # weights, gradients, two states of Adam's
        rows = dao.simulate(self.path, capacity="50%", link_in="50GB/s", link_out="50GB/s")
        self.assertAlmostEqual(rows[0]["compute_s"], 0.001 * len(self.operators))
        self.assertGreater(rows[0]["step_s"], rows[0]["compute_s"])


class Contents(Case):
    def test_a_step_runs_with_half_of_its_memory(self):
        _, step = make_step(Text)
        step()
        self.record(step)
        ran = dao.run(self.path, capacity="50%", policy="belady", verify=True)
        self.assertEqual(ran["mismatches"], 0)
        self.assertGreater(ran["reads_verified"], 100)
        self.assertGreater(ran["evictions"], 0)

    def test_a_recording_changes_no_bit(self):
        _, step = make_step(Text)
        plain = [step() for _ in range(3)]
        _, step = make_step(Text)
        recorded = [step()]
        self.record(lambda: recorded.append(step()))
        self.assertEqual(recorded + [step()], plain)

    def test_views_are_parts_of_their_tensor(self):
        x = torch.zeros(4, 100)

        def work():
            x[1].add_(1)
            x.t().mul(2)
            x[2:4].zero_()
            x[:, 5].zero_()
        self.record(work)
        whole = self.operator("aten::mul.Tensor")[0][1:]
        self.assertEqual(self.tensors[whole][2], "1600")
        changed = self.operator("aten::add_.Tensor")
        self.assertEqual(changed[0][0], "*")
        self.assertEqual(self.tensors[changed[0][1:]][2:], ["400", f"of={whole}", "at=400"])
        rows, column = [words for words in self.operators if words[1] == "aten::zero_"]
        self.assertEqual(rows[4][0], "=")
        self.assertEqual(self.tensors[rows[4][1:]][2:], ["800", f"of={whole}", "at=800"])
        self.assertEqual(column[4][0], "*")  # what lies between the elements stays

    def test_what_dies_is_released_where_it_dies(self):
        def work():
            a = torch.ones(1000)
            b = a.exp()
            view = a[5:]
            del a
            b = b.sqrt()
            del view
            return b.sin()
        self.record(work)
        a = self.operator("aten::exp")[0][1:]
        self.assertNotIn("-" + a, self.operator("aten::exp"))
        self.assertIn("-" + a, self.operator("aten::sqrt"))

    def test_what_autograd_keeps_lives_and_is_marked(self):
        w = torch.ones(100, requires_grad=True)

        def work():
            y = w.exp()
            z = y.sin()
            del y
            z.sum().backward()
        self.record(work)
        y = self.operator("aten::exp")[1][1:]
        self.assertIn("^" + y, self.operator("aten::exp") + self.operator("aten::sin"))
        self.assertIn("<" + y, self.operator("aten::cos"))
        self.assertNotIn("-" + y, self.operator("aten::sin"))
        self.assertIn("tag=activation", self.tensors[y])

    def test_a_change_in_place_of_what_is_kept_raises_as_without_hooks(self):
        def work():
            b = torch.ones(4, requires_grad=True)
            c = b.exp()
            d = c * c
            c.add_(1)
            d.sum().backward()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            work()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            self.record(work)
        self.assertFalse(os.path.exists(self.path))

    def test_batch_norm_changes_its_running_figures(self):
        norm = nn.BatchNorm1d(8)
        x = torch.randn(4, 8)
        self.record(lambda: norm(x))
        signs = self.signs_by_name("aten::native_batch_norm")
        self.assertEqual(signs["name=BatchNorm1d.running_mean"], "*")
        self.assertEqual(signs["name=BatchNorm1d.running_var"], "*")
        self.assertEqual(signs["name=BatchNorm1d.weight"], "<")
        norm.eval()
        self.record(lambda: norm(x))
        signs = self.signs_by_name("aten::native_batch_norm")
        self.assertEqual(signs["name=BatchNorm1d.running_mean"], "<")

    def test_a_storage_that_grows_is_another_tensor(self):
        def work():
            out = torch.empty(0)
            torch.mul(torch.ones(100), 2, out=out)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch would rather have an empty tensor
                torch.mul(torch.ones(300), 2, out=out)
        self.record(work)
        small, large = [words for words in self.operators if words[1] == "aten::mul.out"]
        born = [next(word[1:] for word in words if word[0] == ">") for words in (small, large)]
        self.assertEqual([self.tensors[tensor][2] for tensor in born], ["400", "1200"])
        self.assertIn("-" + born[0], large)

    def test_a_tensor_that_no_operator_makes_is_born_in_the_step(self):
        kept = []
        self.record(lambda: kept.append(torch.tensor([1.0] * 500).exp()))
        made = self.operator("aten::exp")[0][1:]
        self.assertEqual(self.tensors[made][2], "2000")
        self.assertIn(">" + made, self.operator("dao::outside"))
        self.assertIn("-" + made, self.operator("aten::exp"))


class Names(Case):
    def test_modules_and_weights_have_the_programs_names(self):
        model, step = make_step(Net)
        step()
        self.record(step, model=model)
        modules = {word[7:] for words in self.operators for word in words if word.startswith("module=")}
        self.assertLessEqual({"stem.0", "stem.1", "stem.2", "blocks.0", "blocks.1", "head", "Net"}, modules)
        self.assertIn("Adam.step", modules)
        tags = {" ".join(words[3:]) for words in self.tensors.values()}
        self.assertLessEqual({"tag=parameter name=blocks.1.weight", "tag=gradient name=head.bias",
                              "tag=buffer name=stem.1.running_var", "tag=optimizer name=head.weight.exp_avg"},
                             tags)

    def test_backward_begins_once_and_knows_its_modules(self):
        model, step = make_step(Net)
        self.record(step, model=model)
        with open(self.path) as file:
            lines = file.read().split("\n")
        self.assertEqual(lines.count("backward"), 1)
        behind = lines[lines.index("backward"):]
        self.assertTrue(any("convolution_backward" in line and "module=blocks.1" in line for line in behind))
        self.assertFalse(any("_backward" in line for line in lines[:lines.index("backward")]))

    def test_pure_is_what_may_run_again(self):
        x = torch.ones(10)
        self.record(lambda: (x.exp(), x.add_(1), torch.rand(5)))
        pure = {words[1]: "pure" in words for words in self.operators}
        self.assertEqual(pure, {"aten::exp": True, "aten::add_.Tensor": False, "aten::rand": False})

    def test_times_stretch_to_what_a_step_takes(self):
        _, step = make_step(Text)
        recording = self.record(step, step_s=0.25)
        self.assertAlmostEqual(sum(op.cost_us for op in recording.step.operators), 250000, places=3)
        self.assertAlmostEqual(dao.info(self.path)["recorded_s"], 0.25, delta=0.001)


class Commands(Case):
    def test_a_packed_file_is_read_as_it_is(self):
        self.path += ".gz"
        x = torch.ones(10)
        with dao.record(self.path):
            x.exp()
        self.assertEqual(dao.info(self.path)["operators"], 1)

    def test_the_package_installs_without_a_network(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
        folder = os.path.dirname(self.path)
        name = subprocess.run(
            [sys.executable, "-c", "import build_wheel, sys; print(build_wheel.build_wheel(*sys.argv[1:]))",
             folder], cwd=source, check=True, capture_output=True, text=True).stdout.strip()
        # What pip does with a wheel: it checks what RECORD says of each file, and unpacks.
        with zipfile.ZipFile(os.path.join(folder, name)) as wheel:
            wheel.extractall(os.path.join(folder, "site"))
            for line in wheel.read("dao-0.1.0.dist-info/RECORD").decode().splitlines()[:-1]:
                path, digest, size_bytes = line.split(",")
                content = wheel.read(path)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
                self.assertEqual((digest, int(size_bytes)), ("sha256=" + expected, len(content)))
        where = subprocess.run(
            [sys.executable, "-c", "import dao; print(dao.record.__module__, dao.__file__)"],
            env={**os.environ, "PYTHONPATH": os.path.join(folder, "site")}, check=True, capture_output=True,
            text=True).stdout.split()
        self.assertEqual(where[0], "dao.recording.recorder")
        self.assertTrue(where[1].startswith(folder))

    def test_files_are_planned_and_simulated(self):
        _, step = make_step(Net)
        step()
        recording = self.record(step)
        plans = dao.plan(self.path)
        self.assertGreaterEqual(min(row["peak_bytes"] for row in plans), recording.peak_bytes)
        rows = dao.simulate(self.path, capacity="70%", link_in="10GB/s", link_out="10GB/s")
        self.assertGreaterEqual(rows[0]["step_s"], rows[0]["compute_s"])
        answer = dao.fit(self.path, "8GiB")
        self.assertEqual(answer["peak_bytes"], recording.peak_bytes)
        self.assertIn("It fits", answer["sentence"])
        self.assertIn("sentence", dao.fit(self.path, device="t4"))
        written = self.path + ".csv"
        dao.plan(self.path, o=written)
        with open(written) as file:
            self.assertEqual(file.readline(), "id,lower,upper,size,offset\n")

    def test_what_the_command_says_is_raised(self):
        with self.assertRaisesRegex(dao.CommandError, "no/such/file"):
            dao.info("no/such/file")

    def test_what_it_tells_of_its_progress_is_no_message(self):
        command = self.path + ".sh"
        with open(command, "w") as file:
            file.write("#!/bin/sh\necho 'reading x: 3 %' >&2; echo 'dao info: x: it is empty' >&2; exit 1\n")
        os.chmod(command, 0o700)
        with unittest.mock.patch.dict(os.environ, DAO_COMMAND=command):
            with self.assertRaisesRegex(dao.CommandError, "^dao info: x: it is empty$"):
                dao.info("x")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
