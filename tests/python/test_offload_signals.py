# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload() and the program's handlers of signals, such as Ctrl-C and timeouts: they wait for what
moves bytes, and nothing is lost.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload_signals.py [CASE...]"""
import gc
import itertools
import signal
import time

from offload_case import Case, EVERYTHING, SIDE, Wide, leave, main

import torch
from torch import nn

from dao.torch.interrupts import is_in_package

HOOK_PARTS = ("enlist", "relieve", "start_out", "drop", "start_in", "discard")
FIRST_S, GROWTH = 0.001, 1.2  # when timeouts come
OTHERS = (signal.SIGALRM, signal.SIGUSR1, signal.SIGTERM)


class TimeIsUp(Exception):
    pass


class Signals(Case):
    def setUp(self):
        super().setUp()
        self.set_handler(signal.SIGINT, signal.default_int_handler)
        self.calls = []  # of handlers: whether they came in the package

    def set_handler(self, number, handler):
        before = signal.signal(number, handler)
        self.addCleanup(signal.signal, number, before)

    def time_is_up(self, number, frame):
        self.calls.append(is_in_package(frame))
        raise TimeIsUp

    def signal_once(self, owner, name, *numbers):
        """Signals come as a method has been called."""
        method = getattr(owner, name)

        def call(*arguments):
            setattr(owner, name, method)
            for number in numbers:
                signal.raise_signal(number)
            return method(*arguments)

        setattr(owner, name, call)

    def wait(self):
        """What has come in the package is raised somewhere in here."""
        for _ in range(10000):
            time.sleep(0.001)

    def trained(self):
        """A model, a batch, and the gradients that it has to give."""
        torch.manual_seed(1)
        model, x = Wide(), torch.randn(8, 3, 40, 40)
        model(x).sum().backward()
        expected = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad(set_to_none=True)
        return model, x, expected

    def goes_on(self, o, model, x, expected):
        """Nothing is left of the step before, and the next one is right."""
        gc.collect()
        self.assertEqual((len(o.stash.resident), len(o.stash.away)), (0, 0))
        model.zero_grad(set_to_none=True)
        with o.step():
            model(x).sum().backward()
        for parameter, gradient in zip(model.parameters(), expected):
            self.assertTrue(torch.equal(parameter.grad, gradient))
        model.zero_grad(set_to_none=True)

    def raised_once_the_hook_has_ended(self, number, error):
        before = signal.getsignal(number)
        model, x, expected = self.trained()
        o = self.offload(model, limit="9MB")
        for name in HOOK_PARTS:
            with self.subTest(name=name):
                self.signal_once(o.stash, name, number)
                with self.assertRaises(error), o.step():
                    model(x).sum().backward()
                    self.wait()
                self.assertEqual(signal.getsignal(number), before)
                self.goes_on(o, model, x, expected)
        o.close()

    def test_ctrl_c_is_raised_once_the_hook_has_ended(self):
        self.raised_once_the_hook_has_ended(signal.SIGINT, KeyboardInterrupt)

    def test_what_other_signals_raise_is_raised_once_the_hook_has_ended(self):
        for number in OTHERS:
            self.set_handler(number, self.time_is_up)
            self.raised_once_the_hook_has_ended(number, TimeIsUp)
        self.assertEqual(self.calls, [False] * (len(OTHERS) * len(HOOK_PARTS)))

    def test_several_at_once_are_all_called(self):
        for number in OTHERS:
            self.set_handler(number, lambda number, frame: self.calls.append(number))
        model, x, expected = self.trained()
        o = self.offload(model, limit="9MB")
        self.signal_once(o.stash, "start_out", *OTHERS)
        with o.step():
            model(x).sum().backward()
        self.assertCountEqual(self.calls, OTHERS)
        self.goes_on(o, model, x, expected)

    def test_a_handler_may_read_weights_that_are_half_moved(self):
        torch.manual_seed(1)
        model, x = nn.Sequential(nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)), torch.randn(8, SIDE)
        values, states = [parameter.clone() for parameter in model.parameters()], []
        self.set_handler(signal.SIGUSR1, lambda number, frame: states.append(
            [parameter.clone() for parameter in model.parameters()]))
        o = self.offload(model)
        self.assertGreater(o.weights.relieve(EVERYTHING), 0)
        self.signal_once(o.stash, "start_in", signal.SIGUSR1)
        with o.step():
            model(x)
        self.assertEqual(len(states), 1)
        for value, found in zip(values, states[0]):
            self.assertTrue(torch.equal(value, found))

    def test_what_comes_at_the_end_of_a_step_is_raised_there(self):
        """Behind it the program may have no handler any more."""
        self.set_handler(signal.SIGALRM, self.time_is_up)
        o = self.offload()
        self.signal_once(o.weights, "end_step", signal.SIGALRM)
        with self.assertRaises(TimeIsUp), o.step():
            pass
        self.assertEqual(signal.getsignal(signal.SIGALRM), self.time_is_up)
        self.assertEqual(o.step_count, 1)

    def test_close_ends_what_it_does(self):
        model, x, expected = self.trained()
        o = self.offload(model, limit="1GiB")
        with o.step():
            loss = model(x).sum()
        leave(o)
        self.assertGreater(len(o.stash.away), 0)
        self.signal_once(o.stash, "start_in", signal.SIGINT)
        with self.assertRaises(KeyboardInterrupt):
            o.close()
        self.assertIsNone(o.mover)
        loss.backward()
        for parameter, gradient in zip(model.parameters(), expected):
            self.assertTrue(torch.equal(parameter.grad, gradient))

    def test_a_handler_of_the_step_may_be_set_again_behind_it(self):
        self.set_handler(signal.SIGUSR1, self.time_is_up)
        o = self.offload()
        with o.step():
            handler = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            signal.raise_signal(signal.SIGUSR1)
        self.assertIs(signal.getsignal(signal.SIGUSR1), signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, handler)
        for _ in range(2):
            with self.assertRaises(TimeIsUp):
                signal.raise_signal(signal.SIGUSR1)
                self.wait()
            with self.assertRaises(TimeIsUp), o.step():
                signal.raise_signal(signal.SIGUSR1)
                self.wait()

    def test_signals_at_any_time_lose_nothing(self):
        """Timeouts come at growing times of a step until one is not interrupted."""
        self.set_handler(signal.SIGALRM, self.time_is_up)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        model, x, expected = self.trained()
        o = self.offload(model, limit="9MB")
        for count in itertools.count(1):
            try:
                signal.setitimer(signal.ITIMER_REAL, FIRST_S * GROWTH**count)
                with o.step():
                    model(x).sum().backward()
            except TimeIsUp:
                pass
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.goes_on(o, model, x, expected)
            if len(self.calls) < count:
                break
        self.assertEqual(len(self.calls), count - 1)


if __name__ == "__main__":
    main()
