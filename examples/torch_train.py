# SPDX-License-Identifier: Apache-2.0
"""A training loop of PyTorch on the CPU, with its own allocator or with libdao's host place.

    torch_train.py --model mobilenet --batch 32                               PyTorch's allocator over malloc
    LD_PRELOAD=libdao_malloc.so torch_train.py --model mobilenet [--serve]    the same over libdao's malloc
    torch_train.py --model mobilenet --plugin libdao_torch_cpu.so [--serve]   libdao's host place
    torch_train.py --model transformer --compare libdao_torch_cpu.so          both; the losses must be equal

Prints for each run the processor time and the minor page faults of a step (the median after the first ones),
and the peak of the resident memory. Exits with 77, which ctest reports as skipped, without PyTorch.
"""

import argparse
import ctypes
import json
import os
import resource
import statistics
import sys

SKIPPED = 77
try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: PyTorch is not installed (python3-torch)")
    sys.exit(SKIPPED)

WARMING_STEPS = 3  # not counted


class InvertedResidual(nn.Module):
    """MobileNetV2's block: wider, a filter for each channel, narrower."""

    def __init__(self, inputs, outputs, stride, widening):
        super().__init__()
        wide = inputs * widening
        self.is_residual = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            *([nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
              if widening > 1 else []),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return x + self.layers(x) if self.is_residual else self.layers(x)


def mobilenet(classes):
    """MobileNetV2, by its paper's table 2."""
    layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    inputs = 32
    for widening, outputs, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(count):
            layers.append(InvertedResidual(inputs, outputs, stride if i == 0 else 1, widening))
            inputs = outputs
    layers += [nn.Conv2d(inputs, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    layers += [nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1280, classes))


class Transformer(nn.Module):
    """Predicts the next symbol."""

    def __init__(self, symbols, length, width=256, depth=4):
        super().__init__()
        self.symbol = nn.Embedding(symbols, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth)
        self.out = nn.Linear(width, symbols)
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))

    def forward(self, x):
        return self.out(self.layers(self.symbol(x) + self.position, self.mask)).flatten(0, 1)


def make(model, batch, side):
    """A model and a batch that it learns by heart."""
    torch.manual_seed(1)
    if model == "mobilenet":
        return mobilenet(100), torch.randn(batch, 3, side, side), torch.randint(100, (batch,))
    text = torch.randint(128, (batch, side + 1))
    return Transformer(128, side), text[:, :-1], text[:, 1:].flatten()


def usage():
    now = resource.getrusage(resource.RUSAGE_SELF)
    return now.ru_utime, now.ru_stime, now.ru_minflt


def check_step(status):
    if status != 0:
        sys.exit("libdao_malloc: a step was refused: %d" % status)


class Plain:
    """PyTorch's allocator, or what was preloaded under it."""

    name = "PyTorch's over " + (os.environ.get("LD_PRELOAD") or "glibc's")

    def __init__(self, serves):
        self.steps = ctypes.CDLL(None) if serves else None  # of libdao_malloc, which is preloaded then

    def step_begin(self):
        if self.steps:
            check_step(self.steps.dao_malloc_step_begin())

    def step_end(self):
        if self.steps:
            check_step(self.steps.dao_malloc_step_end())

    def report(self):
        pass


class Dao:
    """libdao's host place, for the rest of the process; with a plan of each step if it `serves`."""

    def __init__(self, path, serves):
        self.name = "libdao's, served from a plan" if serves else "libdao's"
        self.serves = serves
        if serves:
            os.environ.update(DAO_STEP_PLAN="offsets", DAO_STEP_PLAN_START="1", DAO_STEP_PLAN_STABLE="1")
        self.library = ctypes.CDLL(path)
        self.library.dao_torch_cpu_last_message.restype = ctypes.c_char_p
        self.check(self.library.dao_torch_cpu_install())

    def check(self, status):
        if status != 0:
            sys.exit(self.library.dao_torch_cpu_last_message().decode())

    def step_begin(self):
        self.check(self.library.dao_torch_cpu_step_begin())

    def step_end(self):
        self.check(self.library.dao_torch_cpu_step_end())

    def figures(self, write):
        write.restype = ctypes.c_size_t
        text = ctypes.create_string_buffer(write(None, ctypes.c_size_t(0)))
        write(text, ctypes.c_size_t(len(text)))
        return json.loads(text.value)

    def report(self):
        all_time = self.figures(self.library.dao_torch_cpu_memory_stats)
        print("  libdao's host place: peak %.0f MiB in use, %.0f MiB taken, %d requests" % (
            all_time["allocated_bytes.all.peak"] / 2**20, all_time["reserved_bytes.all.peak"] / 2**20,
            all_time["allocation.all.allocated"]))  # fmt: skip
        if self.serves:
            step = self.figures(self.library.dao_torch_cpu_step_plan_stats)
            print("  the plan: %.1f MiB, no plan is below %.1f MiB; "
                  "%d of %d requests of the latest step were planned" % (
                step["plan_bytes"] / 2**20, step["plan_bound_bytes"] / 2**20,
                step["hit_count"], step["request_count"]))  # fmt: skip


def train(options, allocator):
    """Trains, and prints a line. Returns the losses."""
    model, inputs, targets = make(options.model, options.batch, options.side)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    losses, steps = [], []
    for step in range(options.steps):
        before = usage()
        allocator.step_begin()
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        del loss
        allocator.step_end()
        steps.append([b - a for a, b in zip(before, usage())])
    counted = steps[min(WARMING_STEPS, options.steps - 1) :]
    user, system, faults = (statistics.median(column) for column in zip(*counted))
    print("%s, %s, batch %d: %.0f ms a step, of that %.0f in the kernel; %d minor faults a step; "
          "peak %.0f MiB resident; loss %.6f" % (
        allocator.name, options.model, options.batch, 1e3 * (user + system), 1e3 * system, faults,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, losses[-1]))  # fmt: skip
    allocator.report()
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=("mobilenet", "transformer"), default="mobilenet")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--side", type=int, help="pixels, or symbols of a text", default=96)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plugin")
    parser.add_argument("--compare")
    parser.add_argument("--serve", action="store_true", help="each step from a plan of the one before")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.compare:
        expected = train(options, Plain(False))
        found = train(options, Dao(options.compare, options.serve))
        if found != expected:
            sys.exit("the losses differ: %s and %s" % (expected, found))
        print("the same losses in every bit")
    elif options.plugin:
        train(options, Dao(options.plugin, options.serve))
    else:
        train(options, Plain(options.serve))


if __name__ == "__main__":
    main()
