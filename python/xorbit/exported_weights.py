"""Weights in POSIX shared memory for `xorbit serve --attach`, with the files that say where they lie.

The pages docs/formats/attachment.md and live-map.md are followed to the letter; the C++ counterpart is
src/receive/exported_memory.h. Every tensor becomes one region, in its canonical order: what an engine fuses or transposes needs
a live map of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from mmap import mmap
from pathlib import Path
from typing import Any

from .engine_gate import EngineGate
from .tensor_views import DTYPES, bytes_of, spec_of, view_of

ALIGNMENT = 256
GATE_ROOM = 4096  # a page of its own
LEAST_UNDO_BYTES = 1 << 20
EPOCH = 1


def export_weights(
    tensors: Mapping[str, Any], name: str, attachment: str | os.PathLike[str], undo_bytes: int = 0
) -> ExportedWeights:
    """Copies tensors (numpy's, PyTorch's on the CPU, RawTensor) into shared memory `name` and tells others of it.

    `tensors`: by their names in the checkpoint, all of them. `name`: a slash and a name, as /engine-0; what a former life of
    this engine has left there is removed. `undo_bytes`: room for the old and new values of an update; 0: a quarter of the
    weights, at least a MiB. The file `attachment` is written last: from then on others may attach, and open the gate.
    """
    specs = {tensor: spec_of(tensor, tensors[tensor]) for tensor in sorted(tensors, key=str.encode)}
    offsets: dict[str, int] = {}
    next_offset = GATE_ROOM
    for tensor, (_, _, byte_count) in specs.items():
        offsets[tensor] = next_offset
        next_offset += -(-byte_count // ALIGNMENT) * ALIGNMENT
    undo_bytes = undo_bytes or max(LEAST_UNDO_BYTES, next_offset // 4)
    fd, memory = _make_segment(name, next_offset + undo_bytes)
    for tensor, (_, _, byte_count) in specs.items():
        memory[offsets[tensor] : offsets[tensor] + byte_count] = bytes_of(tensors[tensor])
    views = {tensor: view_of(tensors[tensor], memory, offsets[tensor], specs[tensor][2]) for tensor in tensors}
    weights = ExportedWeights(name, fd, memory, views)
    path = Path(attachment)
    live_map = path.name + ".map"
    _write_in_place(path.with_name(live_map), _live_map(specs))
    segments = [["shared-memory", name, next_offset + undo_bytes]]
    regions = [[tensor, 0, offset] for tensor, offset in offsets.items()]
    head = {"format": "xorbit-attachment", "format_version": 1, "live_map": live_map}
    places = {"segments": segments, "gate": [0, 0], "undo": [0, next_offset, undo_bytes], "regions": regions, "kept": []}
    _write_in_place(path, head | places)
    return weights


class ExportedWeights:
    """As long as this lives, others know that the engine does. `tensors` are to be read behind the gate alone."""

    def __init__(self, name: str, fd: int, memory: mmap, tensors: dict[str, Any]) -> None:
        self.name = name
        self.tensors = tensors
        self.gate = EngineGate.make(memory, 0, EPOCH)
        self._fd = fd

    def close(self) -> None:
        """Takes the weights back: whoever has attached learns that the engine has ended. The tensors stay readable."""
        if self._fd >= 0:
            os.unlink(_path_of(self.name))
            fcntl.flock(self._fd, fcntl.LOCK_UN)  # the mapping has a descriptor of its own
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> ExportedWeights:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _path_of(name: str) -> str:
    """Where Linux keeps what shm_open opens."""
    if not name.startswith("/") or "/" in name[1:] or len(name) < 2:
        raise ValueError(f"{name!r} is not the name of shared memory: a slash, and a name without one")
    return "/dev/shm" + name


def _make_segment(name: str, byte_count: int) -> tuple[int, mmap]:
    """All zero, set aside, and locked for as long as the descriptor is open."""
    path = _path_of(name)
    try:
        with open(path, "rb") as left:
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    except FileNotFoundError:
        pass
    except BlockingIOError:
        raise RuntimeError(f"a living process has exported {name!r}: choose another name") from None
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.posix_fallocate(fd, 0, byte_count)
        return fd, mmap(fd, byte_count)
    except OSError:
        os.unlink(path)
        os.close(fd)
        raise


def _layout_digest(specs: Mapping[str, tuple[str, tuple[int, ...], int]]) -> str:
    digest = hashlib.sha256(b"xorbit-layout-1\0")
    for name, (dtype, shape, _) in specs.items():
        encoded = name.encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded + bytes([DTYPES[dtype][0]]))
        digest.update(len(shape).to_bytes(4, "little") + b"".join(dim.to_bytes(8, "little") for dim in shape))
    return digest.hexdigest()


def _live_map(specs: Mapping[str, tuple[str, tuple[int, ...], int]]) -> dict[str, Any]:
    """Tensor i lies in region i, element after element."""
    classes: dict[tuple[int, int], int] = {}
    pieces = []
    for index, (dtype, _, byte_count) in enumerate(specs.values()):
        unit_bytes = max(1, DTYPES[dtype][1] // 8)
        if byte_count > 0:
            which = classes.setdefault((8 * unit_bytes, byte_count // unit_bytes), len(classes))
            pieces.append([index, which, index, 0, 0])
    return {
        "format": "xorbit-live-map",
        "format_version": 1,
        "layout_digest": _layout_digest(specs),
        "epoch": EPOCH,
        "absent_groups": [],
        "regions": [[name, byte_count] for name, (_, _, byte_count) in specs.items()],
        "classes": [[granule_bits, [count, 1, 1]] for granule_bits, count in classes],
        "pieces": pieces,
        "shadows": [],
        "aliases": [],
        "derived": [],
    }


def _write_in_place(path: Path, document: dict[str, Any]) -> None:
    """The file appears whole, in place of an older one."""
    pending = path.with_name(path.name + ".pending")
    with open(pending, "w", encoding="utf-8") as file:
        file.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(pending, path)
