"""Files and functions that only grow are the commonest disease of a code base: limits, and a ratchet for what is over them.

tools/ratchet.txt lists what is longer than a limit, with its length: `path lines` or `path:function lines`. An entry may only
shrink, and goes away once its subject is within the limit. The hard limits know no exception.
"""

import ast
import re
from typing import NamedTuple

from .repository import SOURCE_SUFFIXES, Finding

RATCHET = "tools/ratchet.txt"
FILE_LINES, FILE_LINES_HARD = 400, 600
FUNCTION_LINES, FUNCTION_LINES_HARD = 70, 120
TRACKED_BYTES = 1 << 20

NOT_A_FUNCTION = re.compile(
    r"^\s*((namespace|class|struct|enum|union|extern|typedef|using|if|for|while|switch|do|else|try|catch)\b|#|//|\}|\*)"
)


class Function(NamedTuple):
    name: str
    line: int
    line_count: int


def cpp_functions(lines):
    """Functions of clang-formatted code: what opens at indentation 0 or 2 and is closed by a brace of the same indentation."""
    start = 0
    while start < len(lines):
        line = lines[start]
        indentation = len(line) - len(line.lstrip())
        function = None
        if indentation in (0, 2) and line.strip() and not NOT_A_FUNCTION.match(line):
            function = _function_at(lines, start, indentation)
        if function:
            yield function
            start += function.line_count
        else:
            start += 1


def _function_at(lines, start, indentation):
    head = ""
    for opened in range(start, min(start + 12, len(lines))):
        line = lines[opened]
        head += line.strip() + " "
        if line.rstrip().endswith(";") or (opened > start and not line.startswith(" " * (indentation + 1))):
            return None
        if line.rstrip().endswith("{"):
            break
    else:
        return None
    match = re.search(r"([~A-Za-z_][A-Za-z0-9_:~]*|operator[^\s(]+)\s*\(", head)
    if not match or re.match(r"[^(]*=[^=(]*[{\[]", head):
        return None
    closing = " " * indentation + "}"
    for end in range(opened + 1, len(lines)):
        if lines[end].rstrip() in (closing, closing + ";"):
            return Function(match[1], start + 1, end - start + 1)
    return None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(node.name, node.lineno, node.end_lineno - node.lineno + 1)


def shell_functions(lines):
    for start, line in enumerate(lines):
        match = re.match(r"^([a-z_]+)\(\) \{$", line)
        if match:
            end = next((index for index in range(start, len(lines)) if lines[index] == "}"), len(lines) - 1)
            yield Function(match[1], start + 1, end - start + 1)


def functions_of(repository, path):
    text = repository.text(path)
    if path.endswith(".py"):
        return list(python_functions(text))
    if path.endswith(".sh"):
        return list(shell_functions(text.splitlines()))
    return list(cpp_functions(text.splitlines()))


def _ratchet(repository):
    entries = {}
    for number, line in repository.lines(RATCHET):
        words = line.split("#")[0].split()
        if len(words) == 2 and words[1].isdigit():
            entries[words[0]] = (int(words[1]), number)
    return entries


def _judge(subject, line_count, soft, hard, entries):
    """What is wrong with a length, or None."""
    allowed = entries.pop(subject, (0, 0))[0]
    if line_count > hard:
        return f"{line_count} lines, more than {hard}: split it by ideas"
    if line_count <= soft:
        return f"now {line_count} lines, within the limit: remove `{subject}` from {RATCHET}" if allowed else None
    if not allowed:
        return f"{line_count} lines, more than {soft}: split it by ideas"
    if line_count > allowed:
        return f"grew from {allowed} to {line_count} lines; what is over {soft} may only shrink"
    if line_count < allowed:
        return f"shrank from {allowed} to {line_count} lines: lower its entry in {RATCHET}"
    return None


def lengths(repository):
    entries = _ratchet(repository)
    for path in repository.with_suffix(*SOURCE_SUFFIXES):
        message = _judge(path, repository.text(path).count("\n"), FILE_LINES, FILE_LINES_HARD, entries)
        if message:
            yield Finding(path, 1, message)
        for function in functions_of(repository, path):
            subject = f"{path}:{function.name}"
            message = _judge(subject, function.line_count, FUNCTION_LINES, FUNCTION_LINES_HARD, entries)
            if message:
                yield Finding(path, function.line, f"{function.name}: {message}")
    for subject, (_, number) in entries.items():
        yield Finding(RATCHET, number, f"{subject} is not there any more: remove its entry")


def small_files(repository):
    for path in repository.paths:
        if repository.size(path) > TRACKED_BYTES:
            yield Finding(path, 1, f"{repository.size(path)} bytes; nothing over 1 MiB is tracked: generate it, or compress it")


RULES = [lengths, small_files]
