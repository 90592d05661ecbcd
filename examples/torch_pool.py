# SPDX-License-Identifier: Apache-2.0
"""Chosen tensors of PyTorch in memory of libdao. Needs a build for cuda or hip, a device, and its PyTorch."""
import ctypes
import json
import sys

import torch

path = sys.argv[1] if len(sys.argv) > 1 else "libdao_torch.so"
allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "dao_torch_alloc", "dao_torch_free")
pool = torch.cuda.MemPool(allocator.allocator())
with torch.cuda.use_mem_pool(pool):
    weights = torch.randn(4096, 4096, device="cuda")
print("sum of squares:", (weights * weights).sum().item())

library = ctypes.CDLL(path)
library.dao_torch_memory_stats.restype = ctypes.c_size_t
text = ctypes.create_string_buffer(library.dao_torch_memory_stats(0, None, ctypes.c_size_t(0)))
library.dao_torch_memory_stats(0, text, ctypes.c_size_t(len(text)))
print("held by libdao:", json.loads(text.value)["allocated_bytes.all.current"], "bytes")
