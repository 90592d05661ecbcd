# SPDX-License-Identifier: Apache-2.0
"""Which suites see a change of a source, and whether one of them fails with it. A mutant is compiled alone
and linked with the objects of build/dev to a libdao.so of its own; the suites are those of build/dev, which
load that one first, and LeakSanitizer, for what is not freed. Nothing of the tree or of build/dev changes."""
import glob
import json
import os
import resource
import shlex
import signal
import subprocess
import tempfile

# Bounds on a suite that a mutant keeps from ending: far above what any suite takes. Reaching one is a failure
# of the suite.
CPU_SECONDS = 120
WAIT_SECONDS = 300
DATA_BYTES = 16 << 30
# Suites of whole programs that are too long to run once a mutant; what they see, shorter ones see as well.
NOT_RUN = {"test_schedules", "test_executor_faults"}


class Build:
    def __init__(self, root, folder, scratch):
        self.root, self.folder, self.scratch = root, folder, scratch
        os.makedirs(scratch, exist_ok=True)
        with open(os.path.join(folder, "compile_commands.json")) as file:
            self.compiles = {os.path.relpath(entry["file"], root): shlex.split(entry["command"])
                             for entry in json.load(file) if "dao_objects.dir" in entry["command"]}
        commands = subprocess.run(["ninja", "-C", folder, "-t", "commands", "libdao.so"], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout.split("\n")
        link = [line for line in commands if "-shared" in line and "libdao.so" in line][-1]
        self.link = shlex.split(link.removeprefix(": && ").removesuffix(" && :"))
        self.tests = self.find_tests()
        self.seconds = self.read_seconds()
        self.passes = {}  # whether a suite does without a mutant, by name: one that does not kills none
        self.leaks = self.find_leaks_library()

    def find_tests(self):
        """The build's tests by name. They are listed in a folder of their own: ctest writes its log anew
        whatever it is asked for, and a run of all tests may be under way in the build's."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as listing:
            with open(os.path.join(listing, "CTestTestfile.cmake"), "w") as file:
                file.write(f'subdirs("{os.path.abspath(self.folder)}")\n')
            shown = subprocess.run(["ctest", "--test-dir", listing, "--show-only=json-v1"], check=True,
                                   stdout=subprocess.PIPE, text=True).stdout
        return {test["name"]: test for test in json.loads(shown)["tests"] if "command" in test}

    def find_leaks_library(self):
        """The compiler's LeakSanitizer, which works on any program that loads it; None: it is not there."""
        result = subprocess.run([self.link[0], "-print-file-name=liblsan.so"], stdout=subprocess.PIPE,
                                text=True)
        path = result.stdout.strip()
        return path if os.path.isabs(path) else None

    def read_seconds(self):
        """What each suite took when it last ran, by name."""
        path = os.path.join(self.folder, "Testing", "Temporary", "CTestCostData.txt")
        if not os.path.exists(path):
            return {}
        with open(path) as file:
            rows = [line.split() for line in file]
        return {name: float(seconds) for name, _, seconds in (row for row in rows if len(row) == 3)}

    def suites_in(self, folder, whole):
        pattern = os.path.join(self.root, "tests", folder, "**" if whole else "", "test_*.c")
        return [self.name_of(os.path.basename(path)[:-2]) for path in glob.glob(pattern, recursive=True)]

    def name_of(self, suite):
        """Its name in this build: some suites run on the loopback driver alone."""
        return suite if suite in self.tests else suite + "_loopback"

    def suites_of(self, source):
        """Its own suite, those of its room, of the rooms around it, then of its layer; short ones first."""
        room, name = os.path.split(source)
        groups = [[self.name_of(f"test_{name[:-2]}")], self.suites_in(room, True)]
        while os.path.dirname(room):
            room = os.path.dirname(room)
            groups.append(self.suites_in(room, False))
        groups.append(self.suites_in(room, True))
        if room == "allocators":
            groups.append(self.suites_in("runtime/place", True) + self.suites_in("runtime/handles", True))
        found = []
        for group in groups:
            for suite in sorted(group, key=lambda each: (self.seconds.get(each, 0), each)):
                if suite in self.tests and suite not in found and suite not in NOT_RUN:
                    found.append(suite)
        return found

    def compile(self, source, text, name):
        """Returns the object's path, or None if the text is no program."""
        path = os.path.join(self.scratch, name + ".c")
        target = os.path.join(self.scratch, name + ".o")
        with open(path, "w") as file:
            file.write(text)
        command = [word for word in self.compiles[source] if word not in ("-Werror", "-g")]
        command[command.index("-o") + 1] = target
        command[command.index("-c") + 1] = path
        command += ["-w", "-iquote", os.path.dirname(os.path.join(self.root, source)),
                    f"-ffile-prefix-map={path}={source}"]
        result = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        return target if result.returncode == 0 else None

    def library(self, source, target, name):
        """Links libdao.so with one object in the place of the source's own."""
        words = list(self.compiles[source])
        own = words[words.index("-o") + 1]
        library = os.path.join(self.scratch, name + ".so")
        command = [target if word == own else word for word in self.link]
        command[command.index("-o") + 1] = library
        result = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        return library if result.returncode == 0 else None

    def outcome(self, suite, library):
        """Runs a suite with a library, or with its own (None): "passed", "failed", or "late"."""
        def bound():
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        test = self.tests[suite]
        environment = dict(os.environ)
        directory = self.folder
        for each in test.get("properties", []):
            if each["name"] == "ENVIRONMENT":
                environment.update(line.split("=", 1) for line in each["value"])
            if each["name"] == "WORKING_DIRECTORY":
                directory = each["value"]
        environment["LD_PRELOAD"] = ":".join(each for each in (self.leaks, library) if each)
        process = subprocess.Popen(test["command"], cwd=directory, env=environment, preexec_fn=bound,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            return "failed" if process.wait(WAIT_SECONDS) != 0 else "passed"
        except subprocess.TimeoutExpired:
            return "late"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # what it started, and itself where it did not end
            except ProcessLookupError:
                pass
            process.wait()

    def killer(self, source, library):
        """The first suite that fails with the library although it passes with its own; None: all pass. One
        that is late is held against itself there and then: the machine may have become slow, not the code."""
        for suite in self.suites_of(source):
            outcome = self.outcome(suite, library)
            if outcome == "passed":
                continue
            if suite not in self.passes or outcome == "late":
                self.passes[suite] = self.outcome(suite, None) == "passed"
            if self.passes[suite]:
                return suite
        return None

    def lost(self):
        """Suites that did not pass without a mutant, and so could see none."""
        return sorted(suite for suite, has_passed in self.passes.items() if not has_passed)
