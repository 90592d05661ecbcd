# SPDX-License-Identifier: Apache-2.0
"""Which suites see a change of a source, and whether one of them fails with it. A mutant is compiled alone
and linked with the objects of build/dev to a libdao.so of its own; the suites are those of build/dev, which
load that one first. Nothing of the tree or of build/dev changes. The mutant's object, and no other, has
AddressSanitizer and UndefinedBehaviorSanitizer in it, since the suites run with both before a change is
taken: so what is not freed is seen as well.

Each suite is run once without a mutant: that says whether it passes, what it takes, and which functions it
enters (reach.py). It is kept in suites.json for as long as libdao.so and the suite stay as they are. A suite
that is long even so is left out: what whole programs see, shorter ones see as well."""
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
CPU_TIMES = 3  # of the processor what it takes without a mutant,
CPU_SECONDS = 4  # and this, since what is short cannot be measured well
WAIT_TIMES, WAIT_SECONDS = 10, 10  # the same for who waits, as others use the machine as well
FIRST_SECONDS = 600  # to wait before it is known what it takes
LONGEST_SECONDS = 20  # of the processor: a suite that takes more without a mutant is not run once a mutant
DATA_BYTES = 16 << 30
CHECKS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
CHECKS_LIBRARY = "libasan.so"
CHECKS_OPTIONS = f"hard_rss_limit_mb={DATA_BYTES >> 20}:allocator_may_return_null=1"
STRIP = ["-Wl,--strip-debug"]  # most of what the linker does is about what no suite reads

# Whose suites see a layer as its callers do.
ABOVE = {"base": ("allocators", "planning", "runtime", "tools"), "allocators": ("runtime", "tools"),
         "planning": ("allocators/step_plan", "runtime/executor", "tools"),
         "runtime": ("tools", "integrations")}


