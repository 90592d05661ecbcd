# SPDX-License-Identifier: Apache-2.0
"""libdao as ctypes sees it, by the plug-in for PyTorch on the CPU: the calls that offload(), its tests and
its bench need, and nothing else."""
import ctypes
import os
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p

OUT, IN = 0, 1  # directions of a mover
COMPUTE, HOST_IN, HOST_OUT = 0, 1, 2  # streams of a plan: kernels, and copies
STREAM_COUNT = 5
COMPUTE_STREAM_MAX = 4
READ, WRITE = 0, 1


class Place(Structure):
    _fields_ = [("kind", c_int), ("index", c_int32)]


HOST = Place(0, 0)


class Stats(Structure):
    """dao_stats_t, in the order of DAO_STATS_LIST."""
    _fields_ = [(name, c_uint64) for name in (
        "requested_bytes", "used_bytes", "reserved_bytes", "peak_requested_bytes", "peak_used_bytes",
        "peak_reserved_bytes", "largest_hole_bytes", "limit_bytes", "live_count", "alloc_count",
        "free_count", "failed_count", "grow_count", "grow_pieces_count", "grow_fenced_count",
        "shrink_count", "remap_count", "remap_limit_count", "remap_device_count", "deferred_count",
        "driver_call_count", "slow_count", "miss_count", "lock_wait_count", "cached_bytes",
        "shared_bytes", "imported_bytes", "internal_error_count")]


class Peaks(Structure):
    _fields_ = [(name, c_uint64) for name in ("requested_bytes", "used_bytes", "reserved_bytes")]


class MoverConfig(Structure):
    _fields_ = [("pinned_bytes", c_uint64), ("pinned_device", c_int32), ("directory", c_char_p),
                ("file_bytes", c_uint64), ("file_engine", c_int)]


class DirectionStats(Structure):
    _fields_ = [(name, c_uint64) for name in (
        "queued_count", "done_count", "failed_count", "moved_bytes", "busy_ns")]


class MoverStats(Structure):
    _fields_ = [("directions", DirectionStats * 2), ("pinned_bytes", c_uint64), ("file_bytes", c_uint64),
                ("parked_count", c_uint64)]


class SwapTensor(Structure):
    _fields_ = [("size_bytes", c_uint64), ("is_persistent", c_bool)]


class SwapUse(Structure):
    _fields_ = [("tensor", c_uint32), ("access", c_int)]


class SwapKernel(Structure):
    _fields_ = [("time_ns", c_uint64), ("workspace_bytes", c_uint64), ("uses", c_void_p),
                ("use_count", c_uint32), ("is_repeatable", c_bool), ("stream", c_uint32)]


class SwapTier(Structure):
    _fields_ = [("in_bytes_per_second", c_uint64), ("out_bytes_per_second", c_uint64),
                ("shared_bytes_per_second", c_uint64), ("latency_ns", c_uint64), ("limit_bytes", c_uint64),
                ("duplex", c_int)]


class SwapProblem(Structure):
    _fields_ = [("tensors", POINTER(SwapTensor)), ("tensor_count", c_uint32),
                ("kernels", POINTER(SwapKernel)), ("kernel_count", c_uint32), ("capacity_bytes", c_uint64),
                ("host", SwapTier), ("file", SwapTier), ("alignment_bytes", c_uint32),
                ("page_bytes", c_uint64)]


class SwapBound(Structure):
    _fields_ = [(name, c_uint64) for name in (
        "step_ns", "compute_ns", "volume_ns", "window_ns", "in_bytes", "out_bytes", "peak_bytes",
        "least_capacity_bytes")] + [
            ("least_capacity_kernel", c_uint32), ("window_first_kernel", c_uint32),
            ("window_kernel_count", c_uint32), ("window_added_ns", c_uint64), ("window_binding", c_int),
            ("lookahead_ns", c_uint64), ("lookahead_kernels", c_uint32)]


class SwapCopy(Structure):
    _fields_ = [("tensor", c_uint32), ("is_in", c_bool), ("is_file", c_bool), ("offset_bytes", c_uint64),
                ("size_bytes", c_uint64), ("address_bytes", c_uint64), ("slot_bytes", c_uint64),
                ("done", c_int32 * STREAM_COUNT), ("done_beside", c_int32 * (COMPUTE_STREAM_MAX - 1))]


class SwapSchedule(Structure):
    _fields_ = [("copies", POINTER(SwapCopy) * STREAM_COUNT), ("copy_count", c_uint32 * STREAM_COUNT),
                ("kernel_after", c_void_p), ("use_address", c_void_p),
                ("workspace_address", c_void_p), ("residents", c_void_p),
                ("resident_count", c_uint32), ("arena_bytes", c_uint64), ("host_bytes", c_uint64),
                ("file_bytes", c_uint64), ("in_bytes", c_uint64), ("out_bytes", c_uint64),
                ("step_ns", c_uint64), ("fluid_step_ns", c_uint64), ("part_bytes", c_uint64),
                ("page_bytes", c_uint64), ("paged_begin", c_uint64), ("pages", c_void_p),
                ("page_count", c_uint32)]


