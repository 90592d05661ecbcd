# SPDX-License-Identifier: Apache-2.0
"""Recording of a step of PyTorch. recorder.py is where to start."""
