#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands on a terminal: how far they are, Ctrl-C, and that nothing is coloured.

    test_terminal.py DAO"""
import fcntl
import os
import pty
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

DAO = None
LIMIT_S = 120
BUFFERS = 200
PERCENT = r"planning: \d+ %, [\d.]+ s / 1000\.0 s, [\d.]+ s a second, \d+ s left"
CLEAN = "\r\x1b[K"  # takes the line away
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def take_ctrl_c():
    """A shell's jobs in the background ignore it, and so would their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command whose output and standard error are a terminal, and its input unless there is another."""

    def __init__(self, case, *arguments, stdin=None, stdout=None, environment=(), columns=80):
        self.text = ""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
        self.process = subprocess.Popen(
            [DAO, *arguments], stdin=slave if stdin is None else stdin, stdout=stdout or slave, stderr=slave,
            env={**os.environ, **dict(environment)}, start_new_session=True, preexec_fn=take_ctrl_c)
        os.close(slave)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)

    def read_until(self, pattern):
        """Reads until the pattern is there; without one, until the command has closed the terminal."""
        signal.alarm(LIMIT_S)
        while pattern is None or not re.search(pattern, self.text):
            try:
                part = os.read(self.master, 65536)
            except OSError:
                break
            self.text += part.decode()
        signal.alarm(0)
        if pattern is not None and not re.search(pattern, self.text):
            raise AssertionError(f"{pattern!r} is not in {self.text!r}")

    def press_ctrl_c(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        self.read_until(None)
        os.close(self.master)
        return self.process.wait(LIMIT_S)


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "file")

    def write_puzzle(self):
        """Lives whose alignments keep every plan above the bound, so that it is never proved to be best."""
        numbers = random.Random(1)
        with open(self.path, "w") as file:
            file.write("id,lower,upper,size,alignment\n")
            for i in range(BUFFERS):
                begin = numbers.randrange(40)
                end = begin + numbers.randrange(1, 20)
                file.write(f"{i},{begin},{end},{numbers.randrange(40, 100)},{numbers.choice([1, 32, 64])}\n")
        return ["plan", self.path, "--method", "search", "--budget", "1000"]

    def write_step(self):
        """A step that takes long to plan where not all of it fits."""
        step = self.path + ".dao"
        with open(step, "w") as file:
            file.write("dao-step 1\n")
            for i in range(4000):
                file.write(f"tensor w{i} {100000 + i % 97 * 512}\n")
            for i in range(4000):
                file.write(f"op o{i} {20 + i % 13} *w{i} <w{i * 7 % 4000} <w{i * 31 % 4000}\n")
            file.write("end\n")
        return step

    def check_clean(self, text):
        """Behind the last line of progress nothing of it is left."""
        self.assertIn(CLEAN, text)
        self.assertNotRegex(text[text.rindex(CLEAN) + len(CLEAN):], r" a second| left")

    def test_a_plan_with_a_budget_tells_how_far_it_is_and_ends_with_what_it_has(self):
        out = self.path + ".csv"
        plan = Terminal(self, *self.write_puzzle(), "-o", out)
        plan.read_until(PERCENT)
        plan.press_ctrl_c()
        self.assertEqual(plan.end(), 130)
        self.check_clean(plan.text)
        self.assertRegex(plan.text[plan.text.rindex(CLEAN):], r"search +\d+")
        with open(out) as file:
            self.assertEqual(len(file.readlines()), 1 + BUFFERS)

    def test_reading_tells_how_much_and_ctrl_c_leaves_a_clean_line(self):
        reader, writer = os.pipe()
        info = Terminal(self, "info", "-", stdin=reader)
        os.close(reader)
        os.write(writer, b"id,lower,upper,size\n" + b"a,1,2,3\n" * 4000)
        info.read_until(r"reading standard input: 0\.0 MiB, .* a second")
        info.press_ctrl_c()
        self.assertEqual(info.end(), -signal.SIGINT)
        os.close(writer)
        self.check_clean(info.text)

    def test_ctrl_c_leaves_no_half_file(self):
        out = self.path + ".pickle"
        with open(self.path, "w") as file:
            file.write("id,lower,upper,size\n")
            file.writelines(f"{i},{i},{i + 9},{512 + i % 7}\n" for i in range(60000))
        subprocess.run([DAO, "convert", self.path, "-o", out], check=True, capture_output=True)
        with open(out, "rb") as file:
            whole = file.read()
        os.remove(out)
        convert = Terminal(self, "convert", self.path, "-o", out)
        folder, name = os.path.split(self.path)
        while convert.process.poll() is None and os.listdir(folder) == [name]:
            pass  # until it is being written
        convert.press_ctrl_c()
        code = convert.end()
        self.assertIn(code, (-signal.SIGINT, 0))
        self.assertTrue(code != 0 or os.path.exists(out))
        if os.path.exists(out):  # the signal may come behind the last byte
            with open(out, "rb") as file:
                self.assertEqual(file.read(), whole)
            os.remove(out)
        self.assertEqual(os.listdir(folder), [name])

    def test_rows_that_were_found_are_kept(self):
        rows = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        simulate = Terminal(self, "simulate", self.write_step(), "--sweep", "100%..10%", "--link-in", "1GB/s",
                            stdout=rows)
        os.close(rows)
        simulate.read_until(r"simulating: \d+ %, [1-9]\d* / \d+")
        simulate.press_ctrl_c()
        self.assertEqual(simulate.end(), -signal.SIGINT)
        self.check_clean(simulate.text)
        with open(self.path) as file:
            self.assertRegex(file.read(), r"(?m)^online +100\.0%")

    def test_fit_tells_how_many_plans_are_left_and_ends_with_what_it_has(self):
        fit = Terminal(self, "fit", self.write_step(), "--memory", "300MB", "--link", "1GB/s")
        fit.read_until(r"planning for less memory: \d+ %, [1-9]\d* / \d+")
        fit.press_ctrl_c()
        self.assertEqual(fit.end(), 130)
        self.check_clean(fit.text)
        said = " ".join(fit.text[fit.text.rindex(CLEAN):].split())
        self.assertRegex(said, r"It does not fit: .* With swapping it fits, within .* [\d.]+ % longer .* "
                               r"Ctrl-C ended the search")
        self.assertRegex(fit.text, r"a step +\d+\.\d+ ms")

    def test_a_plan_that_runs_kernels_again_tells_its_percent(self):
        plan = Terminal(self, "plan", self.write_step(), "--recompute", "--capacity", "300MB", "--link",
                        "1GB/s")
        plan.read_until(r"planning: [1-9]\d* %, \d+ / 1000, .* left")
        plan.press_ctrl_c()
        self.assertEqual(plan.end(), -signal.SIGINT)
        self.check_clean(plan.text)

    def test_a_wide_table_tells_what_runs_again(self):
        step = self.path + ".dao"
        with open(step, "w") as file:
            file.write("dao-step 1\n" + "".join(f"tensor x{i} 4096\n" for i in range(9)))
            file.write("op f0 10 >x0\n")
            file.writelines(f"op f{i} 10 <x{i - 1} >x{i}\n" for i in range(1, 9))
            file.writelines(f"op b{i} 10 <x{i} -x{i}\n" for i in range(8, -1, -1))
            file.write("end\n")
        again = "first ms +again ms +MiB in"
        for columns, scheme, head in ((120, "hybrid", again), (120, "all", again),
                                      (120, "online", "first ms +MiB in"), (80, "hybrid", "ratio +MiB in")):
            with self.subTest(columns=columns, scheme=scheme):
                simulate = Terminal(self, "simulate", step, "--scheme", scheme, columns=columns)
                self.assertEqual(simulate.end(), 0)
                self.assertRegex(simulate.text, head)
                length = len(re.search(r"(?m)^scheme .*", simulate.text)[0])
                for row in re.findall(r"(?m)^\S+ +50\.0% +\d.*", simulate.text):
                    self.assertEqual(len(row), length)
                hybrids = re.findall(r"(?m)^hybrid +50\.0% +\d", simulate.text)
                self.assertEqual(len(hybrids), scheme != "online")

    def test_elsewhere_it_is_lines_without_marks_of_a_terminal(self):
        plan = subprocess.Popen([DAO, *self.write_puzzle()], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, preexec_fn=take_ctrl_c)
        self.assertRegex(plan.stderr.readline(), "^" + PERCENT + "\n$")
        plan.send_signal(signal.SIGINT)
        self.assertEqual(plan.wait(LIMIT_S), 130)
        plan.stderr.close()

    def test_nothing_is_coloured_with_or_without_no_color(self):
        for environment in ({}, {"NO_COLOR": "1"}):
            for arguments in (["--help"], ["help", "plan"], ["info"], ["plan", "--generate", "tf:100"],
                              ["plan", "--budgte"], ["info", "/nowhere/x"]):
                command = Terminal(self, *arguments, environment=environment)
                command.end()
                self.assertNotRegex(command.text, COLOUR)
                self.assertGreater(len(command.text), 20)


if __name__ == "__main__":
    DAO = sys.argv.pop(1)
    unittest.main()
