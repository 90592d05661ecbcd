#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks Prometheus' text format 0.0.4 by its rules, and by those of `promtool check metrics`, which does not
see series that come twice and families that are torn.

    check_metrics.py FILE     prints each breach; one is a failure
"""
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? ([0-9.eE+-]+|NaN|[+-]Inf)$")


def breaches(text):
    if not text.endswith("\n"):
        yield "the last line has no newline"
    kinds, helps, families, series = {}, set(), [], set()
    for number, line in enumerate(text.split("\n")[:-1], 1):
        comment = re.match(rf"# (HELP|TYPE) ({NAME}) (.+)$", line)
        sample = SAMPLE.match(line)
        if comment and comment[1] == "HELP":
            if comment[2] in helps:
                yield f"{number}: a second HELP of {comment[2]}"
            helps.add(comment[2])
        elif comment:
            if comment[2] in kinds or comment[2] in families:
                yield f"{number}: TYPE of {comment[2]} twice, or behind its samples"
            if comment[3] not in ("counter", "gauge"):
                yield f"{number}: type {comment[3]}"
            kinds[comment[2]] = comment[3]
        elif sample:
            name, labels, value = sample.groups()
            if not families or families[-1] != name:
                if name in families:
                    yield f"{number}: samples of {name} are torn"
                families.append(name)
            if (name, labels) in series:
                yield f"{number}: a series twice: {line}"
            series.add((name, labels))
            if name not in kinds or name not in helps:
                yield f"{number}: {name} has no type or no help"
            if (kinds.get(name) == "counter") != name.endswith("_total"):
                yield f"{number}: {name} is a {kinds.get(name)}"
            if re.search(r"_(count|sum|bucket)$|_(ns|ms|us|kb|mb)(_|$)", name):
                yield f"{number}: {name} has no base unit, or a reserved ending"
            if float(value) < 0:
                yield f"{number}: {line} is negative"
        else:
            yield f"{number}: no line of the format: {line!r}"
    if len(series) < 10:
        yield f"only {len(series)} series: this checks nothing"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        found = list(breaches(file.read()))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
