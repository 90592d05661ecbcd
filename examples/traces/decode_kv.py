#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes decode_kv.tr: a step of a server that decodes a token for each of its requests. Each has key and value
caches in each layer, as long as the request is by then; weights are read, caches read and appended to."""
LAYERS, REQUESTS, WIDTH, TWO_BYTES = 8, 12, 4096, 2
BYTES_PER_S, FLOP_PER_S, LAUNCH_US = 3e12, 300e12, 4


def lengths():
    """Tokens of each request: from 1,000 to 32,000, each 1.35 times the one before or so, in no order."""
    return [round(1000 * 32 ** ((i * 5 % REQUESTS) / (REQUESTS - 1))) for i in range(REQUESTS)]


tensors, kernels = [], []  # (bytes, is kept), (microseconds, [(tensor, mode)])


def tensor(size, is_kept):
    tensors.append((size, is_kept))
    return len(tensors) - 1


def kernel(read_bytes, flop, uses):
    kernels.append((max(read_bytes / BYTES_PER_S, flop / FLOP_PER_S) * 1e6 + LAUNCH_US, uses))


tokens = lengths()
hidden = tensor(REQUESTS * WIDTH * TWO_BYTES, 0)
kernel(0, 0, [(hidden, 2)])
for layer in range(LAYERS):
    weights = 12 * WIDTH * WIDTH
    attention, mlp = (tensor(part * weights * TWO_BYTES // 3, 1) for part in (1, 2))
    heads = tensor(REQUESTS * WIDTH * TWO_BYTES, 0)
    kernel(weights * TWO_BYTES // 3, 2 * REQUESTS * weights // 3, [(hidden, 1), (attention, 1), (heads, 2)])
    for count in tokens:
        size = 2 * count * WIDTH * TWO_BYTES
        kernel(size, 4 * count * WIDTH, [(tensor(size, 1), 3), (heads, 3)])
    kernel(2 * weights * TWO_BYTES // 3, 4 * REQUESTS * weights // 3, [(heads, 1), (mlp, 1), (hidden, 3)])

with open("decode_kv.tr", "w", encoding="ascii") as file:
    file.write(f"T {len(tensors)}\n")
    file.writelines(f"{i} {size} {kept} -\n" for i, (size, kept) in enumerate(tensors))
    file.write(f"K {len(kernels)} {len(kernels)}\n")
    for microseconds, uses in kernels:
        file.write(f"{microseconds:.4f} {len(uses)} " + " ".join(f"{t}:{mode}" for t, mode in uses) + "\n")
