"""The weight_vNNNNNN delta folders of Miles, slime and stitch, made and applied the way their Python tools do it.

Encode: per tensor NumPy XOR of old and new bytes, one zstd level 1 frame, xxh3-128 of the new bytes, a thread pool over
tensors. Apply: map the local checkpoint for writing, decompress in pieces of 2 MiB, XOR in place, hash, compare; then msync
and fsync (the original leaves the sync out; it is there so that both sides of the comparison end with the bytes on the disk).

`write` and `apply` alone make this the counterpart in xorbit's interchange tests.
"""

import concurrent.futures
import json
import os
import pathlib
import sys
import zlib
from collections.abc import Callable

import numpy as np
import xxhash
import zstandard
from safetensors import safe_open
from safetensors.numpy import save_file

import common

CHUNK_BYTES = 2 << 20


class Adler32:
    """zlib's Adler-32 with a hashlib-like face."""

    def __init__(self) -> None:
        """Start at 1, as zlib does."""
        self._value = 1

    def update(self, data: common.ByteArray) -> None:
        """Add bytes."""
        self._value = zlib.adler32(data, self._value)

    def hexdigest(self) -> str:
        """Eight digits."""
        return f"{self._value:08x}"


HASHES: dict[str, Callable[[], "xxhash.xxh3_128 | Adler32"]] = {"xxh3-128": xxhash.xxh3_128, "adler32": Adler32}


def thread_pool() -> concurrent.futures.ThreadPoolExecutor:
    """As many threads as the tools take."""
    return concurrent.futures.ThreadPoolExecutor(min(32, os.cpu_count() or 1))


def encode_overwrite(old: common.ByteArray, new: common.ByteArray) -> bytes:
    """Count, byte positions, new bytes."""
    positions = np.flatnonzero(old != new).astype("<u4")
    return np.uint32(positions.size).tobytes() + positions.tobytes() + new[positions].tobytes()


def write(
    old: pathlib.Path,
    new: pathlib.Path,
    folder: pathlib.Path,
    version: int = 1,
    encoding: str = "xor",
    checksum: str = "xxh3-128",
) -> None:
    """Write `folder` (named weight_vNNNNNN by the caller) with the changes from `old` to `new`."""
    before, after = common.MappedCheckpoint(old), common.MappedCheckpoint(new)

    def encode(name: str) -> tuple[str, bytes, str] | None:
        old_bytes, new_bytes = before.view(name), after.view(name)
        if encoding == "xor":
            mask = np.bitwise_xor(old_bytes, new_bytes)
            if not mask.any():
                return None
            frame = zstandard.ZstdCompressor(level=1).compress(mask)
        else:
            if np.array_equal(old_bytes, new_bytes):
                return None
            frame = zstandard.ZstdCompressor(level=1).compress(encode_overwrite(old_bytes, new_bytes))
        digest = HASHES[checksum]()
        digest.update(new_bytes)
        return name, frame, digest.hexdigest()

    with thread_pool() as pool:
        encoded = [item for item in pool.map(encode, after.tensors) if item is not None]
    folder.mkdir()
    file_name = "model-00000-of-00001.safetensors"
    if encoded:
        frames = {name: np.frombuffer(frame, np.uint8) for name, frame, _ in encoded}
        save_file(frames, folder / (file_name + ".tmp"), metadata={name: digest for name, _, digest in encoded})
        common.fsync_path(folder / (file_name + ".tmp"))
        (folder / (file_name + ".tmp")).rename(folder / file_name)
    index = {
        "metadata": {
            "version": f"{version:06d}",
            "base_version": f"{version - 1:06d}",
            "delta_encoding": encoding,
            "compression_format": "zstd",
            "checksum_format": checksum,
        },
        "weight_map": {name: file_name for name, _, _ in encoded},
    }
    index_path = folder / "model.safetensors.index.json"
    index_path.with_suffix(".tmp").write_text(json.dumps(index, indent=2))
    common.fsync_path(index_path.with_suffix(".tmp"))
    index_path.with_suffix(".tmp").rename(index_path)
    common.fsync_path(folder)


def apply(checkpoint: pathlib.Path, folder: pathlib.Path) -> None:
    """Patch `checkpoint` in place. Like the original it finds out about a mismatch after the bytes have changed."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    encoding, checksum = index["metadata"]["delta_encoding"], index["metadata"]["checksum_format"]
    live = common.MappedCheckpoint(checkpoint, writable=True)

    def patch(name: str, frame: bytes, expected: str) -> None:
        target = live.view(name)
        digest = HASHES[checksum]()
        if encoding == "xor":
            at = 0
            for piece in zstandard.ZstdDecompressor().read_to_iter(frame, write_size=CHUNK_BYTES):
                window = target[at : at + len(piece)]
                np.bitwise_xor(window, np.frombuffer(piece, np.uint8), out=window)
                digest.update(window)
                at += len(piece)
        else:
            content = zstandard.ZstdDecompressor().decompress(frame)
            count = int(np.frombuffer(content, "<u4", 1)[0])
            positions = np.frombuffer(content, "<u4", count, 4)
            target[positions] = np.frombuffer(content, np.uint8, count, 4 + 4 * count)
            digest.update(target)
        if digest.hexdigest() != expected:
            raise SystemExit(f"checksum mismatch for {name}")

    with thread_pool() as pool:
        jobs = []
        for file_name in sorted(set(index["weight_map"].values())):
            with safe_open(folder / file_name, framework="numpy") as file:
                metadata = file.metadata()
                for name in file.keys():  # noqa: SIM118 (not a dictionary)
                    jobs.append(pool.submit(patch, name, file.get_tensor(name).tobytes(), metadata[name]))
        for job in jobs:
            job.result()
    live.flush()


def one_round(old: pathlib.Path, new: pathlib.Path, work: pathlib.Path) -> common.Measurement:
    """Encode, apply to a copy of OLD, measure both."""
    peaks: list[int] = []
    delta, live = work / "weight_v000001", work / ("live" + old.suffix)
    encode_seconds = common.timed(lambda: write(old, new, delta), peaks)
    common.copy_checkpoint(old, live)
    apply_seconds = common.timed(lambda: apply(live, delta), peaks)
    return common.Measurement(common.folder_bytes(delta), encode_seconds, apply_seconds, common.state_digest(live), max(peaks))


def main() -> None:
    """Measure, or with a first argument `write` or `apply` do only that."""
    if len(sys.argv) > 1 and sys.argv[1] == "write":
        old, new, folder = map(pathlib.Path, sys.argv[2:5])
        write(old, new, folder, 1, *sys.argv[5:7])
    elif len(sys.argv) > 1 and sys.argv[1] == "apply":
        apply(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    else:
        arguments = common.argument_parser(__doc__).parse_args()
        method = "Miles/slime: NumPy XOR, zstd -1 a tensor, xxh3-128, threads over tensors; mmap, XOR in place, msync"
        common.run_rounds(arguments, "miles", method, one_round)


if __name__ == "__main__":
    main()
