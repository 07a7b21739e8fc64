"""What a file looks like before its code is read: opening paragraph, include guard, no leftovers, no traces of a machine."""

import re
from pathlib import PurePosixPath

from .repository import CPP_SUFFIXES, SOURCE_SUFFIXES, Finding, is_test

# Written in halves, so that this file does not match itself.
LEFTOVERS = [
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"), "do it now, or file it where work is planned"),
    (re.compile(r"^\s*#\s*if\s+0\b"), "delete dead code; git remembers it"),
    (re.compile(r"(print" r"f|\bcerr|\bprint)\b.*[\"'](DEB" r"UG|debug|here|got here)"), "remove the debug output"),
    (re.compile(r"\b(break" r"point\(\)|pdb\.set_" r"trace|console\.lo" r"g\()"), "remove the debug output"),
    (re.compile(r"^\s*//\s*([\w:<>.*&-]+\s+)?[\w:.>\[\]-]+\s*(\(.*\)|[-+|&^]?=.*);\s*$"), "delete dead code; git remembers it"),
]
MACHINE_PATH = re.compile(r"(?<![A-Za-z0-9_.*-])/(work|root|home|Users)/[A-Za-z0-9_.]")
TEMPORARY_PATH = re.compile(r"(?<![A-Za-z0-9_.])/tm" r"p/")
WORKPLACE = re.compile(r"\b([Ii]ssue #?\d|CE" r"O\b)")
PROSE_SUFFIXES = {".md", ".txt", ".json", ".toml", ".yml", ".cmake"}


def _own_header(path):
    return path.removeprefix("src/").removesuffix(PurePosixPath(path).suffix) + ".h"


def opening_paragraph(repository):
    for path in repository.with_suffix(*SOURCE_SUFFIXES):
        lines = [line for line in repository.text(path).splitlines() if line.strip() and not line.startswith("#!")]
        if not lines:
            continue
        first = lines[0]
        # A source beside its header opens with that header, where the paragraph stands.
        if first == f'#include "{_own_header(path)}"':
            continue
        opening = "//" if PurePosixPath(path).suffix in CPP_SUFFIXES else '"""' if path.endswith(".py") else "#"
        if not first.startswith(opening) or len(first) < 30:
            yield Finding(path, 1, "open the file with a short paragraph: what it is for, and why it is so")


def pragma_once(repository):
    for path in repository.with_suffix(".h", ".cuh"):
        if "#pragma once\n" not in repository.text(path):
            yield Finding(path, 1, "a header needs `#pragma once` below its opening paragraph")


def no_leftovers(repository):
    for path in repository.with_suffix(*SOURCE_SUFFIXES):
        for number, line in repository.lines(path):
            for pattern, advice in LEFTOVERS:
                match = pattern.search(line)
                if match:
                    yield Finding(path, number, f"`{match[0].strip()}`: {advice}")


def no_traces_of_a_machine(repository):
    for path in repository.with_suffix(*SOURCE_SUFFIXES, *PROSE_SUFFIXES):
        for number, line in repository.lines(path):
            match = MACHINE_PATH.search(line) or (None if is_test(path) else TEMPORARY_PATH.search(line))
            if match:
                yield Finding(path, number, f"`{match[0]}`: a path of one machine; take it as an argument or make it relative")
            match = WORKPLACE.search(line)
            if match:
                yield Finding(path, number, f"`{match[0]}`: say the reason itself; readers cannot look this up")


def clean_whitespace(repository):
    for path in repository.with_suffix(*SOURCE_SUFFIXES, *PROSE_SUFFIXES):
        text = repository.text(path)
        if text and not text.endswith("\n"):
            yield Finding(path, text.count("\n") + 1, "the last line does not end")
        for number, line in repository.lines(path):
            if line != line.rstrip():
                yield Finding(path, number, "white space at the end of the line")
            if "\t" in line:
                yield Finding(path, number, "a tab; indent with spaces")


def snake_case_names(repository):
    for path in repository.with_suffix(*SOURCE_SUFFIXES):
        if not re.fullmatch(r"[a-z0-9_]+|__init__", PurePosixPath(path).stem):
            yield Finding(path, 1, "name source files in snake_case")


RULES = [opening_paragraph, pragma_once, no_leftovers, no_traces_of_a_machine, clean_whitespace, snake_case_names]
