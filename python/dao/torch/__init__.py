# SPDX-License-Identifier: Apache-2.0
"""PyTorch training in less memory than it needs: see offload()."""
from dao.torch.offload import Offload, OffloadError, offload

__all__ = ["Offload", "OffloadError", "offload"]
