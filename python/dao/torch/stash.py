# SPDX-License-Identifier: Apache-2.0
"""Storages that autograd keeps for the backward pass, which leave memory and come back.

    pack --> Item: resident --start_out--> leaving --the copy has ended, nobody else has the storage--> away
               ^                                                                                         |
               +------------------------------ coming <----------------------start_in-------------------+

Storages move, never tensors: views, expanded tensors and tensors kept twice are one item. An item lives as
long as the handles that autograd has of it, and so does what is parked of it: it may come back as often as it
is asked for. Its memory is given up only when nobody but its handles has the storage. Then nobody can change
it, so that the versions that were compared last stay right."""
import time
from ctypes import byref, c_void_p

import torch

from dao.recording.storages import untyped_storage
from dao.torch import fields
from dao.torch.library import IN, OUT, MoverStats, OffloadError

now_ns = time.perf_counter_ns


class ChangedError(RuntimeError):
    """A kept tensor was changed in place: what PyTorch itself raises where no hooks are."""


def changed(shape, version, expected):
    return ChangedError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: a "
        f"tensor of {list(shape)} is at version {version}, expected version {expected}. Change a clone() of "
        "it, or find the operation that kept it by torch.autograd.set_detect_anomaly(True)")


class Cell(fields.Cell):
    """A tensor that was kept, and its version; once its storage has been away None, and what it takes to make
    it again. Nobody else has the tensor itself: each of them counts as one user of the storage."""

    __slots__ = ()

    def leave(self):
        tensor, self.tensor = self.tensor, None
        self.shape = (tensor.dtype, tensor.is_conj(), tensor.is_neg(), tensor.storage_offset(), tensor.size(),
                      tensor.stride())

    def make(self, storage):
        """Returns the tensor anew, over a storage."""
        dtype, is_conj, is_neg, *shape = self.shape
        tensor = torch.empty(0, dtype=dtype).set_(storage, *shape)
        tensor = tensor.conj() if is_conj else tensor  # a view, as what was kept
        return torch._neg_view(tensor) if is_neg else tensor


class Item(fields.Item):
    """A storage, and its key and size_bytes. `cells` are its tensors that were kept, empty once it has been
    away; `handles` counts those of autograd. `parked` is what the mover has of it, `in_ticket` that of its
    way in, `record` its number in the plan, or its record in a step that is learnt."""

    out_ticket = 0  # of the move under way, as in_ticket; 0: none
    error = None  # raised when it is unpacked
    is_stuck = False  # it could not be written
    is_listed = True  # it is one of the stash's, which weights are not always

    def is_sole(self, library):
        """True if nobody else has its storage: one reference is the storage's object, and one each of its
        cells."""
        return library.torch_cpu_storage_use_count(self.key) <= 1 + len(self.cells)

    def take(self):
        """Returns memory for it to come back to."""
        return untyped_storage(torch.empty(self.size_bytes, dtype=torch.uint8))

    def text(self):
        return "what autograd keeps"

    def note_version(self):
        """What is parked from now on is right as long as nobody writes to it: cells tell that of theirs."""

    def let_go(self):
        """Returns False if it cannot give its memory up."""
        return True

    def give_up(self):
        """Its memory goes."""
        for cell in self.cells:
            cell.leave()
        self.cells = []
        self.storage = None


class Lasting(Item):
    """An item whose storage stays the same object, that of tensors which the program has: it loses its bytes
    as it leaves. It is no item of the stash, unless it says so."""

    is_listed = False

    def __init__(self, storage):
        super().__init__(storage._cdata, storage, storage.nbytes())
        self.home = storage

    def take(self):
        self.home.resize_(self.size_bytes)
        return self.home

    def let_go(self):
        try:
            self.home.resize_(0)
        except RuntimeError:  # numpy() has made it a storage that keeps its size
            return False
        return True

    def give_up(self):
        self.storage = None


class Handle(fields.Handle):
    """A tensor as autograd keeps it. The stash is told of its end()."""

    __slots__ = ()
    is_noted = True

    def get(self):
        """Returns the tensor, which is brought back if it is away. Autograd makes a tensor of its own of it,
        so that the storage has one more user as long as anything has that."""
        item, cell = self.item, self.cell
        if item.storage is None or item.in_ticket:
            self.stash.fetch(item)
        tensor = cell.tensor
        if tensor is None:
            if item.error is not None:
                raise item.error
            return cell.make(item.storage)
        if tensor._version != cell.version:
            raise changed(tensor.shape, tensor._version, cell.version)
        return tensor