class Build:
    def __init__(self, root, folder, scratch, longest=LONGEST_SECONDS):
        self.root, self.folder, self.scratch, self.longest = root, folder, scratch, longest
        os.makedirs(scratch, exist_ok=True)
        with open(os.path.join(folder, "compile_commands.json")) as file:
            self.compiles = {os.path.relpath(entry["file"], root): shlex.split(entry["command"])
                             for entry in json.load(file) if "dao_objects.dir" in entry["command"]}
        commands = subprocess.run(["ninja", "-C", folder, "-t", "commands", "libdao.so"], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout.split("\n")
        link = [line for line in commands if "-shared" in line and "libdao.so" in line][-1]
        self.link = shlex.split(link.removeprefix(": && ").removesuffix(" && :"))
        self.tests = self.find_tests()
        self.checks = self.find_checks_library()
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
        return [os.stat(path).st_mtime_ns for path in (os.path.join(self.folder, "libdao.so"), __file__)] + \
            sorted(self.reach.sources) + [self.longest]

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

    def find_checks_library(self):
        """The compiler's AddressSanitizer, which any program can load first; None: it is not there."""
        result = subprocess.run([self.link[0], f"-print-file-name={CHECKS_LIBRARY}"], stdout=subprocess.PIPE,
                                text=True)
        path = result.stdout.strip()
        return path if os.path.isabs(path) else None

    def suites_in(self, folder, whole):
        """Those of its files; NAME_pages is one that a build has twice, the second time with other sizes."""
        pattern = os.path.join(self.root, "tests", folder, "**" if whole else "", "test_*.c")
        names = [os.path.basename(path)[:-2] for path in glob.glob(pattern, recursive=True)]
        return [self.name_of(name) for name in names] + [name + "_pages" for name in names]

    def name_of(self, suite):
        """Its name in this build: some suites run on the loopback driver alone."""
        return suite if suite in self.tests else suite + "_loopback"

    def suites_of(self, source):
        """Its own suites, with the loopback driver and without, those of its room, of the rooms around it, of
        its layer, then of those that stand on it; short ones first."""
        room, name = os.path.split(source)
        near = self.suites_in(room, True)
        own = f"_{name[:-2]}"  # test_NAME, or test_plan_NAME where the room's sources all are of plans
        groups = [[suite for suite in near if suite.endswith(own)], [f"test{own}_loopback"], near]
        while os.path.dirname(room):
            room = os.path.dirname(room)
            groups.append(self.suites_in(room, False))
        groups.append(self.suites_in(room, True))
        groups.append([suite for folder in ABOVE.get(room, ()) for suite in self.suites_in(folder, True)])
        found = []
        for group in groups:
            for suite in sorted(group, key=self.cost_of):
                if suite in self.tests and suite not in found:
                    found.append(suite)
        return found

    def cost_of(self, suite):
        return self.plain[suite]["cpu"] if suite in self.plain else 0, suite

    def compile(self, source, text, name, is_checked=False):
        """Returns the object's path, with checks in it or without; None if the text is no program."""
        path = os.path.join(self.scratch, name + ".c")
        target = os.path.join(self.scratch, name + ".o")
        with open(path, "w") as file:
            file.write(text)
        command = [word for word in self.compiles[source] if word not in ("-Werror", "-g")]
        command[command.index("-o") + 1] = target
        command[command.index("-c") + 1] = path
        command += ["-w", "-iquote", os.path.dirname(os.path.join(self.root, source)),
                    f"-ffile-prefix-map={path}={source}"] + (CHECKS if is_checked else [])
        result = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        return target if result.returncode == 0 else None

    def library(self, objects, name, more=()):
        """Links libdao.so with an object in the place of each source's own, by source, and more words for the
        linker; returns its path, or None if it cannot be linked."""
        instead = {self.compiles[source][self.compiles[source].index("-o") + 1]: target
                   for source, target in objects.items()}
        library = os.path.join(self.scratch, name + ".so")
        command = [instead.get(word, word) for word in self.link]
        command[command.index("-o") + 1] = library
        result = subprocess.run(command + list(more), cwd=self.folder, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        return library if result.returncode == 0 else None

    def mutant(self, source, text, is_checked):
        """The library of a mutant; None if the text is no program."""
        name = "checked" if is_checked else "mutant"
        target = self.compile(source, text, name, is_checked)
        return target and self.library({source: target}, name, STRIP + (CHECKS if is_checked else []))

    def outcome(self, suite, library, is_checked, bounds, variables=None):
        """Runs a suite with a library that it loads first, or its own (None), and more `variables` of the
        environment. `bounds`: seconds of the processor, and to wait. Returns "passed", "failed" or "late"."""
        cpu_seconds, wait_seconds = bounds
        data_bytes = resource.RLIM_INFINITY if is_checked else DATA_BYTES  # CHECKS_OPTIONS have it instead

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
        first = (self.checks if is_checked else None, library, environment.get("LD_PRELOAD"))
        environment["LD_PRELOAD"] = ":".join(each for each in first if each)
        environment["ASAN_OPTIONS"] = CHECKS_OPTIONS
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
        """What a suite does without a mutant. One that bounds its own memory, or has a malloc() of its own,
        fails with checks."""
        found = {"changed": self.time_of(suite)}
        for is_checked in (True, False) if self.checks else (False,):
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            outcome = self.outcome(suite, self.reach.library, is_checked, (self.longest + 1, FIRST_SECONDS),
                                   self.reach.variables())
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.update(passes=outcome == "passed", is_checked=is_checked, enters=self.reach.entered(),
                         wall=time.monotonic() - begin,
                         cpu=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            found["is_long"] = found["cpu"] >= self.longest
            if found["passes"] or found["is_long"]:
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
        bounds = [int(CPU_TIMES * plain["cpu"]) + CPU_SECONDS, WAIT_TIMES * plain["wall"] + WAIT_SECONDS]
        outcome = self.outcome(suite, library, plain["is_checked"], bounds)
        if outcome == "late":
            return self.outcome(suite, None, plain["is_checked"], bounds) == "passed"
        return outcome == "failed"

    def killer(self, source, line, text):
        """The first suite that enters the line's function and fails with the text, although it passes with
        the source; None: all pass."""
        libraries = {}
        for suite in self.suites_of(source):
            plain = self.plain_of(suite)
            if not plain["passes"] or plain["is_long"]:
                continue
            if not self.reach.may_see(plain["enters"], source, line):
                continue
            is_checked = plain["is_checked"]
            if is_checked not in libraries:
                libraries[is_checked] = self.mutant(source, text, is_checked)
            if self.fails(suite, libraries[is_checked]):
                return suite
        return None

    def lost(self):
        """Suites that did not pass without a mutant, and so could see none."""
        return sorted(suite for suite, plain in self.plain.items()
                      if not plain["passes"] and not plain["is_long"])

    def left_out(self):
        """Suites that are too long to run once a mutant."""
        return sorted(suite for suite, plain in self.plain.items() if plain["is_long"])
