# SPDX-License-Identifier: Apache-2.0
"""Containers of what may be away: what is asked for is brought back first.

What a program has taken out of them it holds a reference to, and what it holds stays (is_sole() of the
items). Views bring one element at a time, as it is reached."""
from collections import OrderedDict, defaultdict
from collections.abc import ItemsView, KeysView, MutableSequence, ValuesView


class Copied:
    """What makes another dictionary of one: it begins with a copy."""

    def __or__(self, other):
        return self.copy() | other

    def __ror__(self, other):
        return other | self.copy()

    def __repr__(self):
        return repr(self.copy())

    def __copy__(self):
        return self.copy()


class WatchedState(Copied, defaultdict):
    """An optimizer's state. Its keys are parameters, its values what `bring` brings back for one of them; for
    all of them with None."""

    def __init__(self, bring, touch, values):
        super().__init__(values.default_factory, values)
        self.bring, self.touch = bring, touch

    def __getitem__(self, parameter):
        self.bring(parameter)
        return super().__getitem__(parameter)

    def get(self, parameter, default=None):
        self.bring(parameter)
        return super().get(parameter, default)

    def pop(self, parameter, *default):
        self.bring(parameter)
        return super().pop(parameter, *default)

    def popitem(self):
        parameter = next(super().__reversed__(), None)
        self.touch(parameter)
        return parameter, self.pop(parameter)

    def setdefault(self, parameter, default=None):
        self.bring(parameter)
        return super().setdefault(parameter, default)

    def keys(self):
        return KeysView(self)

    def values(self):
        return ValuesView(self)

    def items(self):
        return ItemsView(self)

    def __iter__(self):  # also for dict(state), which so asks for each value
        for parameter in super().__iter__():
            self.touch(parameter)
            yield parameter

    def __reversed__(self):
        return reversed(list(self))

    def copy(self):
        return defaultdict(self.default_factory, self.items())

    def __reduce__(self):
        return self.copy().__reduce__()


class WatchedParameters(Copied, OrderedDict):
    """A module's parameters by their names, of which `touch` is told."""

    def __init__(self, touch, values):
        self.touch, self.kind = touch, type(values)
        super().__init__(values)

    def plain(self):
        """What it was."""
        return self.kind(self.items())

    def __getitem__(self, name):
        parameter = super().__getitem__(name)
        self.touch(parameter)
        return parameter

    def get(self, name, default=None):
        return self[name] if name in self else default

    def pop(self, name, *default):
        self.get(name)
        return super().pop(name, *default)

    def popitem(self, last=True):
        name = next(reversed(self) if last else iter(self))
        return name, self.pop(name)

    def values(self):
        return ValuesView(self)

    def items(self):
        return ItemsView(self)

    def __iter__(self):  # so that dict(parameters) asks for each value
        return super().__iter__()

    def copy(self):
        return OrderedDict(self.items())

    def __reduce__(self):
        return OrderedDict, (list(self.items()),)


class WatchedList(MutableSequence):
    """Parameters of an optimizer's group, of which `touch` is told. It is no list: C code looks into lists
    without asking them, and refuses this one."""

    def __init__(self, touch, values):
        self.touch, self.data = touch, list(values)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        found = self.data[index]
        for parameter in found if isinstance(index, slice) else (found,):
            self.touch(parameter)
        return found

    def __setitem__(self, index, value):
        self.data[index] = value

    def __delitem__(self, index):
        del self.data[index]

    def insert(self, index, value):
        self.data.insert(index, value)

    def copy(self):
        return list(self)

    __copy__ = copy

    def __add__(self, other):
        return list(self) + list(other)

    def __radd__(self, other):
        return other + list(self)

    def __mul__(self, count):
        return list(self) * count

    __rmul__ = __mul__

    def __eq__(self, other):
        return list(self) == (list(other) if isinstance(other, WatchedList) else other)

    __hash__ = None

    def __repr__(self):
        return repr(list(self))

    def __reduce__(self):
        return list, (list(self),)


def plain_list(group):
    """A group's parameters, without anybody noticing."""
    parameters = group["params"]
    return parameters.data if isinstance(parameters, WatchedList) else parameters
