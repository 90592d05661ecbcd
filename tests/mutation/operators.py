# SPDX-License-Identifier: Apache-2.0
"""What a mutant changes: one place of one line. Comments, texts, directives, and what only checks
(assertions, functions named *is_valid*) stay as they are: a suite has no means to see a change there."""
import re

# NAME, pattern, replacement. A pattern sees code without comments and texts.
TOKENS = [
    ("less", r"(?<=\s)<(?=\s)", "<="),
    ("less-equal", r"(?<=\s)<=(?=\s)", "<"),
    ("greater", r"(?<=\s)>(?=\s)", ">="),
    ("greater-equal", r"(?<=\s)>=(?=\s)", ">"),
    ("equal", r"(?<=\s)==(?=\s)", "!="),
    ("unequal", r"(?<=\s)!=(?=\s)", "=="),
    ("and", r"(?<=\s)&&(?=\s|$)", "||"),
    ("or", r"(?<=\s)\|\|(?=\s|$)", "&&"),
    ("plus", r"(?<=[\w)\]] )\+(?=\s)", "-"),
    ("minus", r"(?<=[\w)\]] )-(?=\s)", "+"),
    ("times", r"(?<=[\w)\]] )\*(?=\s)", "+"),
    ("divided", r"(?<=\s)/(?=\s)", "*"),
    ("remainder", r"(?<=\s)%(?=\s)", "/"),
    ("increment", r"\+\+", "--"),
    ("decrement", r"--", "++"),
    ("add", r"\+=", "-="),
    ("subtract", r"(?<!-)-=", "+="),
    ("bits-and", r"(?<=[\w)\]] )&(?=\s)", "|"),
    ("bits-or", r"(?<=[\w)\]] )\|(?=\s)", "&"),
    ("shift-left", r"<<(?=\s)", ">>"),
    ("shift-right", r">>(?=\s)", "<<"),
    ("true", r"\btrue\b", "false"),
    ("false", r"\bfalse\b", "true"),
    ("constant", r"(?<![\w.\"])(\d+)(?![\w.xX])(?!u?l* *<<)", lambda found: str(int(found.group(1)) + 1)),
    ("negate", r"\b(?:if|while) \((?!\s*!)(?=.*\) \{$)", lambda found: found.group(0) + "!"),
]

# A whole statement that goes: a call, or an assignment to what is declared elsewhere.
CALL = re.compile(r"^(\s+)(?:\(void\))?[a-z_][\w>.\-]*\(.*\);$")
ASSIGNMENT = re.compile(r"^(\s+)\**[a-z_][\w>.\-]*(?:\[[^=]*\])? (?:=|\+=|-=|\|=|&=) .*;$")

CHECKS_ONLY = re.compile(r"\b(DAO_ASSERT\w*|static_assert|DAO_ASSERT_HEAVY)\b")
FUNCTION_OF_CHECKS = re.compile(r"^\w.*\b\w*(?:is|are)_valid\w*\([^;]*$")


def code_only(text):
    """The same text with comments, strings and characters replaced by spaces, so that columns stay."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def seen_only(code):
    """The same without what no caller can see: which way a compiler takes for the likely one, and that a
    record is one record large, not two."""
    def blank(found):
        return " " * len(found.group(0))
    if "__builtin_expect(" in code:
        code = re.sub(r", (?:true|false|[01])(?=\))", blank, code)
    return re.sub(r"(?<=calloc\()1(?=, sizeof)", blank, code)


def negated(line):
    """`if (a) {` as `if (!(a)) {`."""
    return re.sub(r"\b(if|while) \((.*)\) \{$", r"\1 (!(\2)) {", line)


def lines_to_change(code):
    """Numbers of the lines, from 0, that a mutant may change."""
    inside_checks = False
    inside_macro = False
    inside_statement = False
    for number, line in enumerate(code):
        if FUNCTION_OF_CHECKS.match(line) and not line.rstrip().endswith(";"):
            inside_checks = True
        is_macro = inside_macro or line.lstrip().startswith("#")
        inside_macro = is_macro and line.endswith("\\")
        is_check = inside_statement or CHECKS_ONLY.search(line)
        inside_statement = bool(is_check) and ";" not in line
        if line[:1].isspace() and not (inside_checks or is_macro or is_check):
            yield number
        if line.startswith("}"):
            inside_checks = False


def mutants_of(text):
    """Yields (line number from 1, operator, changed line) for a source."""
    lines = text.split("\n")
    code = code_only(text).split("\n")
    for number in lines_to_change(code):
        line, shown = lines[number], seen_only(code[number]).rstrip()
        for name, pattern, replacement in TOKENS:
            for found in re.finditer(pattern, shown):
                if name == "negate":
                    changed = negated(line) if line.endswith(") {") else line
                else:
                    new = replacement(found) if callable(replacement) else replacement
                    changed = line[:found.start()] + new + line[found.end():]
                if changed != line:
                    yield number + 1, name, changed
        whole = CALL.match(shown) or ASSIGNMENT.match(shown)
        if whole and shown.count("(") == shown.count(")"):
            yield number + 1, "drop", whole.group(1) + ";"
