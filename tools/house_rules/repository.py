"""The files that the rules look at: what git tracks or would track, read once. Tests make one out of a dictionary instead."""

import subprocess
from pathlib import Path, PurePosixPath
from typing import NamedTuple

CPP_SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
SOURCE_SUFFIXES = CPP_SUFFIXES | {".py", ".sh"}


class Finding(NamedTuple):
    path: str
    line: int
    message: str


def is_test(path):
    """Tests, fuzz targets and benchmarks: they may do what shipped code may not."""
    parts = PurePosixPath(path).parts
    stem = PurePosixPath(path).stem
    return parts[0] in {"tests", "fuzz", "bench"} or "testing" in parts or stem.endswith(("_fuzz", "_bench")) or "_test" in stem


class Repository:
    def __init__(self, contents, sizes=None):
        """contents: path -> text, or None for a file that is not text; sizes: path -> bytes, where it is not the text's."""
        self._contents = contents
        self._sizes = sizes or {}
        self.paths = sorted(contents)

    @classmethod
    def of_folder(cls, root):
        contents, sizes = {}, {}
        for path in _listed(root):
            file = root / path
            if file.is_symlink() or not file.is_file():
                continue
            raw = file.read_bytes()
            sizes[path] = len(raw)
            try:
                contents[path] = raw.decode("utf-8")
            except UnicodeDecodeError:
                contents[path] = None
        return cls(contents, sizes)

    def with_suffix(self, *suffixes):
        return [path for path in self.paths if PurePosixPath(path).suffix in suffixes and self._contents[path] is not None]

    def text_paths(self):
        return [path for path in self.paths if self._contents[path] is not None]

    def text(self, path):
        return self._contents.get(path) or ""

    def lines(self, path):
        """(line number from 1, line) pairs."""
        return enumerate(self.text(path).splitlines(), start=1)

    def size(self, path):
        return self._sizes.get(path, len(self.text(path).encode()))

    def has(self, path):
        """Whether a file or a folder of this name exists."""
        path = path.rstrip("/")
        return path in {"", "."} or path in self._contents or any(other.startswith(path + "/") for other in self.paths)

    def allows(self, finding):
        lines = self.text(finding.path).splitlines()
        return 0 < finding.line <= len(lines) and "tidy-allow: " in lines[finding.line - 1]


def _listed(root):
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode == 0:
        return [path for path in listing.stdout.decode().split("\0") if path]
    # An unpacked archive: everything but build outputs.
    paths = [file.relative_to(root).as_posix() for file in Path(root).rglob("*") if file.is_file()]
    return [path for path in paths if not path.startswith(("build/", ".git/")) and "__pycache__" not in path]
