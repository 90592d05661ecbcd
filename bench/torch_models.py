# SPDX-License-Identifier: Apache-2.0
"""Models to train within a limit: those of examples/torch_train.py, and three on which nothing was tuned."""
import functools
import os
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "examples"))
from torch_train import Transformer, mobilenet


class ViT(nn.Module):
    """A vision transformer: patches of 8 x 8, 6 layers of width 192."""

    def __init__(self, side=96, patch=8, width=192, depth=6):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.position = nn.Parameter(torch.zeros(1, (side // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, 3, 4 * width, 0.0, "gelu", batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.position
        return self.head(self.layers(x).mean(1))


class Recurrent(nn.Module):
    """An LSTM of two layers over texts of a length that varies from step to step."""

    def __init__(self, symbols=128, width=256):
        super().__init__()
        self.symbol = nn.Embedding(symbols, width)
        self.layers = nn.LSTM(width, width, 2, batch_first=True)
        self.out = nn.Linear(width, symbols)

    def forward(self, x):
        return self.out(self.layers(self.symbol(x))[0]).flatten(0, 1)


def twice(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Down three times and up again, with a skip at each level: classes of pixels."""

    def __init__(self, width=16, classes=4):
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(twice(i, o) for i, o in zip([3, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.join = nn.ModuleList(twice(2 * w, w) for w in reversed(widths[:-1]))
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for i, down in enumerate(self.down):
            x = down(x if i == 0 else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        for up, join, skip in zip(self.up, self.join, reversed(skips[:-1])):
            x = join(torch.cat([up(x), skip], 1))
        return self.out(x).flatten(2).transpose(1, 2).flatten(0, 1)


def text(count, length):
    symbols = torch.randint(128, (count, length + 1))
    return symbols[:, :-1], symbols[:, 1:].flatten()


def forward_again(forward, x, *arguments, **options):
    return checkpoint(lambda x: forward(x, *arguments, **options), x, use_reentrant=True)


def run_again(model):
    """Layers of transformers keep what goes in alone, and are run again for the backward pass."""
    for layer in model.modules():
        if isinstance(layer, nn.TransformerEncoderLayer):
            layer.forward = functools.partial(forward_again, layer.forward)


def make(name):
    """Returns a model and the function that gives the batch of a step."""
    torch.manual_seed(1)
    if name == "mobilenet":
        batch = torch.randn(32, 3, 96, 96), torch.randint(100, (32,))
        return mobilenet(100), lambda step: batch
    if name == "transformer":
        batch = text(16, 128)
        return Transformer(128, 128, 256, 6), lambda step: batch
    if name == "vit":
        batch = torch.randn(16, 3, 96, 96), torch.randint(100, (16,))
        return ViT(), lambda step: batch
    if name == "lstm":
        batches = [text(32, length) for length in (64, 128, 96, 128)]
        return Recurrent(), lambda step: batches[step % len(batches)]
    if name == "unet":
        batch = torch.randn(8, 3, 96, 96), torch.randint(4, (8 * 96 * 96,))
        return UNet(), lambda step: batch
    raise SystemExit(f"no model {name}: mobilenet, transformer, vit, lstm, unet")
