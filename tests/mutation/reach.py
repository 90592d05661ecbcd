# SPDX-License-Identifier: Apache-2.0
"""Which functions of libdao a suite enters: in the others it sees no change. A library is linked whose
sources in question are compiled with -finstrument-functions, and with reach.c, which notes each function."""
import concurrent.futures
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def end_of_function(lines, number):
    """The number of the last line of the function that a line is in."""
    while number <= len(lines) and not lines[number - 1].startswith("}"):
        number += 1
    return number


class Reach:
    def __init__(self, build, sources):
        self.root, self.build, self.sources = build.root, build, set(sources)
        self.map = os.path.join(build.scratch, "reach.map")
        self.texts = {}
        for source in self.sources:
            with open(os.path.join(self.root, source)) as file:
                self.texts[source] = file.read().split("\n")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = dict(zip(sorted(self.sources), pool.map(self.compile, sorted(self.sources))))
        notes = os.path.join(build.scratch, "reach.o")
        subprocess.run([build.link[0], "-O1", "-fPIC", "-c", os.path.join(HERE, "reach.c"), "-o", notes],
                       check=True)
        self.library = build.library(objects, "reach", [notes])
        self.functions = self.find_functions()
        self.known = set(self.functions.values())

    def compile(self, source):
        """With notes of functions, unless the object is there already and newer than libdao.so."""
        target = os.path.join(self.build.scratch, "reach", source.replace("/", "+") + ".o")
        whole = os.path.join(self.build.folder, "libdao.so")
        if not os.path.exists(target) or os.stat(target).st_mtime < os.stat(whole).st_mtime:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            command = self.build.compiles[source] + ["-finstrument-functions"]
            command[command.index("-o") + 1] = target
            subprocess.run(command, cwd=self.build.folder, check=True)
        return target

    def find_functions(self):
        """{offset in the library: its function, as SOURCE:NUMBER of its last line}."""
        symbols = subprocess.run(["nm", "--defined-only", self.library], check=True, stdout=subprocess.PIPE,
                                 text=True).stdout
        offsets = re.findall(r"^([0-9a-f]+) [tT] ", symbols, re.M)
        places = subprocess.run(["addr2line", "-e", self.library], check=True, stdout=subprocess.PIPE,
                                input="\n".join(offsets), text=True).stdout.split("\n")
        found = {}
        for offset, place in zip(offsets, places):
            path, number = place.split(" ")[0].rsplit(":", 1)
            source = path.removeprefix(self.root + "/")
            if source in self.sources:
                found[int(offset, 16)] = self.function_at(source, int(number))
        return found

    def function_at(self, source, line):
        return f"{source}:{end_of_function(self.texts[source], line)}"

    def variables(self):
        """Those of a suite that is to be looked at, with an empty map."""
        with open(self.map, "wb") as file:
            file.truncate(os.path.getsize(self.library))  # code lies in front of all that is not loaded
        return {"MUTATION_REACH": self.map}

    def entered(self):
        """The functions that the suite entered."""
        with open(self.map, "rb") as file:
            noted = file.read()
        return sorted({function for offset, function in self.functions.items() if noted[offset]})

    def may_see(self, entered, source, line):
        """Whether a suite that entered these sees a change of the line. What is in no function, all see."""
        function = self.function_at(source, line)
        return function not in self.known or function in entered
