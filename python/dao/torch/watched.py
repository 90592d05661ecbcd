# SPDX-License-Identifier: Apache-2.0
"""Containers of what may be away: what is asked for is brought back first.

What a program has taken out of them it holds a reference to, and what it holds stays (is_sole() of the
items). Views bring one element at a time, as it is reached."""
from collections import OrderedDict, defaultdict
from collections.abc import ItemsView, ValuesView


class WatchedState(defaultdict):
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

    def values(self):
        return ValuesView(self)

    def items(self):
        return ItemsView(self)

    def __iter__(self):  # also for dict(state), which so asks for each value
        for parameter in super().__iter__():
            self.touch(parameter)
            yield parameter

    def __repr__(self):
        return repr(self.copy())

    def copy(self):
        return defaultdict(self.default_factory, self.items())

    __copy__ = copy

    def __reduce__(self):
        return self.copy().__reduce__()


class WatchedParameters(OrderedDict):
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

    def __repr__(self):
        return repr(self.copy())

    def copy(self):
        return OrderedDict(self.items())

    __copy__ = copy

    def __reduce__(self):
        return OrderedDict, (list(self.items()),)


class WatchedList(list):
    """Parameters of an optimizer's group, of which `touch` is told."""

    def __init__(self, touch, values):
        self.touch = touch
        super().__init__(values)

    def __iter__(self):
        for parameter in super().__iter__():
            self.touch(parameter)
            yield parameter

    def __reversed__(self):
        return iter(self[::-1])

    def __getitem__(self, index):
        found = super().__getitem__(index)
        for parameter in found if isinstance(index, slice) else (found,):
            self.touch(parameter)
        return found

    def pop(self, index=-1):
        self.touch(super().__getitem__(index))
        return super().pop(index)

    def copy(self):
        return list(self)

    __copy__ = copy

    def __add__(self, other):
        return list(self) + other

    def __reduce__(self):
        return list, (list(self),)
