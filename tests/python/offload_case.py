# SPDX-License-Identifier: Apache-2.0
"""What the tests of dao.torch.offload() share: a place with small pages, a model with much to keep.

Exits with 77, which ctest reports as skipped, without PyTorch."""
import gc
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed (python3-torch)")
    sys.exit(77)

from torch import nn

import dao.torch
from dao.torch import library

SIDE = 200  # of the matrices of the small cases: 160,000 bytes each, which is enough to leave
EVERYTHING = 2**62
LIMIT_OF_PAGES = 4 << 20  # for pages of 64 KiB: the limits here are small


class Wide(nn.Module):
    """Layers with much to keep, a skip over all of them, and a batch norm."""

    def __init__(self, width=16, depth=6):
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

    def offload(self, model=None, optimizer=None, limit="1GiB", to="folder"):
        model = model or nn.Linear(2, 2)
        optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
        o = dao.torch.offload(model, optimizer, limit, f"file:{self.folder}" if to == "folder" else to)
        self.addCleanup(o.close)
        return o


def leave(o):
    """All that can leave leaves."""
    o.stash.relieve(EVERYTHING)


def main():
    torch.set_num_threads(1)
    unittest.main()
