# SPDX-License-Identifier: Apache-2.0
"""Small models, steps of them, and a count of PyTorch's allocations that knows nothing of the recorder."""
import gc

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import profiler


class Net(nn.Module):
    """Convolutions with batch norm, in place, a residual, and layers in a list, which is never called."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.blocks = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(2))
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + torch.relu_(block(x))
        return self.head(x.mean((2, 3)))


class Text(nn.Module):
    """A transformer that predicts the next symbol."""

    def __init__(self, symbols=64, width=32):
        super().__init__()
        self.symbol = nn.Embedding(symbols, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(width, symbols)

    def forward(self, x):
        return self.out(self.layers(self.symbol(x))).flatten(0, 1)


class Wide(nn.Sequential):
    """Few activations and many weights: the peak is in the optimizer's step."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(432, 512), nn.ReLU(), nn.Linear(512, 10))


def make_batch(model, pixels):
    if isinstance(model, Text):
        return torch.randint(64, (4, 16)), torch.randint(64, (64,))
    return torch.randn(8, 3, pixels, pixels), torch.randint(10, (8,))


def make_step(kind, adam=True, pixels=12):
    """Returns a model and a function that trains it for a step and returns the loss."""
    torch.manual_seed(1)
    model = kind()
    optimizer = torch.optim.Adam(model.parameters()) if adam else torch.optim.SGD(model.parameters(), 0.1)

    def step():
        x, y = make_batch(model, pixels)
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return model, step


def alive_bytes(fake=False):
    """Bytes of all real, or all fake, tensors that Python can see: what other tests have left."""
    gc.collect()
    storages = {}
    for item in gc.get_objects():
        is_tensor = issubclass(type(item), torch.Tensor)
        if is_tensor and (isinstance(item, FakeTensor) or item.is_meta) == fake:
            storage = item.untyped_storage() if hasattr(item, "untyped_storage") else item._storage()
            storages[storage._cdata] = storage.nbytes()
    return sum(storages.values())


def memory_events(nodes):
    for node in nodes:
        name = node.name() if callable(node.name) else node.name
        if name == "[memory]":
            yield node.start_time_ns, (node.extra_fields.total_allocated, node.extra_fields.alloc_size)
        elif name == "counted":
            yield node.start_time_ns, "begin"
            yield from memory_events(node.children)
            yield node.end_time_ns, "end"
        else:
            yield from memory_events(node.children)


def count_peak(kind, warming_steps=2, **making):
    """The most bytes alive during a step, as PyTorch's own allocator counts them: the model is made under its
    profiler, so that every byte is in its count. Nothing of the recorder runs."""
    gc.collect()
    with profiler.profile(profile_memory=True, use_kineto=True) as profile:
        _, step = make_step(kind, **making)
        for _ in range(warming_steps):
            step()
        region = torch.ops.profiler._record_function_enter_new("counted", None)
        step()
        torch.ops.profiler._record_function_exit(region)
    peak = live = 0
    base = None  # what earlier profiles have left in the count
    is_counting = False
    events = memory_events(profile.kineto_results.experimental_event_tree())
    for _, event in sorted(events, key=lambda timed: timed[0]):
        if event == "begin":
            is_counting, peak = True, live
        elif event == "end":
            return peak
        else:
            total, changed = event
            base = total - changed if base is None else base
            live = total - base
            peak = max(peak, live) if is_counting else peak
    raise AssertionError("the profiler has lost the region")
