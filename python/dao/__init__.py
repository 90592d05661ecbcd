# SPDX-License-Identifier: Apache-2.0
"""Memory of training steps: record one, ask whether it fits, and how slow it is in less memory.

    import dao
    with dao.record("step.dao"):
        train_step()
    print(dao.fit("step.dao", memory="8GiB")["sentence"])

dao.torch.offload() trains in less memory than a step needs.

The functions on files need the command `dao`; record() needs PyTorch, from 1.13 on."""
from dao.command import CommandError, fit, info, plan, run, simulate

__version__ = "0.1.0"
__all__ = ["CommandError", "fit", "info", "plan", "record", "run", "simulate"]


def __getattr__(name):
    if name == "record":  # PyTorch is loaded by whoever records
        from dao.recording.recorder import record
        return record
    raise AttributeError(f"module 'dao' has no attribute {name!r}")
