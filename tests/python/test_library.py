# SPDX-License-Identifier: Apache-2.0
"""dao.torch.library declares structures of libdao again: each is as large as the library's own.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        DAO_STRUCT_SIZES=build/dev/struct_sizes python3 tests/python/test_library.py"""
import ctypes
import os
import subprocess

from offload_case import Case, main

from dao.torch import library


class Library(Case):
    def test_each_structure_is_as_large_as_the_librarys_own(self):
        printed = subprocess.run([os.environ["DAO_STRUCT_SIZES"]], check=True, capture_output=True, text=True)
        theirs = {name: int(size) for name, size in map(str.split, printed.stdout.splitlines())}
        structures = {name: value for name, value in vars(library).items()
                      if isinstance(value, type) and issubclass(value, ctypes.Structure)}
        del structures["Structure"]
        self.assertIn("Stats", structures)
        self.assertEqual({name: ctypes.sizeof(value) for name, value in structures.items()}, theirs)


if __name__ == "__main__":
    main()
