#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dao top` and `dao metrics` over a process that lives, forks, execs, dies, or lies; in a terminal as well.

    test_top.py DAO WATCHED_PROGRAM"""
import fcntl
import json
import os
import pickle
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_metrics  # noqa: E402 (it lies beside this file)

DAO, PROGRAM = sys.argv[1:3]
COLUMNS = 80
WAIT_S = 60
ROOT = os.path.dirname(os.path.abspath(__file__)) + "/../../.."
CHECKER = ROOT + "/tests/tools/write/check_forms.py"
VIEWER = "/usr/lib/python3/dist-packages/torch/cuda/_memory_viz.py"
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=ROOT + "/build/promtool")
failures = []


def expect(is_right, text):
    if not is_right:
        failures.append(text)
        print("FAILED:", text)


class Watched:
    """The program, in the middle of its work."""

    def __init__(self, *arguments, watch="1", **settings):
        self.process = subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, "DAO_WATCH": watch, **settings})
        assert self.process.stdout.readline() == "ready\n"
        self.pid = str(self.process.pid)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.communicate()


def dao(*arguments):
    done = subprocess.run([DAO, *arguments], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def refused(text, *arguments, exit_code=1):
    code, out, err = dao(*arguments)
    is_refused = code == exit_code and out == "" and text in err
    expect(is_refused, f"{arguments}: {code} {out!r} {err!r}, not {text!r}")


def look_until(watched, place):
    """Figures may be from before the program had its last block: they are taken again and again."""
    end = time.monotonic() + WAIT_S
    while True:
        code, out, err = dao("top", watched.pid, "--json", "--interval", "100ms")
        if code != 0 or f'"{place}"' in out or time.monotonic() > end:
            return code, out, err


def figures_are_right():
    with Watched() as watched:
        code, out, err = look_until(watched, "pinned:0")
        expect(code == 0, err)
        top = json.loads(out)
        places = {place["place"]: place for place in top["places"]}
        expect(str(top["pid"]) == watched.pid and top["left_out"] == 0, out[:300])
        expect(places["device:1"]["requested_bytes"] == 5 << 20, "bytes of device:1")
        expect(places["device:1"]["device_bytes"] > 5 << 20, "size of device:1")
        expect(places["cpu"]["requested_bytes"] == 100000, "bytes of cpu")
        expect(places["cpu"]["miss_count"] == 1 and places["cpu"]["slow_count"] >= 1, "misses of cpu")
        expect(places["pinned:0"]["requested_bytes"] == 70000, "bytes of pinned:0")
        expect([(tag["place"], tag["live_count"]) for tag in top["tags"]] == [("device:1", 1)], "tags")
        code, out, err = dao("top", watched.pid, "--once", "--interval", "100ms")
        expect(code == 0 and watched.pid in out and "device:1" in out and "EXECUTOR" in out, out + err)
        expect("slow call" in out and ", streams " in out, f"no line of slow calls:\n{out}")
        wrong = re.findall(r"\b1 (?:slow calls|misses|times|streams|frees)\b"
                           r"|\b(?:0|[2-9]|\d\d+) (?:slow call|miss|time|stream|free)\b", out)
        expect(not wrong, f"numbers and their words: {wrong}")
        expect(max(map(len, out.split("\n"))) <= COLUMNS, f"a line is too long:\n{out}")
        code, out, err = dao("metrics", watched.pid)
        expect(code == 0, err)
        for breach in check_metrics.breaches(out):
            expect(False, breach)
        tag = r'place="device:1",tag="a \"tag\" \\ of a name that is far longer than a column"'
        expect(re.search(r"^dao_tag_used_bytes\{" + re.escape(tag) + r"\} 524\d+$", out, re.M), "the tag")
        expect('dao_place_requested_bytes{place="cpu"} 100000\n' in out, "dao_place_requested_bytes")
        if PROMTOOL:
            done = subprocess.run([PROMTOOL, "check", "metrics"], input=out, capture_output=True, text=True)
            expect(done.returncode == 0, "promtool: " + done.stdout + done.stderr)
            bad = out.replace("# HELP", "# HALP")
            done = subprocess.run([PROMTOOL, "check", "metrics"], input=bad, capture_output=True, text=True)
            expect(done.returncode != 0, "promtool lets anything pass")
        else:
            print("no promtool: checked by the rules of check_metrics.py alone")
    refused("no process", "top", watched.pid)


def threads_are_watched_at_work():
    """Readers of other processes come and go; a race in the program is told by its exit code."""
    with Watched() as watched:
        expect(watched.say("work") == "working", "work")
        rates, end = [], time.monotonic() + WAIT_S
        while len(rates) < 3 or max(rates) == 0 and time.monotonic() < end:
            code, out, err = dao("top", watched.pid, "--json", "--interval", "300ms")
            expect(code == 0, err)
            rates.append(sum(place["allocs_per_s"] for place in json.loads(out).get("places", [])))
            code, out, err = dao("metrics", watched.pid)
            expect(code == 0, err)
        expect(max(rates) > 0, f"nothing is said to be allocated: {rates}")
        watched.process.communicate("end\n", timeout=WAIT_S)
        expect(watched.process.returncode == 0, f"the program ended with {watched.process.returncode}")


def checker_finds_breaches():
    samples = "".join(f'a_total{{x="{i}"}} 1\n' for i in range(10))
    good = "# HELP a_total b\n# TYPE a_total counter\n" + samples
    expect(not list(check_metrics.breaches(good)), "the checker refuses what is right")
    for bad in (good[:-1], good + 'a_total{x="1"} 2\n', good.replace("counter", "gauge"), good + "b 1\n",
                good.replace('"1"', '"\n"'), good.replace("a_total", "a_count"), ""):
        expect(list(check_metrics.breaches(bad)), f"the checker lets pass: {bad!r}")


def tags_of_each_place_are_bounded():
    """The largest tags have series of their own at each place; one may have the name of the rest."""
    with Watched() as watched:
        expect(watched.say("tags") == "tagged", "tags")
        end = time.monotonic() + WAIT_S
        out = ""
        while out.count('tag="tag 59"') < 2 and time.monotonic() < end:
            code, out, err = dao("metrics", watched.pid)
            expect(code == 0, err)
        for breach in check_metrics.breaches(out):
            expect(False, breach)
        for place in ("cpu", "device:0"):
            series = rf'^dao_tag_used_bytes\{{place="{place}",tag="([^"]*)"(,rest="true")?\}}'
            rows = re.findall(series, out, re.M)
            expect(len(rows) == 51, f"{len(rows)} series of tags at {place}")
            expect({("other", ""), ("other", ',rest="true"')} <= set(rows), f"the rest at {place}: {rows}")
        for name in ("plans", "paged_plans", "plans_in_work", "mapped_pages"):
            expect(f"# TYPE dao_executor_{name} gauge\n" in out, f"{name} is no gauge")


def children_and_successors_show_nothing():
    with Watched() as watched:
        child = watched.say("fork")
        refused("shows no figures", "top", child)
        expect(dao("metrics", watched.pid)[0] == 0, "the parent is shown no longer")
        os.kill(int(child), 9)
        expect(watched.say("exec") == "there", "exec")
        refused("shows no figures", "metrics", watched.pid)
    with Watched(watch="0") as watched:
        refused("DAO_WATCH=1", "top", watched.pid)
    refused("is no number of a process", "top", "0x12", exit_code=2)
    refused("is no number of a process", "metrics", "abc", exit_code=2)


def other_pages_are_refused():
    with Watched("page", watch="0") as watched:
        expect(watched.say("page 0") == "shown", "page")
        refused("use the dao of that version", "metrics", watched.pid)
    for seed in range(1, 9):
        with Watched("page", watch="0") as watched:
            expect(watched.say(f"page {seed}") == "shown", "page")
            code, out, err = dao("metrics", watched.pid)
            expect(code == 1 and out == "" and err.startswith("dao metrics: "), f"seed {seed}: {code} {err}")


def load_until(path):
    """A snapshot, once all of it is there."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            with open(path, "rb") as file:
                return pickle.load(file)
        except (OSError, EOFError, pickle.UnpicklingError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def snapshots_are_pytorchs():
    """On a signal the program writes what PyTorch's own tool of Debian's version prints."""
    with tempfile.TemporaryDirectory() as folder, Watched(
            DAO_SNAPSHOT_SIGNAL="USR1", DAO_SNAPSHOT_FILE=folder + "/%l.pickle") as watched:
        watched.process.send_signal(signal.SIGUSR1)
        watched.say("look")  # ThreadSanitizer holds a signal back while a thread reads
        snapshot = load_until(folder + "/device1.pickle")
        sizes = [block["requested_size"] for segment in snapshot["segments"] for block in segment["blocks"]
                 if block["state"] == "active_allocated"]
        expect(sizes == [5 << 20], f"blocks of {sizes}")
        expect(snapshot["device_traces"] == [[], []], "not a list for each device")
        code, out, err = dao("info", folder + "/device1.pickle", "--json")
        expect(code == 0 and json.loads(out)["peak_bytes"] == 5 << 20, out + err)
        if not os.path.exists(VIEWER):
            print("no python3-torch: its viewer did not read it")
            return
        with open(folder + "/segments", "wb") as file:  # PyTorch 1.13 takes the bare list
            pickle.dump(snapshot["segments"], file, 2)
        command = ["python3", VIEWER, "stats", folder + "/segments"]
        done = subprocess.run(command, capture_output=True, text=True)
        expect(done.returncode == 0 and "5.0MiB" in done.stdout, done.stdout + done.stderr)


def snapshots_tell_what_happened():
    """With events kept, a snapshot is as PyTorch's viewer wants it: blocks that came and went before."""
    with tempfile.TemporaryDirectory() as folder, Watched(
            DAO_SNAPSHOT_SIGNAL="USR1", DAO_SNAPSHOT_FILE=folder + "/%l.pickle",
            DAO_HISTORY="100") as watched:
        watched.process.send_signal(signal.SIGUSR1)
        watched.say("look")
        path = folder + "/device1.pickle"
        entries = load_until(path)["device_traces"][1]
        actions = [entry["action"] for entry in entries]
        expect(actions.count("alloc") == 6 and actions.count("free_completed") == 5, f"events {actions}")
        expect(actions[-1] == "snapshot" and {"segment_alloc", "segment_free"} <= set(actions), f"{actions}")
        expect({entry["category"] for entry in entries if entry["action"] == "alloc"}
               == {"unknown", 'a "tag" \\ of a name that is far longer than a column'}, "categories")
        peak = 9 << 20  # the last of those that came and went, and the one before
        as_json = folder + "/device1.json"
        watched.say("json " + as_json)
        with open(as_json, encoding="utf-8") as file:
            expect(json.load(file)["device_traces"][1] == entries, "JSON has the events of the pickle")
        for each in (path, as_json):
            done = subprocess.run([sys.executable, CHECKER, "snapshot", each, str(peak)],
                                  capture_output=True, text=True)
            expect(done.returncode == 0, done.stdout + done.stderr)
            code, out, err = dao("info", each, "--json")
            expect(code == 0 and json.loads(out)["peak_bytes"] == peak, out + err)


def read_until(terminal, text, is_enough):
    while not is_enough(text):
        try:
            part = os.read(terminal, 65536).decode()
        except OSError:  # the other side has closed
            return text
        text += part
    return text


def terminal_is_used():
    with Watched() as watched:
        child, terminal = pty.fork()
        if child == 0:
            os.execv(DAO, [DAO, "top", watched.pid, "--interval", "100ms"])
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        text = read_until(terminal, "", lambda so_far: so_far.count("\033[H") >= 3)
        expect(text.startswith("\033[2J\033[H") and "\033[J" in text, "screens are drawn over each other")
        watched.process.kill()
        watched.process.wait()
        text = read_until(terminal, text, lambda so_far: "has ended" in so_far)
        plain = re.sub(r"\033\[[0-9]*[A-Z]", "", text)
        expect("\033" not in plain, "other control sequences")
        expect(max(len(line.rstrip("\r")) for line in plain.split("\n")) <= COLUMNS, "a line is too long")
        expect(f"process {watched.pid} has ended" in plain, "that it has ended")
        expect(os.waitpid(child, 0)[1] == 0, "the exit code")
        os.close(terminal)


def tmux_shows_it():
    if not shutil.which("tmux"):
        print("without tmux: the pseudo-terminal alone")
        return
    with Watched() as watched, tempfile.TemporaryDirectory() as folder:
        tmux = ["tmux", "-S", os.path.join(folder, "socket"), "-f", "/dev/null"]
        subprocess.run(tmux + ["new-session", "-d", "-x", str(COLUMNS), "-y", "24",
                               f"exec '{DAO}' top {watched.pid} --interval 100ms"], check=True)
        try:
            screen, end = "", time.monotonic() + WAIT_S
            while "device:1" not in screen and time.monotonic() < end:
                time.sleep(0.1)
                screen = subprocess.run(tmux + ["capture-pane", "-p"], capture_output=True, text=True).stdout
            print(screen)
            lines = screen.rstrip("\n").split("\n")
            expect(watched.pid in lines[0], "the screen does not begin with the process")
            expect(sum(line.startswith("device:1") for line in lines) == 1, "device:1 is there once")
        finally:
            subprocess.run(tmux + ["kill-server"], check=False)


for test in (figures_are_right, threads_are_watched_at_work, checker_finds_breaches,
             tags_of_each_place_are_bounded, children_and_successors_show_nothing, other_pages_are_refused,
             terminal_is_used, tmux_shows_it, snapshots_are_pytorchs, snapshots_tell_what_happened):
    print(test.__name__)
    test()
sys.exit(1 if failures else 0)
