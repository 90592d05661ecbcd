# SPDX-License-Identifier: Apache-2.0
"""dao.torch.offload() beside other threads: what they may do, what is refused, and that nothing hangs.

    LIBDAO_TORCH_CPU=build/dev/integrations/libdao_torch_cpu.so PYTHONPATH=python \\
        python3 tests/python/test_offload_threads.py [CASE...]"""
import faulthandler
import gc
import threading
from multiprocessing.pool import ThreadPool

from offload_case import EVERYTHING, SIDE, main
from test_offload_weights import WeightsCase

import torch
from torch import nn

import dao.torch
from dao.torch import library

PATIENCE_S = 240  # of a case until a hang is one: then all threads say where they are, before ctest ends it
STEP_COUNT = 4
LIMIT_PERCENT = 75  # of what a step takes without a limit: the rest has to leave
OTHERS_BYTES = 1 << 18  # beside that: blocks of another thread part free memory, whenever it makes them
DEPTH = 8


class Threads(WeightsCase):
    def setUp(self):
        super().setUp()
        faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def make(self, kind=torch.optim.SGD):
        torch.manual_seed(3)
        model = nn.Sequential(*(nn.Sequential(nn.Linear(SIDE, SIDE), nn.Tanh()) for _ in range(DEPTH)))
        return model, kind(model.parameters(), lr=0.01)

    def train(self, model, optimizer, x=None):
        loss = model(torch.ones(SIDE, SIDE) if x is None else x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def expected(self, batches=(None,) * STEP_COUNT):
        model, optimizer = self.make()
        return [self.train(model, optimizer, x) for x in batches]

    def within_a_limit(self):
        """A model whose steps take more than the limit."""
        gc.collect()
        self.library.check(self.library.trim(library.HOST, 0, None))
        self.library.check(self.library.stats_reset_peaks(library.HOST))
        others_bytes = self.library.stats().used_bytes
        self.train(*self.make())
        step_bytes = self.library.stats().peak_used_bytes - others_bytes
        gc.collect()
        self.library.check(self.library.trim(library.HOST, 0, None))
        model, optimizer = self.make()
        limit_bytes = others_bytes + OTHERS_BYTES + step_bytes * LIMIT_PERCENT // 100
        return self.offload(model, optimizer, limit_bytes), model, optimizer

    def beside(self, work):
        """Calls `work` again and again in another thread until what is returned is called."""
        ended, errors = threading.Event(), []

        def repeat():
            try:
                while not ended.is_set():
                    work()
            except BaseException as error:
                errors.append(error)

        def end():
            ended.set()
            thread.join()
            self.assertEqual(errors, [])

        thread = threading.Thread(target=repeat)
        thread.start()
        return end

    def elsewhere(self, function):
        """Returns what a function raises in another thread."""
        raised = []

        def call():
            try:
                function()
                raised.append(None)
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return raised[0]

    def refused(self, function):
        error = self.elsewhere(function)
        self.assertIsInstance(error, RuntimeError)
        self.assertRegex(str(error), "another thread is in a step")

    def trains_beside(self, work):
        expected = self.expected()
        o, model, optimizer = self.within_a_limit()
        end = self.beside(work)
        found = []
        try:
            for _ in range(STEP_COUNT):
                self.library.check(self.library.stats_reset_peaks(library.HOST))
                with o.step():
                    found.append(self.train(model, optimizer))
                self.assertLessEqual(self.library.stats().peak_reserved_bytes, o.limit_bytes)
        finally:
            end()
        self.assertEqual(found, expected)
        self.assertGreater(o.stash.drop_count, 0)


class OthersMay(Threads):
    """What other threads do while one is in steps."""

    def test_allocate(self):
        sizes = [1 << 12, 1 << 16, 1 << 18]

        def allocate():
            try:
                tensors = [torch.ones(size // 4) for size in sizes]
                self.assertTrue(all(tensor[-1] == 1 for tensor in tensors))
            except RuntimeError as error:  # what the limit has left was not enough
                self.assertIn("libdao", str(error))

        self.trains_beside(allocate)

    def test_compute_and_collect_garbage(self):
        other = nn.Linear(64, 64)

        def collect():
            loss = other(torch.ones(4, 64)).sum()
            loss.backward()
            ring = [loss]
            ring.append(ring)
            gc.collect(1)

        self.trains_beside(collect)

    def test_load_batches(self):
        batches = [torch.full((SIDE, SIDE), i / STEP_COUNT) for i in range(STEP_COUNT)]
        expected = self.expected(batches)
        o, model, optimizer = self.within_a_limit()
        found = []
        with ThreadPool(2) as pool:
            for x in pool.imap(torch.clone, batches):
                with o.step():
                    found.append(self.train(model, optimizer, x))
        self.assertEqual(found, expected)

    def test_end_what_a_step_has_kept(self):
        o, model, _ = self.started()
        with o.step():
            kept = [model(torch.ones(SIDE, SIDE))]
            count = len(o.stash.resident)
            self.assertIsNone(self.elsewhere(kept.clear))
            self.assertEqual(len(o.stash.resident), count)  # nothing of the owner's was touched
            self.assertGreater(len(o.owner.late), 0)
            output = model(torch.ones(SIDE, SIDE))
            self.assertEqual(len(o.owner.late), 0)
        del output
        self.assertEqual(len(o.stash.resident), 0)

    def test_end_what_outlives_the_offload(self):
        o, model, _ = self.started()
        with o.step():
            kept = [model(torch.ones(SIDE, SIDE))]
        o.close()
        self.assertIsNone(self.elsewhere(kept.clear))
        self.assertEqual(len(o.owner.late) + len(o.stash.resident), 0)

    def test_read_weights_that_are_there(self):
        o, model, _ = self.started()
        with o.step():
            self.assertIsNone(self.elsewhere(lambda: model[0][0].weight.sum().item()))


class OthersMayNot(Threads):
    def test_run_the_backward_pass_of_a_step(self):
        o, model, _ = self.started()
        with o.step():
            loss = model(torch.ones(SIDE, SIDE)).sum()
            self.refused(loss.backward)
            loss = model(torch.ones(SIDE, SIDE)).sum()
            loss.backward()

    def test_go_on_with_a_graph_whose_backward_pass_was_refused(self):
        """Autograd frees a graph as it goes, and makes an error of its own of what a hook raises."""
        o, model, optimizer = self.started()
        first = torch.ones(4, requires_grad=True)
        with o.step():
            loss = model(torch.ones(SIDE, SIDE)).sum() * first.exp().sum()
            self.refused(loss.backward)
            with self.assertRaisesRegex(RuntimeError, "a second time"):
                loss.backward()
            self.train(model, optimizer)

    def test_add_to_its_gradients(self):
        o, model, _ = self.started()
        x = torch.ones(SIDE, SIDE)
        with o.step():
            model(x).sum().backward()
            self.refused(lambda: model(x).sum().backward())  # a graph of its own, which no hook has seen

    def test_call_the_optimizer(self):
        o, model, optimizer = self.started()
        with o.step():
            self.train(model, optimizer)
            self.refused(optimizer.step)
            self.refused(optimizer.zero_grad)
            self.refused(model.zero_grad)

    def test_call_a_zero_grad_of_the_programs_own(self):
        class Own(torch.optim.SGD):
            called = False

            def zero_grad(self, set_to_none=True):
                self.called = True

        model, _ = self.make()
        optimizer = Own(model.parameters(), lr=0.01)
        o = self.offload(model, optimizer)
        with o.step():
            self.refused(optimizer.zero_grad)
            self.assertFalse(optimizer.called)
            optimizer.zero_grad()
        self.assertTrue(optimizer.called)

    def test_ask_for_what_is_away(self):
        o, model, _ = self.started()
        expected = model[0][0].weight.sum().item()
        with o.step():
            o.weights.relieve(EVERYTHING)
            self.refused(lambda: model[0][0].weight)
            self.assertEqual(model[0][0].weight.sum().item(), expected)
            o.weights.relieve(EVERYTHING)
        found = []
        self.assertIsNone(self.elsewhere(lambda: found.append(model[0][0].weight.sum().item())))
        self.assertEqual(found, [expected])

    def test_begin_a_step_or_end_the_offload(self):
        o, _, _ = self.started()
        with o.step():
            with self.assertRaisesRegex(dao.torch.OffloadError, "a step is in a step already"):
                with o.step():
                    pass
            self.refused(o.step().__enter__)
            self.refused(o.close)
        with o.step():
            pass


class BetweenSteps(Threads):
    """Where the last one that asked for something is another thread, which is in no step."""

    def started_elsewhere(self):
        """Returns an offload, its model, and what a step of another thread has kept."""
        model, optimizer = self.make()
        o, kept = self.offload(model, optimizer), []

        def step():
            with o.step():
                kept.append(model(torch.ones(SIDE, SIDE)))

        self.assertIsNone(self.elsewhere(step))
        return o, model, kept

    def test_what_an_allocation_of_its_makes_leave_is_left_alone(self):
        model, optimizer = self.make()
        o, kept, counts = self.offload(model, optimizer), [], []
        moves, tried = threading.Event(), threading.Event()

        def relieve():
            with o.step():
                kept.append(model(torch.ones(SIDE, SIDE)))
            drop = o.stash.wait_and_drop

            def wait_and_drop(*arguments):
                moves.set()
                tried.wait()
                return drop(*arguments)

            o.stash.wait_and_drop = wait_and_drop
            o.relieve(library.HOST, EVERYTHING, None)  # as an allocation does
            self.assertEqual(o.errors, [])

        thread = threading.Thread(target=relieve)
        thread.start()
        moves.wait()
        is_free = o.owner.lock.acquire(blocking=False)  # which a step waits for
        if is_free:
            o.owner.lock.release()
        counts.append(len(o.stash.resident))
        kept.clear()
        counts.append(len(o.stash.resident))
        tried.set()
        thread.join()
        self.assertFalse(is_free)
        self.assertEqual(counts[0], counts[1])  # what was dropped waited
        self.assertEqual((len(o.owner.late), len(o.stash.resident), len(o.stash.away)), (0, 0, 0))
        with o.step():
            model(torch.ones(SIDE, SIDE)).sum().backward()

    def test_what_it_has_kept_is_freed_as_it_is_dropped(self):
        o, _, kept = self.started_elsewhere()
        self.assertGreater(len(o.stash.resident), 0)
        kept.clear()
        self.assertEqual((len(o.owner.late), len(o.stash.resident)), (0, 0))

    def test_another_offload_ends_and_leaves_its_limit_to_it(self):
        other, *_others = self.started()  # whose memory stays in use
        o, *_held = self.started_elsewhere()
        self.library.check(self.library.trim(library.HOST, 0, None))
        o.limit_bytes = self.library.stats().reserved_bytes - o.stash.resident_bytes // 2
        other.close()
        self.assertEqual(self.library.stats().limit_bytes, o.limit_bytes)


class InTurns(Threads):
    """Steps of one offload, each in another thread."""

    def test_steps_learn_the_same_in_threads_of_their_own(self):
        expected = self.expected()
        o, model, optimizer = self.within_a_limit()
        found = []

        def step():
            with o.step():
                found.append(self.train(model, optimizer))

        for _ in range(STEP_COUNT):
            self.assertIsNone(self.elsewhere(step))
        self.assertEqual(found, expected)

    def test_a_step_that_fails_leaves_the_next_one_to_any_thread(self):
        expected = self.expected()
        o, model, optimizer = self.within_a_limit()
        found = []

        def fail():
            with o.step():
                model(torch.ones(SIDE, SIDE))
                raise KeyError("a batch is missing")

        def step():
            with o.step():
                found.append(self.train(model, optimizer))

        for i in range(STEP_COUNT):
            self.assertIsInstance(self.elsewhere(fail), KeyError)
            self.assertIsNone(self.elsewhere(step) if i % 2 else step())
        self.assertEqual(found, expected)

    def test_of_two_threads_one_is_in_a_step(self):
        o, model, optimizer = self.started()
        counts, lock = {"in": 0, "most": 0, "refused": 0, "done": 0}, threading.Lock()

        def steps():
            for _ in range(8):
                try:
                    with o.step():
                        with lock:
                            counts["in"] += 1
                            counts["most"] = max(counts["most"], counts["in"])
                        self.train(model, optimizer)
                        with lock:
                            counts["in"] -= 1
                            counts["done"] += 1
                except dao.torch.OffloadError as error:
                    self.assertIn("another thread", str(error))
                    with lock:
                        counts["refused"] += 1

        threads = [threading.Thread(target=steps) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((counts["most"], counts["done"] + counts["refused"]), (1, 16))
        self.assertGreater(counts["done"], 0)


if __name__ == "__main__":
    main()