class Stash:
    """All items, and the moves of them that are under way."""

    def __init__(self, library, mover, owner):
        self.library, self.mover, self.owner = library, mover, owner
        self.by_key = {}  # of the storages that are in memory
        self.resident = {}  # items in memory, the one packed first first: an ordered set
        self.shared = {}  # of these, those that somebody else has
        self.leaving = []  # in the order in which their ways out were queued
        self.doomed = []  # storages that moves still use after their items' ends: (storage, tickets)
        self.away = {}  # items that are not in memory: an ordered set
        self.in_hand = None  # the item that is being unpacked
        self.is_short = False  # an allocation has found no memory
        self.tickets = [0, 0]  # of the last moves of each direction
        self.resident_bytes = self.wait_out_ns = self.wait_in_ns = self.fetch_count = self.drop_count = 0
        self.evicted_count = 0  # that left only because an allocation found no memory
        self.refused = None  # the latest move out that was refused
        self.on_drop = self.on_close = lambda item: None  # before the memory goes
        self.on_freed = lambda: None  # and behind that
        self.on_refused = lambda item, error: None  # there is no memory for it to come back to

    # ---- items begin and end ----

    def add(self, tensor, storage, key, size_bytes):
        """Returns the handle of a tensor to be kept."""
        cell = Cell(tensor)
        item = self.by_key.get(key)
        if item is None:
            item = self.by_key[key] = Item(key, storage, size_bytes)
            self.enlist(item)
        item.cells.append(cell)
        item.handles += 1
        return Handle(self, item, cell)

    def enlist(self, item):
        """An item that is in memory becomes one of the stash's."""
        self.resident[item] = self.shared[item] = None
        self.resident_bytes += item.size_bytes

    def delist(self, item):
        self.on_close(item)
        if item.storage is not None:
            self.forget_storage(item)
        else:
            del self.away[item]

    def end(self, item):
        """A handle ends, in any thread."""
        if self.owner.is_in_own_step():
            self.release(item)
        else:
            self.owner.end_late(self.release, item)

    def release(self, item):
        """A handle ends, and its item with the last one."""
        item.handles -= 1
        if item.handles > 0:
            return
        self.delist(item)
        self.discard(item)
        self.on_freed()

    def discard(self, item):
        """Nobody needs an item any more. Moves that are under way still do."""
        if item.parked is not None:
            is_out = not self.is_done(OUT, item.out_ticket)
            if is_out or not self.is_done(IN, item.in_ticket):
                self.doomed.append((item.storage, item.out_ticket, item.in_ticket))
            self.library.parked_release(item.parked)
            item.parked = None
        item.cells = []
        item.storage = None

    def forget_storage(self, item):
        """The key goes before the last reference: the address is used anew at once."""
        self.by_key.pop(item.key, None)
        self.resident.pop(item, None)
        self.shared.pop(item, None)
        self.resident_bytes -= item.size_bytes

    # ---- who has a storage ----

    def is_final(self, item):
        """True if nobody can write to an item's storage any more, or its bytes have left already."""
        return item.storage is None or item.parked is not None or item.is_sole(self.library)

    def note_shared(self, on_sole, leaves):
        """Looks which storages nobody else has any more. Where memory has been short, these begin to leave
        at once if `leaves`."""
        for item in list(self.shared):
            # asked twice, as garbage may be collected meanwhile: of what has ended nothing can be asked
            if item not in self.shared or not item.is_sole(self.library) or item not in self.shared:
                continue
            del self.shared[item]
            if on_sole is not None:
                on_sole(item)
            if leaves and self.is_short:
                self.start_out(item)

    def check_versions(self, item):
        for cell in item.cells:
            if cell.tensor._version != cell.version:
                item.error = item.error or changed(cell.tensor.shape, cell.tensor._version, cell.version)

    # ---- moves ----

    def is_done(self, direction, ticket):
        return ticket == 0 or self.library.mover_done(self.mover, direction) >= ticket

    def start_out(self, item):
        """Queues an item's way out. Returns False if the mover has no room."""
        if item.parked is not None or item.storage is None or item.is_stuck:
            return item.parked is not None
        parked = c_void_p()
        if self.library.mover_out(self.mover, item.storage.data_ptr(), item.size_bytes, byref(parked)) != 0:
            self.refused = self.library.last_message().decode()
            return False
        item.parked = parked.value
        item.note_version()
        self.tickets[OUT] += 1
        item.out_ticket = self.tickets[OUT]
        self.leaving.append(item)
        return True

    def leave_again(self, item):
        """An item that is back goes again, as soon as nobody has it: what is parked of it is right."""
        if item.storage is not None and item.parked is not None and not item.out_ticket:
            self.stay(item)
            self.leaving.append(item)

    def stay(self, item):
        """It does not leave, if it has begun to."""
        if item in self.leaving:
            self.leaving.remove(item)

    def start_in(self, item):
        """Allocates, which may take memory from other items, and queues an item's way in."""
        storage = self.take(item)
        self.check_back(item, self.library.mover_in(self.mover, item.parked, storage.data_ptr()))
        self.tickets[IN] += 1
        item.in_ticket = self.tickets[IN]
        item.storage, item.key = storage, storage._cdata
        if item.is_listed:
            self.by_key[item.key] = item
            self.resident[item] = None
            self.away.pop(item, None)
            self.resident_bytes += item.size_bytes

    def take(self, item):
        """Returns memory for something to come back to."""
        try:
            return item.take()
        except RuntimeError as error:
            self.on_refused(item, error)
            raise

    def check_back(self, item, status):
        """Raises if a way in has failed: what was away is lost."""
        if status != 0:
            raise OffloadError(
                f"{item.text()}, {item.size_bytes / 1e6:.1f} MB, has left memory and does not come back, as "
                f"{self.library.last_message().decode()}: see to the memory or file that offload(to=...) "
                "names, and load the latest checkpoint")

    def drop(self, item):
        """Gives an item's memory up. Returns the bytes; 0 if it has to stay."""
        if item.storage is None or item.parked is None or not item.is_sole(self.library):
            return 0
        if item is self.in_hand:
            return 0
        if not (self.is_done(OUT, item.out_ticket) and self.is_done(IN, item.in_ticket)):
            return 0
        if self.library.parked_wait(item.parked) != 0:
            self.refused = self.library.last_message().decode()
            return self.keep_for_good(item)
        if not item.let_go():
            return self.keep_for_good(item)
        self.on_drop(item)
        self.check_versions(item)
        item.out_ticket = item.in_ticket = 0
        if item.is_listed:
            self.forget_storage(item)
            self.away[item] = None
        item.give_up()
        self.on_freed()
        self.drop_count += 1
        return item.size_bytes

    def keep_for_good(self, item):
        self.library.parked_release(item.parked)
        item.parked, item.is_stuck = None, True
        return 0

    def drop_finished(self):
        """Gives up the memory of what has left by now."""
        done = self.library.mover_done(self.mover, OUT)
        leaving, self.leaving = self.leaving, []
        self.leaving[:0] = [item for item in leaving if item.storage is not None and not (
            item.out_ticket <= done and self.drop(item)) and item.parked is not None]
        self.drop_doomed()

    def drop_doomed(self):
        if self.doomed:
            doomed, self.doomed = self.doomed, []  # to which garbage adds that is collected meanwhile
            self.doomed.extend([(storage, out, back) for storage, out, back in doomed
                                if not (self.is_done(OUT, out) and self.is_done(IN, back))])

    def forget_ended(self):
        """Nothing is kept of what has ended on its way out."""
        self.leaving = [item for item in self.leaving if item.storage is not None]
        self.drop_doomed()

    def fetch(self, item):
        """Waits until an item is in memory."""
        begin = now_ns()
        if item.storage is None:
            self.fetch_count += 1
            self.start_in(item)
        if item.in_ticket:
            self.check_back(item, self.library.parked_wait(item.parked))
        item.in_ticket = 0
        self.wait_in_ns += now_ns() - begin

    # ---- memory is short ----

    def relieve(self, needed_bytes):
        """Frees memory: of what is on its way out, then of what will be read last. Returns the bytes."""
        begin = now_ns()
        self.is_short = True
        freed_bytes = self.relieve_doomed()
        victims = [item for item in self.leaving if item.storage is not None]
        chosen = set(victims)
        victims += [item for item in self.resident if item not in chosen]
        under_way = 0
        for item in victims:
            if freed_bytes + under_way >= needed_bytes:
                break
            if item.storage is None or item.is_stuck or not item.is_sole(self.library):
                continue  # it stays, or has ended as garbage meanwhile
            if not self.start_out(item):
                continue
            if self.is_done(OUT, item.out_ticket):
                freed_bytes += self.wait_and_drop(item, item not in chosen)
            else:
                under_way += item.size_bytes
        for item in victims:
            if freed_bytes >= needed_bytes:
                break
            if item.parked is not None and item.storage is not None and item.is_sole(self.library):
                freed_bytes += self.wait_and_drop(item, item not in chosen)
        self.wait_out_ns += now_ns() - begin
        return freed_bytes

    def wait_and_drop(self, item, on_demand=True):
        self.library.parked_wait(item.parked)  # the answer is looked at as it is dropped
        freed_bytes = self.drop(item)
        self.evicted_count += on_demand and freed_bytes > 0
        return freed_bytes

    def relieve_doomed(self):
        freed_bytes = 0
        doomed, self.doomed = self.doomed, []
        for storage, out_ticket, in_ticket in doomed:
            while not (self.is_done(OUT, out_ticket) and self.is_done(IN, in_ticket)):
                time.sleep(0.0001)
            if storage is not None and self.library.torch_cpu_storage_use_count(storage._cdata) == 1:
                freed_bytes += storage.nbytes()  # else somebody else has it
        return freed_bytes

    # ---- the end ----

    def bring_all(self):
        """Brings everything back, so that no item needs the mover any more."""
        for item in [*self.away, *self.resident]:
            self.bring_for_good(item)
        self.relieve_doomed()
        self.leaving = []

    def bring_for_good(self, item):
        if item.parked is None:  # it never left, or has ended as garbage meanwhile
            return
        item.handles += 1  # garbage that is collected in here does not end it
        try:
            self.fetch(item)
            self.check_back(item, self.library.parked_wait(item.parked))
            self.library.parked_release(item.parked)
            item.parked, item.out_ticket, item.in_ticket = None, 0, 0
        finally:
            self.release(item)

    def stats(self):
        stats = MoverStats()
        self.library.check(self.library.mover_stats_get(self.mover, byref(stats)))
        return stats