class SwapPlanConfig(Structure):
    _fields_ = [("granularity", c_int), ("addresses", c_int), ("part_bytes", c_uint64),
                ("work_limit", c_uint64), ("time_limit_ns", c_uint64), ("is_cancelled", c_void_p),
                ("cancel_user", c_void_p)]


class SwapAction(Structure):
    _fields_ = [("copy", c_void_p), ("stream", c_int), ("tensor", c_uint32), ("offset_bytes", c_uint64),
                ("size_bytes", c_uint64), ("is_dead", c_bool)]


PressureFunction = ctypes.CFUNCTYPE(c_size_t, Place, c_size_t, c_void_p)

SIGNATURES = {
    "dao_torch_cpu_install_in_pages": (c_int, c_size_t),
    "dao_torch_cpu_storage_use_count": (c_size_t, c_void_p),
    "dao_torch_cpu_tensor_use_count": (c_size_t, c_void_p),
    "dao_last_message": (c_char_p,),
    "dao_status_name": (c_char_p, c_int),
    "dao_limit_set": (c_int, Place, c_size_t),
    "dao_trim": (c_int, Place, c_size_t, c_void_p),
    "dao_stats_get": (c_int, Place, POINTER(Stats)),
    "dao_stats_reset_peaks": (c_int, Place),
    "dao_peak_mark_add": (c_int, Place, POINTER(c_uint64)),
    "dao_peak_mark_move": (c_int, c_uint64, POINTER(Peaks)),
    "dao_peak_mark_remove": (c_int, c_uint64),
    "dao_pressure_callback_add": (c_int, Place, PressureFunction, c_void_p, POINTER(c_uint64)),
    "dao_pressure_callback_remove": (c_int, c_uint64),
    "dao_mover_create": (c_int, POINTER(MoverConfig), POINTER(c_void_p)),
    "dao_mover_destroy": (c_int, c_void_p),
    "dao_mover_out": (c_int, c_void_p, c_void_p, c_size_t, POINTER(c_void_p)),
    "dao_mover_in": (c_int, c_void_p, c_void_p, c_void_p),
    "dao_mover_done": (c_uint64, c_void_p, c_int),
    "dao_mover_stats_get": (c_int, c_void_p, POINTER(MoverStats)),
    "dao_parked_wait": (c_int, c_void_p),
    "dao_parked_release": (c_int, c_void_p),
    "dao_swap_find_bound": (c_int, POINTER(SwapProblem), POINTER(SwapBound)),
    "dao_swap_plan_make": (c_int, POINTER(SwapProblem), POINTER(SwapPlanConfig), POINTER(c_void_p)),
    "dao_swap_plan_schedule": (POINTER(SwapSchedule), c_void_p),
    "dao_swap_plan_destroy": (None, c_void_p),
    "dao_swap_follower_create": (c_int, POINTER(SwapProblem), POINTER(SwapSchedule), POINTER(c_void_p)),
    "dao_swap_follower_destroy": (None, c_void_p),
    "dao_swap_follower_restart": (None, c_void_p),
    "dao_swap_follower_next": (c_bool, c_void_p, POINTER(SwapAction)),
    "dao_swap_follower_kernel_end": (c_int, c_void_p, c_uint32),
    "dao_swap_follower_copy_end": (c_int, c_void_p, c_int),
}


class OffloadError(RuntimeError):
    """Training cannot go on within the limit; the text says what would."""


class LibraryError(RuntimeError):
    """A call of libdao was refused; `status` is its name."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Library:
    """The functions of SIGNATURES as attributes; check() raises for a status that is not DAO_OK."""

    def __init__(self, path):
        plug_in = ctypes.CDLL(path)  # and libdao with it, whose symbols are found through it
        for name, (result, *arguments) in SIGNATURES.items():
            function = getattr(plug_in, name, None)
            if function is None:
                raise LibraryError("DAO_ERR_UNSUPPORTED", f"{path} has no {name}(): it is of another version "
                                   "than the package dao; install both from one source")
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("dao_"), function)

    def check(self, status):
        if status != 0:
            raise LibraryError(self.status_name(status).decode(), self.last_message().decode())

    def peak(self, mark):
        """The most bytes in use since the mark was moved last; moves it."""
        peaks = Peaks()
        self.check(self.peak_mark_move(mark, byref(peaks)))
        return peaks.used_bytes

    def stats(self):
        stats = Stats()
        self.check(self.stats_get(HOST, byref(stats)))
        return stats


loaded = None


def load(limit_bytes):
    """Returns the library. From the first call on its host place is PyTorch's allocator, in pages that suit
    the limit of that call."""
    global loaded
    if loaded is None:
        path = os.environ.get("LIBDAO_TORCH_CPU", "libdao_torch_cpu.so")
        try:
            library = Library(path)
        except OSError as error:
            raise LibraryError("DAO_ERR_UNSUPPORTED", f"libdao_torch_cpu.so is not found ({error}); it is "
                               "built where libtorch-dev is: set LIBDAO_TORCH_CPU to its path") from None
        library.check(library.torch_cpu_install_in_pages(limit_bytes))
        loaded = library
    return loaded
