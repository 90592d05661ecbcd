# SPDX-License-Identifier: Apache-2.0
"""NumPy takes a tensor of the library without a copy, and the library an array of NumPy's.

Usage: test_dlpack_numpy.py LIBDAO

Exits with 77, which ctest calls skipped, where there is no NumPy.
"""

import ctypes
import gc
import sys

SKIPPED = 77
try:
    import numpy
except ImportError:
    print("skipped: NumPy is not installed (python3-numpy)")
    sys.exit(SKIPPED)
if not hasattr(numpy, "from_dlpack"):
    print("skipped: NumPy", numpy.__version__, "has no from_dlpack")
    sys.exit(SKIPPED)

K_DL_CPU = 1
F32, SHAPE = 10, (3, 4)


class Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("index", ctypes.c_int32)]


def declare(owner, name, result, *arguments):
    function = getattr(owner, name)
    function.restype = result
    function.argtypes = arguments
    return function


dao = ctypes.CDLL(sys.argv[1])
pointer, out_pointer = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
tensor_zeros = declare(
    dao, "dao_tensor_zeros", ctypes.c_int, Place, ctypes.c_int, ctypes.c_int32,
    ctypes.POINTER(ctypes.c_int64), out_pointer
)
tensor_address = declare(dao, "dao_tensor_address", pointer, pointer)
tensor_count = declare(dao, "dao_tensor_count", ctypes.c_int64, pointer)
tensor_rank = declare(dao, "dao_tensor_rank", ctypes.c_int32, pointer)
tensor_strides = declare(dao, "dao_tensor_strides", ctypes.POINTER(ctypes.c_int64), pointer)
tensor_release = declare(dao, "dao_tensor_release", ctypes.c_int, pointer)
to_dlpack = declare(dao, "dao_tensor_to_dlpack_unversioned", ctypes.c_int, pointer, out_pointer)
from_dlpack = declare(dao, "dao_tensor_from_dlpack_unversioned", ctypes.c_int, pointer, out_pointer)
used = declare(dao, "dao_used", ctypes.c_size_t, Place)
last_message = declare(dao, "dao_last_message", ctypes.c_char_p)

python = ctypes.pythonapi
capsule_new = declare(python, "PyCapsule_New", ctypes.py_object, pointer, ctypes.c_char_p, pointer)
capsule_pointer = declare(python, "PyCapsule_GetPointer", pointer, ctypes.py_object, ctypes.c_char_p)
capsule_rename = declare(python, "PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
NEW, USED = b"dltensor", b"used_dltensor"  # a capsule's name is borrowed: these stay


def check(status):
    if status != 0:
        sys.exit("status %d: %s" % (status, last_message().decode()))


class Produced:
    """A tensor of ours as Python's protocol wants it."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None):
        managed = ctypes.c_void_p()
        check(to_dlpack(self.tensor, ctypes.byref(managed)))
        return capsule_new(managed, NEW, None)

    def __dlpack_device__(self):
        return (K_DL_CPU, 0)


def ours_to_numpy(host):
    tensor = ctypes.c_void_p()
    check(tensor_zeros(host, F32, len(SHAPE), (ctypes.c_int64 * len(SHAPE))(*SHAPE), ctypes.byref(tensor)))
    array = numpy.from_dlpack(Produced(tensor))
    address = tensor_address(tensor)
    assert array.__array_interface__["data"][0] == address, "NumPy made a copy"
    assert array.shape == SHAPE and array.dtype == numpy.float32
    (ctypes.c_float * 12).from_address(address)[7] = 2.5
    assert array[1, 3] == 2.5
    check(tensor_release(tensor))
    assert array.sum() == 2.5 and used(host) > 0, "the array does not hold the tensor"
    del array
    gc.collect()
    assert used(host) == 0, "the array is gone, and its tensor is not"


def numpy_to_ours():
    array = numpy.arange(24, dtype=numpy.float64).reshape(4, 6)[::-2, 1:]
    references = sys.getrefcount(array)
    capsule = array.__dlpack__()
    tensor = ctypes.c_void_p()
    check(from_dlpack(capsule_pointer(capsule, NEW), ctypes.byref(tensor)))
    capsule_rename(capsule, USED)
    del capsule
    assert tensor_address(tensor) == array.__array_interface__["data"][0], "this was a copy"
    assert tensor_count(tensor) == array.size and tensor_rank(tensor) == array.ndim
    assert tensor_strides(tensor)[0:2] == [-12, 1]
    assert sys.getrefcount(array) == references + 1
    check(tensor_release(tensor))
    assert sys.getrefcount(array) == references, "the array is still held"


ours_to_numpy(Place(0, 0))
numpy_to_ours()
print("NumPy", numpy.__version__, "and libdao share memory, both ways")
