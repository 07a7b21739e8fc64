"""Runs clang-tidy over the sources of the program, several at a time, and only over what changed since it last passed.

usage: clang_tidy.py CLANG_TIDY COMPILE_COMMANDS_JSON CACHE_FOLDER

A source that passed leaves a file in the cache named by a hash of the checks, the tool's version, the compile command, and the
contents of the source and of all headers of the house that it includes, directly or not. Tests, fuzz targets and benchmarks are
left out: two compilers read them with all warnings on, and checking them would cost more time than everything else. Device code
(.cu) is left out too, because its compile commands are nvcc's own; its headers are read with the host code that includes them.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def with_headers(source, seen):
    """Adds `source` and the headers that it includes from src/ to `seen`."""
    if source in seen or not source.is_file():
        return seen
    seen.add(source)
    for header in INCLUDE.findall(source.read_text(encoding="utf-8")):
        with_headers(ROOT / "src" / header, seen)
    return seen


def is_shipped(command):
    source = Path(command["file"])
    of_tests = source.stem.endswith("_test") or "test_headers.dir" in command["command"]  # GoogleTest's, precompiled
    return source.is_relative_to(ROOT / "src") and source.suffix == ".cc" and not of_tests


def key_of(command, tool_version):
    digest = hashlib.sha256((tool_version + command["command"].replace(str(ROOT), "")).encode())
    for file in [ROOT / ".clang-tidy", *sorted(with_headers(Path(command["file"]), set()))]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def check(tool, database, command, passed):
    """What clang-tidy says about one source; if nothing, leaves the file `passed` at once, so that a broken run is not lost."""
    run = subprocess.run(
        [tool, "--quiet", "-p", str(database.parent), command["file"]], capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        return run.stdout + run.stderr
    passed.touch()
    return ""


def main():
    tool, database, cache = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3])
    cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    commands = json.loads(database.read_text(encoding="utf-8"))
    shipped = [c for c in commands if is_shipped(c)]
    changed = {key: c for c in shipped if not (cache / (key := key_of(c, version))).exists()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda item: check(tool, database, item[1], cache / item[0]), changed.items()))
    complaints = [answer for answer in answers if answer]
    print(*complaints, sep="\n", end="")
    print(f"clang-tidy: {len(shipped)} sources, {len(changed)} changed, {len(complaints)} with complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
