"""Calls that this code base has something better for; each message names the better thing."""

import re
from typing import NamedTuple

from .repository import CPP_SUFFIXES, Finding, is_test


class Ban(NamedTuple):
    pattern: re.Pattern
    advice: str
    allowed_under: tuple = ()  # path prefixes
    tests_too: bool = False


BANS = [
    Ban(
        re.compile(r"\bstd::(jthread|thread|async)\b|\bpthread_create\b"),
        "threads that compute are made in base/parallel only, which joins them and keeps their first error: use ParallelFor",
        ("src/base/", "src/cli/progress_bar"),
    ),
    Ban(
        re.compile(r"\b(?:std::)?(strto(l|ll|ul|ull|d|f)|ato(i|l|ll|f)|sto(i|l|ll|ul|ull|d|f)|sscanf)\s*\("),
        "accepts blanks and trailing bytes, or throws: use std::from_chars and check that all was consumed",
        tests_too=True,
    ),
    Ban(
        re.compile(r"\b(?:std::)?(v?f?printf|puts|fputs|putchar|perror)\s*\(|\bstd::(cout|cerr|clog)\b|\bfmt::print(ln)?\s*\("),
        "only src/cli prints; return a Status, or hand the text to the caller",
        ("src/cli/",),
    ),
    Ban(re.compile(r"(?<!>\()\bnew\s+[A-Za-z_:(]"), "owns nothing: use std::make_unique or a container", tests_too=True),
    Ban(re.compile(r"\bdelete\s*(\[\])?\s+[A-Za-z_*(]"), "let an owner do it: std::unique_ptr or a container"),
    Ban(re.compile(r"\b(malloc|calloc|realloc|free)\s*\("), "use a container, or std::unique_ptr with a deleter"),
    Ban(
        re.compile(r"\b(sprintf|vsprintf|strcpy|strncpy|strcat|strtok|alloca)\s*\("),
        "writes without knowing the room: use fmt::format or std::string",
        tests_too=True,
    ),
    Ban(
        re.compile(r"(?<![A-Za-z0-9_:.>])s?rand\s*\("),
        "cannot be repeated: use a std::mt19937_64, print its seed",
        tests_too=True,
    ),
    Ban(re.compile(r"\bstd::(basic_)?regex\b"), "recurses with its input, which may be hostile: parse by hand"),
    Ban(re.compile(r"\bthrow\b(?! std::bad_alloc\b)"), "errors are values here: return a Status"),
    Ban(
        re.compile(r"(?<![A-Za-z0-9_.>])(?:std::)?(exit|_exit|quick_exit|abort|terminate)\s*\("),
        "a library must not end the process: return a Status; assert() for our own bugs",
        ("src/cli/", "src/base/"),
    ),
    Ban(re.compile(r"(?<![A-Za-z0-9_.>:])(?:std::)?(system|popen)\s*\("), "starts a shell: call a library instead"),
    Ban(
        re.compile(r"\b(?:std::|secure_)?getenv\s*\("),
        "a switch that nobody sees: decide, or make it an option of the command line",
        ("src/cli/", "src/base/"),
    ),
    Ban(re.compile(r"\bstd::endl\b"), "flushes every line: write '\\n'", tests_too=True),
    Ban(re.compile(r"\bvolatile\b(?! *\()(?<!asm volatile)"), "orders nothing between threads: use std::atomic"),
]
USING_NAMESPACE = re.compile(r"^\s*using\s+namespace\b")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def _code_lines(repository, path):
    """Lines without string literals and comments (of which clang-format leaves // only, one line each)."""
    for number, line in repository.lines(path):
        yield number, STRING.sub('""', line).split("//")[0]


def banned_calls(repository):
    for path in repository.with_suffix(*CPP_SUFFIXES):
        bans = [ban for ban in BANS if not path.startswith(ban.allowed_under) and (ban.tests_too or not is_test(path))]
        for number, line in _code_lines(repository, path):
            for ban in bans:
                match = ban.pattern.search(line)
                if match:
                    yield Finding(path, number, f"`{match[0].strip()}` {ban.advice}")


def no_using_namespace_in_headers(repository):
    for path in repository.with_suffix(".h", ".cuh"):
        for number, line in repository.lines(path):
            if USING_NAMESPACE.match(line):
                yield Finding(path, number, "`using namespace` in a header changes what names mean for its includers")


RULES = [banned_calls, no_using_namespace_in_headers]
