# SPDX-License-Identifier: Apache-2.0
"""What it means for training that there is no memory: who has it, what was asked for, what would do."""
import os
import re
import traceback

from dao.recording.storages import storage_of
from dao.torch.library import LibraryError, OffloadError
from dao.torch.state import state_of
from dao.torch.weights import own_parameters

PAGE_BYTES = 2 << 20  # the largest pages in which the place has its memory (host_page_bytes)
ASKED = re.compile(r"([0-9]+) bytes asked for")  # in libdao's messages
PACKAGE = os.path.dirname(__file__)
ADVICE = ("Raise the limit, make the batch smaller, or have layers run again for the backward pass "
          "(torch.utils.checkpoint).")


class Holders:
    """Who has the memory as an allocation fails."""

    def __init__(self, o, needed_bytes):
        parameters = [parameter for module in o.model.modules()
                      for parameter in dict.values(own_parameters(module) or {}) if parameter is not None]
        grads = [p.grad for p in parameters if p.grad is not None]
        stats = o.library.stats()
        kinds = {"weights and buffers": [*parameters, *o.model.buffers()], "gradients": grads,
                 "optimizer state": [tensor for optimizer in o.optimizers for tensor in state_of(optimizer)]}
        self.sums = {}
        for kind, tensors in kinds.items():
            storages = {s._cdata: s.nbytes() for s in map(storage_of, tensors) if s is not None}
            self.sums[kind] = sum(storages.values())  # what is away has 0 bytes
        self.sums["kept for backward, in use"] = o.stash.resident_bytes
        self.sums["other tensors"] = max(0, stats.used_bytes - sum(self.sums.values()))
        self.needed_bytes, self.used_bytes = needed_bytes, stats.used_bytes
        self.reserved_bytes, self.hole_bytes = stats.reserved_bytes, stats.largest_hole_bytes

    def text(self, limit_bytes, asking):
        held = ", ".join(f"{kind} {size / 1e6:.1f} MB" for kind, size in self.sums.items() if size)
        holes, pages = "", -(-self.needed_bytes // PAGE_BYTES) * PAGE_BYTES
        if self.used_bytes + self.needed_bytes <= limit_bytes:
            holes = (" These bytes would fit, but not in one piece: the largest hole between tensors has "
                     f"{self.hole_bytes / 1e6:.1f} MB. A limit of "
                     f"{(self.reserved_bytes + pages) / 1e6:.1f} MB had been enough here.")
        return (f"here it needs at least {(self.used_bytes + self.needed_bytes) / 1e6:.1f} MB, as {asking} "
                f"asks for {self.needed_bytes / 1e6:.1f} MB beside {self.used_bytes / 1e6:.1f} MB that "
                f"cannot leave ({held}).{holes}")


def explain(o, error, cause):
    """Returns what an error in a step means, if it is that memory is short, or that bytes do not move; else
    None. `cause` is what a hook has raised, where autograd has made the error of that."""
    if isinstance(cause, OffloadError) or not (isinstance(cause, LibraryError) or "libdao" in str(cause)):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    others = [frame for frame in frames if os.path.dirname(frame.filename) != PACKAGE] or frames
    where = f"{others[-1].name}, {others[-1].filename}:{others[-1].lineno}: {others[-1].line}"
    limit, asked = f"{o.limit_bytes / 1e6:.1f} MB", ASKED.search(str(cause))
    if asked is None:
        return f"this step cannot go on within {limit}: {cause}. The operator is in {where}"
    needed_bytes = int(asked[1])
    if o.holders is None or o.holders.needed_bytes != needed_bytes:  # nobody was asked to free as much
        o.holders = Holders(o, needed_bytes)
    asking = "an operator" if cause is error and others[-1] is frames[-1] else "what comes back"
    refused = f" The latest move out was refused: {o.stash.refused}." if o.stash.refused else ""
    return (f"this step cannot run within {limit}: {o.holders.text(o.limit_bytes, asking)}{refused} "
            f"The operator is in {where}. {ADVICE}")


def no_room(o, item, error):
    """What it means that something does not come back outside of a step."""
    return (f"no room within {o.limit_bytes / 1e6:.1f} MB for {item.text()}, {item.size_bytes / 1e6:.1f} MB, "
            f"which the program asks for outside of a step: {error}. What it has of others stays, and a loop "
            "over parameters() has all of them: ask for one after the other, close() first, or raise the "
            "limit")
