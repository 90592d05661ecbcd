# SPDX-License-Identifier: Apache-2.0
"""All arrays of CuPy in memory of libdao. Needs a build for cuda or hip, a device, and CuPy for it."""
import ctypes
import sys

import cupy

library = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libdao_cupy.so")
alloc, free = (ctypes.cast(f, ctypes.c_void_p).value for f in (library.dao_cupy_alloc, library.dao_cupy_free))
stream = cupy.cuda.get_current_stream()
allocator = cupy.cuda.memory.CFunctionAllocator(stream.ptr, alloc, free, library)
cupy.cuda.set_allocator(allocator.malloc)
print(cupy.arange(1 << 20).sum())
