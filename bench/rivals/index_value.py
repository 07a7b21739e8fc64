"""Position and value, as verl and TRL send changes: per tensor an int32 index and the new value of each changed element.

With --zstd each of the two arrays is one zstd level 1 frame, as slime's first format and NeMo-RL had it in variants. Applying
is a NumPy scatter into the mapped checkpoint. There is no checksum in these formats, so none is computed.
"""

import concurrent.futures
import os
import pathlib

import numpy as np
import numpy.typing as npt
import zstandard
from safetensors import safe_open
from safetensors.numpy import save_file

import common

Arrays = dict[str, npt.NDArray[np.generic]]


def elements(view: common.ByteArray, unit_bytes: int) -> npt.NDArray[np.unsignedinteger]:
    """The bytes as unsigned integers of the tensor's unit, at whatever address."""
    return np.ndarray(view.size // unit_bytes, f"<u{unit_bytes}", view)


def encode(old: pathlib.Path, new: pathlib.Path, path: pathlib.Path, *, compress: bool) -> None:
    """Write the changes from `old` to `new` as one safetensors file."""
    before, after = common.MappedCheckpoint(old), common.MappedCheckpoint(new)

    def pack(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        if not compress:
            return array
        return np.frombuffer(zstandard.ZstdCompressor(level=1).compress(array.tobytes()), np.uint8)

    def encode_tensor(name: str) -> Arrays:
        unit_bytes = after.tensors[name].unit_bytes
        new_elements = elements(after.view(name), unit_bytes)
        positions = np.flatnonzero(elements(before.view(name), unit_bytes) != new_elements)
        if positions.size == 0:
            return {}
        return {
            name + ".indices": pack(positions.astype("<i4")),
            name + ".values": pack(new_elements[positions]),
        }

    arrays: Arrays = {}
    with concurrent.futures.ThreadPoolExecutor(min(32, os.cpu_count() or 1)) as pool:
        for part in pool.map(encode_tensor, after.tensors):
            arrays.update(part)
    save_file(arrays, path)
    common.fsync_path(path)


def apply(checkpoint: pathlib.Path, path: pathlib.Path, *, compress: bool) -> None:
    """Scatter the values into `checkpoint`."""
    live = common.MappedCheckpoint(checkpoint, writable=True)

    def unpack(array: npt.NDArray[np.generic], dtype: str) -> npt.NDArray[np.generic]:
        if not compress:
            return array
        return np.frombuffer(zstandard.ZstdDecompressor().decompress(array.tobytes()), dtype)

    def scatter(name: str, indices: npt.NDArray[np.generic], values: npt.NDArray[np.generic]) -> None:
        unit_bytes = live.tensors[name].unit_bytes
        elements(live.view(name), unit_bytes)[unpack(indices, "<i4")] = unpack(values, f"<u{unit_bytes}")

    with concurrent.futures.ThreadPoolExecutor(min(32, os.cpu_count() or 1)) as pool, safe_open(path, "numpy") as file:
        names = [key.removesuffix(".indices") for key in file.keys() if key.endswith(".indices")]  # noqa: SIM118
        jobs = [
            pool.submit(scatter, name, file.get_tensor(name + ".indices"), file.get_tensor(name + ".values")) for name in names
        ]
        for job in jobs:
            job.result()
    live.flush()


def main() -> None:
    """Measure."""
    parser = common.argument_parser(__doc__)
    parser.add_argument("--zstd", action="store_true")
    arguments = parser.parse_args()

    def one_round(old: pathlib.Path, new: pathlib.Path, work: pathlib.Path) -> common.Measurement:
        peaks: list[int] = []
        delta, live = work / "delta.safetensors", work / ("live" + old.suffix)
        encode_seconds = common.timed(lambda: encode(old, new, delta, compress=arguments.zstd), peaks)
        common.copy_checkpoint(old, live)
        apply_seconds = common.timed(lambda: apply(live, delta, compress=arguments.zstd), peaks)
        size = delta.stat().st_size
        return common.Measurement(size, encode_seconds, apply_seconds, common.state_digest(live), max(peaks))

    suffix, note = ("+zstd", ", each array zstd -1") if arguments.zstd else ("", "")
    method = f"verl/TRL: int32 index + new value{note}; NumPy scatter into mmap, msync; no checksum"
    common.run_rounds(arguments, "index+value" + suffix, method, one_round)


if __name__ == "__main__":
    main()
