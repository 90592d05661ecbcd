# SPDX-License-Identifier: Apache-2.0
"""Which suites see a change of a source, and whether one of them fails with it. A mutant is compiled alone
and linked with the objects of build/dev to a libdao.so of its own; the suites are those of build/dev, which
load that one first, and LeakSanitizer, for what is not freed. Nothing of the tree or of build/dev changes.

Each suite is run once without a mutant: that says whether it passes, what it takes, and which functions it
enters (reach.py). It is kept in suites.json for as long as libdao.so and the suite stay as they are."""
import glob
import json
import os
import resource
import shlex
import signal
import subprocess
import tempfile
import time

import reach

# Bounds on a suite that a mutant keeps from ending. Reaching one is a failure of the suite.
BOUND_TIMES = 10  # what it takes without a mutant,
BOUND_SECONDS = 10  # and this, since what is short cannot be measured well
FIRST_SECONDS = 600  # before it is known what it takes
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
        self.leaks = self.find_leaks_library()
        self.reach, self.plain = None, {}

    def look_at(self, sources):
        """Before killer(): the sources that mutants are of."""
        self.reach = reach.Reach(self, sources)
        self.plain = {}  # what each suite does without a mutant, by name
        if os.path.exists(self.path_of_plain()):
            with open(self.path_of_plain()) as file:
                kept = json.load(file)
            if kept["of"] == self.kept_for():
                self.plain = {suite: of for suite, of in kept["suites"].items() if suite in self.tests
                              and of["changed"] == self.time_of(suite)}

    def path_of_plain(self):
        return os.path.join(self.scratch, "suites.json")

    def kept_for(self):
        return [os.stat(os.path.join(self.folder, "libdao.so")).st_mtime_ns, sorted(self.reach.sources)]

    def time_of(self, suite):
        """When the suite was built."""
        return os.stat(self.tests[suite]["command"][0]).st_mtime_ns

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
            for suite in sorted(group, key=self.cost_of):
                if suite in self.tests and suite not in found and suite not in NOT_RUN:
                    found.append(suite)
        return found

    def cost_of(self, suite):
        return self.plain[suite]["cpu"] if suite in self.plain else 0, suite

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

    def library(self, objects, name, more=()):
        """Links libdao.so with an object in the place of each source's own, by source, and more objects;
        returns its path, or None if it cannot be linked."""
        instead = {self.compiles[source][self.compiles[source].index("-o") + 1]: target
                   for source, target in objects.items()}
        library = os.path.join(self.scratch, name + ".so")
        command = [instead.get(word, word) for word in self.link]
        command[command.index("-o") + 1] = library
        result = subprocess.run(command + list(more), cwd=self.folder, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        return library if result.returncode == 0 else None

    def outcome(self, suite, libraries, bounds, variables=None):
        """Runs a suite with libraries that it loads first, and more `variables` of its environment. `bounds`:
        seconds of the processor, seconds to wait, bytes. Returns "passed", "failed", or "late"."""
        cpu_seconds, wait_seconds, data_bytes = bounds

        def bound():
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
            resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")  # where memory ends all the same, it is this one that is killed
        test = self.tests[suite]
        environment = dict(os.environ, **(variables or {}))
        directory = self.folder
        for each in test.get("properties", []):
            if each["name"] == "ENVIRONMENT":
                environment.update(line.split("=", 1) for line in each["value"])
            if each["name"] == "WORKING_DIRECTORY":
                directory = each["value"]
        environment["LD_PRELOAD"] = ":".join(each for each in libraries if each)
        process = subprocess.Popen(test["command"], cwd=directory, env=environment, preexec_fn=bound,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            return "failed" if process.wait(wait_seconds) != 0 else "passed"
        except subprocess.TimeoutExpired:
            return "late"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # what it started, and itself where it did not end
            except ProcessLookupError:
                pass
            process.wait()

    def run_plain(self, suite):
        """What a suite does without a mutant. LeakSanitizer does not suit those that bound their own memory,
        nor a bound those that map much and touch little: they are run without."""
        found = {"changed": self.time_of(suite)}
        for leaks, data_bytes in ((self.leaks, DATA_BYTES), (None, DATA_BYTES),
                                  (self.leaks, resource.RLIM_INFINITY)):
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            outcome = self.outcome(suite, [leaks, self.reach.library],
                                   (FIRST_SECONDS, FIRST_SECONDS, data_bytes), self.reach.variables())
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.update(passes=outcome == "passed", leaks=leaks, data=data_bytes,
                         wall=time.monotonic() - begin, enters=self.reach.entered(),
                         cpu=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            if found["passes"]:
                break
        return found

    def plain_of(self, suite):
        if suite not in self.plain:
            self.plain[suite] = self.run_plain(suite)
            with open(self.path_of_plain(), "w") as file:
                json.dump({"of": self.kept_for(), "suites": self.plain}, file)
        return self.plain[suite]

    def fails(self, suite, library):
        """Whether a suite that passes without a mutant fails with one. One that is late is held against
        itself there and then: the machine may have become slow, not the code."""
        plain = self.plain[suite]
        bounds = [int(BOUND_TIMES * plain[of]) + BOUND_SECONDS for of in ("cpu", "wall")] + [plain["data"]]
        outcome = self.outcome(suite, [plain["leaks"], library], bounds)
        if outcome == "late":
            return self.outcome(suite, [plain["leaks"]], bounds) == "passed"
        return outcome == "failed"

    def killer(self, source, line, library):
        """The first suite that enters the line's function and fails with the library, although it passes with
        its own; None: all pass."""
        for suite in self.suites_of(source):
            plain = self.plain_of(suite)
            if plain["passes"] and self.reach.may_see(plain["enters"], source, line) and \
                    self.fails(suite, library):
                return suite
        return None

    def lost(self):
        """Suites that did not pass without a mutant, and so could see none."""
        return sorted(suite for suite, plain in self.plain.items() if not plain["passes"])
