"""What is in the tree is built: a source that no CMakeLists.txt names is never compiled, but looks as if it were."""

import re
from pathlib import PurePosixPath

from .repository import Finding

CALL = re.compile(r"\b(xorbit_fuzz|xorbit_bench)\s*\(\s*([A-Za-z0-9_]+)")
SOURCE_NAME = re.compile(r"[A-Za-z0-9_./-]+\.(?:cc|cu|py)\b")


def _named_sources(repository):
    named = set()
    for path in repository.paths:
        if PurePosixPath(path).name != "CMakeLists.txt":
            continue
        folder = PurePosixPath(path).parent
        text = re.sub(r"#.*", "", repository.text(path))
        for match in CALL.finditer(text):
            named.add(str(folder / f"{match[2]}_{match[1].removeprefix('xorbit_')}.cc"))
        for match in SOURCE_NAME.finditer(text):
            named.add(str(folder / match[0].removeprefix("/")))
    return named


def every_source_is_built(repository):
    named = _named_sources(repository)
    for path in repository.with_suffix(".cc", ".cu"):
        if path not in named:
            yield Finding(path, 1, "no CMakeLists.txt names this file; it would never be compiled")
    for path in repository.with_suffix(".py"):
        if path.startswith("tests/") and path.endswith("_test.py") and path not in named:
            yield Finding(path, 1, "no CMakeLists.txt names this test; it would never be run")


RULES = [every_source_is_built]
