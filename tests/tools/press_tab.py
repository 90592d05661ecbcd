#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what zsh makes of lines at a tab, in a terminal of its own.

    press_tab.py COMPLETION DAO LINE...     COMPLETION is the file _dao"""
import os
import pty
import re
import select
import sys
import time

completion, dao, *lines = sys.argv[1:]
MOST_S = 60  # for all of it
DONE = "line is "
SETUP = f"""PS1='> '; LISTMAX=0; setopt no_beep; fpath=({os.path.dirname(completion)} $fpath)
autoload -Uz compinit; compinit -D -u; path=({os.path.dirname(dao)} $path)
show() {{ print -r -- "{DONE}$BUFFER."; }}; zle -N show; bindkey '^X' show
"""


def read_until(terminal, pattern, end):
    got = ""
    while not re.search(pattern, got) and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            got += os.read(terminal, 65536).decode(errors="replace")
    return got


def main():
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="dumb", ZDOTDIR="/nonexistent")
        os.execvp("zsh", ["zsh", "-f", "-i"])
    end = time.monotonic() + MOST_S
    os.write(terminal, SETUP.encode() + b"echo set''up\n")
    read_until(terminal, "setup", end)
    got = ""
    for line in lines:
        os.write(terminal, line.encode() + b"\t\x18")
        got += read_until(terminal, DONE + r"[^$].*\.", end)
        os.write(terminal, b"\x15")  # forgets the line
    os.kill(child, 9)
    os.waitpid(child, 0)
    print(re.sub(r"\033\[[0-9;?]*[a-zA-Z]", "", got))


main()
