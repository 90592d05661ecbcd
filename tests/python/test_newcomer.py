# SPDX-License-Identifier: Apache-2.0
"""What a newcomer does with a model of torchvision: a step is recorded, and three commands say whether it
fits, draw it, and run it in half of its memory.

    DAO_COMMAND=build/dev/dao PYTHONPATH=python python3 tests/python/test_newcomer.py [CASE...]

Exits with 77, which ctest reports as skipped, without torchvision."""
import gc
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torchvision
except ImportError:
    print("skipped: torchvision is not installed (python3-torchvision)")
    sys.exit(77)

from torchvision.models.vision_transformer import VisionTransformer

import dao
from dao.command import find_command
from models import alive_bytes, count_peak, make_step

PAGE_CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                            "..", "tools", "report", "check_report.py")
CLASSES = 10  # as those of models.make_batch()
PIXELS = 48   # so large that the peak lies between forward and backward


def convolutions():
    return torchvision.models.mobilenet_v2(num_classes=CLASSES)


def transformer():
    return VisionTransformer(image_size=PIXELS, patch_size=8, num_layers=1, num_heads=4, hidden_dim=64,
                             mlp_dim=128, num_classes=CLASSES)


class ThreeCommands(unittest.TestCase):
    def setUp(self):
        gc.collect()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "step.dao")

    def command(self, *words):
        """What the command prints with --json; it has to exit with 0."""
        done = subprocess.run([find_command(), *words, "--json"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check(self, kind):
        counted = count_peak(kind, adam=False, pixels=PIXELS)
        left = alive_bytes()
        model, step = make_step(kind, adam=False, pixels=PIXELS)
        step(), step()
        with dao.record(self.path, model=model):
            step()
        peak_bytes = left + counted  # by PyTorch's own count of a run that nobody recorded

        fit = self.command("fit", self.path, "--memory", "8GiB")
        self.assertEqual(fit["peak_bytes"], peak_bytes)
        self.assertTrue(fit["sentence"].startswith("It fits: "), fit["sentence"])

        page = self.path + ".html"
        shown = self.command("report", self.path, "-o", page)
        self.assertEqual(shown[0]["peak_bytes"], peak_bytes)
        with open(page + ".json", "w", encoding="utf-8") as file:
            json.dump(shown, file)
        subprocess.run([sys.executable, PAGE_CHECKER, "data", page, page + ".json"], check=True)

        ran = self.command("run", self.path, "--capacity", "60%", "--verify")
        self.assertEqual(ran["mismatches"], 0)
        self.assertGreater(ran["reads_verified"], 100)
        self.assertGreater(ran["evictions"], 0)

    def test_a_network_of_convolutions(self):
        self.check(convolutions)

    def test_a_transformer(self):
        self.check(transformer)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
