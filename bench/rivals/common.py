"""What every rival needs: checkpoints as raw bytes, a fair stopwatch, peak anonymous memory, one JSON line.

Fair means the same for everybody: page cache warm, the copy to be patched made and synced outside the clock, and both the
encoder and the receiver end in fsync. Interpreter start and imports are outside the clock (a trainer has them loaded);
programs run as a process are timed as a process.
"""

import argparse
import contextlib
import dataclasses
import json
import mmap
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

ByteArray = npt.NDArray[np.uint8]

UNIT_BYTES = {
    "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4,
    "I64": 8, "U64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


class Tensor(NamedTuple):
    """Where a tensor's bytes are. unit_bytes is the width in which elements are compared; sub-byte and unknown types: 1."""

    path: pathlib.Path
    offset: int
    length: int
    unit_bytes: int


def checkpoint_files(checkpoint: pathlib.Path) -> list[pathlib.Path]:
    """The .safetensors files of a checkpoint: the path itself, or those of a folder."""
    if checkpoint.is_file():
        return [checkpoint]
    files = sorted(checkpoint.glob("*.safetensors"))
    if not files:
        raise SystemExit(f"{checkpoint}: no .safetensors files")
    return files


def open_tensors(checkpoint: pathlib.Path) -> dict[str, Tensor]:
    """Tensors of a checkpoint in the order of their UTF-8 names."""
    tensors: dict[str, Tensor] = {}
    for path in checkpoint_files(checkpoint):
        with path.open("rb") as file:
            (header_length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(header_length))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            unit_bytes = UNIT_BYTES.get(entry["dtype"], 1)
            tensors[name] = Tensor(path, 8 + header_length + begin, end - begin, unit_bytes)
    return dict(sorted(tensors.items(), key=lambda item: item[0].encode()))


class MappedCheckpoint:
    """Tensors as NumPy views of shared maps, so that the bytes belong to the page cache and not to this process."""

    def __init__(self, checkpoint: pathlib.Path, *, writable: bool = False) -> None:
        self.tensors = open_tensors(checkpoint)
        self._maps: dict[pathlib.Path, mmap.mmap] = {}
        for path in checkpoint_files(checkpoint):
            with path.open("r+b" if writable else "rb") as file:
                access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
                self._maps[path] = mmap.mmap(file.fileno(), 0, access=access)

    def view(self, name: str) -> ByteArray:
        """All bytes of a tensor."""
        tensor = self.tensors[name]
        return np.frombuffer(self._maps[tensor.path], np.uint8, tensor.length, tensor.offset)

    def flush(self) -> None:
        """Msync every map, then fsync its file: what has been written is on the disk afterwards."""
        for path, mapping in self._maps.items():
            mapping.flush()
            fsync_path(path)


def state_digest(checkpoint: pathlib.Path) -> str:
    """xxh3-128 of all tensor bytes in name order: equal for equal weights, whatever the files' headers and sharding."""
    mapped = MappedCheckpoint(checkpoint)
    digest = xxhash.xxh3_128()
    for name in mapped.tensors:
        digest.update(mapped.view(name))
    return digest.hexdigest()


def total_tensor_bytes(checkpoint: pathlib.Path) -> int:
    """Bytes of all tensors, without headers."""
    return sum(tensor.length for tensor in open_tensors(checkpoint).values())


def fsync_path(path: pathlib.Path) -> None:
    """Fsync a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_checkpoint(source: pathlib.Path, target: pathlib.Path) -> None:
    """Copy the checkpoint's files and sync them, so that write-back of the copy does not fall into a measurement."""
    if source.is_file():
        shutil.copyfile(source, target)
        fsync_path(target)
        return
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_file():
            shutil.copyfile(path, target / path.name)
            fsync_path(target / path.name)


def folder_bytes(folder: pathlib.Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def read_anonymous_bytes(process: int | str) -> int:
    """RssAnon of a process, 0 once it has ended."""
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


@contextlib.contextmanager
def peak_anonymous(process: int | str, peaks: list[int]) -> Iterator[None]:
    """Append the peak RssAnon of `process` during the block (polled every 2 ms) to `peaks`."""
    stop = threading.Event()
    peak = read_anonymous_bytes(process)

    def poll() -> None:
        nonlocal peak
        while not stop.wait(0.002):
            peak = max(peak, read_anonymous_bytes(process))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        peak = max(peak, read_anonymous_bytes(process))
        stop.set()
        thread.join()
        peaks.append(peak)


def timed(work: Callable[[], None], peaks: list[int]) -> float:
    """Seconds that `work` takes in this process."""
    with peak_anonymous("self", peaks):
        start = time.monotonic()
        work()
        return time.monotonic() - start


def timed_commands(commands: Sequence[Sequence[str]], outputs: Sequence[pathlib.Path], peaks: list[int]) -> float:
    """Seconds that the commands take one after another, with fsync of their outputs. A failing command ends the program."""
    start = time.monotonic()
    for command in commands:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            with peak_anonymous(process.pid, peaks):
                _, errors = process.communicate()
            if process.returncode != 0:
                raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {errors.strip()}")
    for output in outputs:
        fsync_path(output)
    return time.monotonic() - start


@dataclasses.dataclass
class Measurement:
    """One round of one rival."""

    bytes: int  # everything that a receiver fetches
    encode_seconds: float
    apply_seconds: float  # fetch excluded: decode, apply, check, fsync
    result_digest: str
    peak_anonymous_bytes: int


Round = Callable[[pathlib.Path, pathlib.Path, pathlib.Path], Measurement]


def report(name: str, method: str, rounds: Sequence[Measurement]) -> str:
    """The JSON line: medians of times, maximum of memory; sizes and digests must not differ between rounds."""
    if len({(m.bytes, m.result_digest) for m in rounds}) != 1:
        raise SystemExit(f"{name}: sizes or results differ between rounds")
    return json.dumps(
        {
            "name": name,
            "bytes": rounds[0].bytes,
            "encode_seconds": statistics.median(m.encode_seconds for m in rounds),
            "apply_seconds": statistics.median(m.apply_seconds for m in rounds),
            "result_digest": rounds[0].result_digest,
            "peak_anonymous_bytes": max(m.peak_anonymous_bytes for m in rounds),
            "rounds": len(rounds),
            "method": method,
        }
    )


def file_pairs(old: pathlib.Path, new: pathlib.Path) -> list[tuple[pathlib.Path, pathlib.Path]]:
    """Old and new files by name; the single file of both if they are files."""
    if new.is_file():
        return [(old, new)]
    return [(old / path.name, path) for path in checkpoint_files(new)]


# Of three paths, what the command reads and then what it writes: the old file, the new file or patch, the patch or result.
Command = Callable[[pathlib.Path, pathlib.Path, pathlib.Path], Sequence[str]]


def patch_tool_round(suffix: str, encode: Command, decode: Command) -> Round:
    """A round of a command-line tool that makes a patch of two files and rebuilds NEW from OLD and the patch."""

    def one_round(old: pathlib.Path, new: pathlib.Path, work: pathlib.Path) -> Measurement:
        peaks: list[int] = []
        (work / "patches").mkdir()
        result = work / ("result" + new.suffix)
        if new.is_dir():
            result.mkdir()
        encodes, decodes, patches, outputs = [], [], [], []
        for old_path, new_path in file_pairs(old, new):
            patch = work / "patches" / (new_path.name + suffix)
            output = result / new_path.name if new.is_dir() else result
            encodes.append(encode(old_path, new_path, patch))
            decodes.append(decode(old_path, patch, output))
            patches.append(patch)
            outputs.append(output)
        encode_seconds = timed_commands(encodes, patches, peaks)
        apply_seconds = timed_commands(decodes, outputs, peaks)
        size = folder_bytes(work / "patches")
        return Measurement(size, encode_seconds, apply_seconds, state_digest(result), max(peaks))

    return one_round


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """OLD NEW --work --repeat, which every rival takes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, help="folder for deltas and copies (default: the system's temporary one)")
    parser.add_argument("--repeat", type=int, default=3)
    return parser


def run_rounds(arguments: argparse.Namespace, name: str, method: str, one_round: Round) -> None:
    """Run the rounds, each in a fresh folder, and print the JSON line."""
    rounds = []
    for _ in range(arguments.repeat):
        with tempfile.TemporaryDirectory(dir=arguments.work) as work:
            rounds.append(one_round(arguments.old, arguments.new, pathlib.Path(work)))
    print(report(name, method, rounds))
