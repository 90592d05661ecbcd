# SPDX-License-Identifier: Apache-2.0
"""The five models whose steps tests and benchmarks replay (examples/traces, tests/support/models), recorded
anew: their peaks are those that an allocator which wrote down every call had counted, to the byte.

    DAO_COMMAND=build/dev/dao PYTHONPATH=python python3 tests/python/test_shared_models.py [MODEL... | all]

Without a name mobilenet_v2, which takes ten seconds of a processor; all of them take a quarter of an hour
with a plain BLAS.
Exits with 77, which ctest reports as skipped, without torchvision."""
import gc
import os
import sys
import tempfile

try:
    import torch
    import torchvision
except ImportError:
    print("skipped: torchvision is not installed (python3-torchvision)")
    sys.exit(77)

from torch import nn

import dao
from models import alive_bytes

QUICK = ["mobilenet_v2"]
WARMING_STEPS = 2


class Block(nn.Module):
    """A layer of GPT-2 that masks its own scores."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        count, length, width = x.shape
        split = (count, length, self.heads, width // self.heads)
        q, k, v = self.qkv(self.norm1(x)).split(width, 2)
        q, k, v = (each.view(split).transpose(1, 2) for each in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * split[-1] ** -0.5
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, float("-inf"))
        scores = nn.functional.dropout(scores.softmax(-1), 0.1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(count, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class GPT2(nn.Module):
    """124 million parameters, and a head of its own."""

    def __init__(self, symbols=50257, length=512, width=768, depth=12):
        super().__init__()
        self.symbol, self.place = nn.Embedding(symbols, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 12) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)

    def forward(self, x):
        x = self.symbol(x) + self.place(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


class Recurrent(nn.Module):
    def __init__(self, symbols=10000):
        super().__init__()
        self.symbol = nn.Embedding(symbols, 256)
        self.layers = nn.LSTM(256, 512, 2, batch_first=True)
        self.head = nn.Linear(512, symbols)

    def forward(self, x):
        return self.head(self.layers(self.symbol(x))[0]).flatten(0, 1)


class Experts(nn.Module):
    """A layer that sends each symbol to the best one of its experts."""

    def __init__(self, width, count):
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(count))

    def forward(self, x):
        best, which = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, = (which == i).nonzero(as_tuple=True)
            out = out.index_add(0, rows, expert(x[rows]) * best.unsqueeze(1)[rows])
        return x + out


class Mixture(nn.Module):
    def __init__(self, symbols=8000, width=256):
        super().__init__()
        self.symbol = nn.Embedding(symbols, width)
        self.layers = nn.Sequential(*(Experts(width, 8) for _ in range(6)))
        self.head = nn.Linear(width, symbols)

    def forward(self, x):
        return self.head(self.layers(self.symbol(x).flatten(0, 1)))


def pictures(count):
    return lambda: (torch.randn(count, 3, 224, 224), torch.randint(1000, (count,)))


def texts(symbols, count, length):
    return lambda: (torch.randint(symbols, (count, length)), torch.randint(symbols, (count, length)))


# What makes the model, what makes a batch, the peak that was counted, and bytes that the count had besides:
# the log had made a tensor of a number, in Adam, where this peak lies, which PyTorch itself does not count.
MODELS = {
    "mobilenet_v2": (torchvision.models.mobilenet_v2, pictures(4), 362281164, 0),
    "resnet50": (torchvision.models.resnet50, pictures(8), 1049555444, 0),
    "gpt2_small": (GPT2, texts(50257, 1, 512), 3021888188, 0),
    "lstm": (Recurrent, texts(10000, 8, 64), 222867780, 8),
    "moe": (Mixture, texts(8000, 8, 128), 527309956, 0),
}


def record(name, path):
    """Returns the peak of a step as the recorder tells it, and as `dao info` reads it."""
    kind, make_batch, _, _ = MODELS[name]
    torch.manual_seed(1)
    model = kind()
    optimizer = torch.optim.Adam(model.parameters())
    batch = None

    def step():
        nonlocal batch
        batch = make_batch()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(WARMING_STEPS):
        step()
    with dao.record(path, model=model) as recording:
        step()
    return recording.peak_bytes, dao.info(path)["peak_bytes"]


def main(names):
    torch.set_num_threads(1)
    wrong = 0
    for name in list(MODELS) if names == ["all"] else names or QUICK:
        gc.collect()
        left = alive_bytes()
        with tempfile.TemporaryDirectory() as folder:
            told, read = record(name, os.path.join(folder, "step.dao"))
        known = left + MODELS[name][2] - MODELS[name][3]
        print(f"{name}: peak {told - left}, counted {MODELS[name][2]}"
              f"{'' if told == read == known else ': WRONG'}", flush=True)
        wrong += not told == read == known
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
