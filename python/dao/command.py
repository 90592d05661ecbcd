# SPDX-License-Identifier: Apache-2.0
"""Questions about files, which the command `dao` answers with --json."""
import json
import os
import pathlib
import shutil
import subprocess


class CommandError(RuntimeError):
    """The command refused: its message."""


def find_command():
    """Returns the path of `dao`: $DAO_COMMAND, else the one on the path, else that of the tree that this
    lies in."""
    found = os.environ.get("DAO_COMMAND") or shutil.which("dao")
    if found:
        return found
    built = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "dao"
    if built.exists():
        return str(built)
    raise CommandError("there is no command dao on the path; name it by DAO_COMMAND")


def arguments_of(options):
    """Returns keyword arguments as options of the command: link_in="50GB/s" is --link-in 50GB/s,
    verify=True is --verify, o="plan.csv" is -o plan.csv."""
    arguments = []
    for key, value in options.items():
        name = ("-" if len(key) == 1 else "--") + key.replace("_", "-")
        if value is True:
            arguments.append(name)
        elif value is not None and value is not False:
            arguments += [name, str(value)]
    return arguments


def ask(subcommand, path, options, good=(0,)):
    """Runs a subcommand on a file and returns what it prints with --json. Raises CommandError with the
    command's message if it exits with another code than the `good` ones."""
    line = [find_command(), subcommand, os.fspath(path), *arguments_of(options), "--json"]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode not in good:
        _, name, message = done.stderr.partition(f"dao {subcommand}: ")  # behind what it told of its progress
        raise CommandError((name + message).strip() or f"{' '.join(line)} exited with {done.returncode}")
    return json.loads(done.stdout)


def info(path, **options):
    """What the file is, and its figures (`dao info`)."""
    return ask("info", path, options)


def plan(path, **options):
    """Offsets for all buffers of the file: a list with a row for each method (`dao plan`)."""
    return ask("plan", path, options)


def simulate(path, **options):
    """The step in less memory, in virtual time: a list of rows (`dao simulate`)."""
    return ask("simulate", path, options)


def run(path, **options):
    """The step for real on the built backend, verify=True with every byte checked (`dao run`)."""
    return ask("run", path, options)


def fit(path, memory=None, **options):
    """Whether the step fits into so much memory, or a device's, and how slow it is then (`dao fit`): a
    dictionary whose "sentence" says it."""
    return ask("fit", path, {"memory": memory, **options}, good=(0, 3, 4))
