"""The gate between an engine and whoever updates its weights: 64 bytes of shared memory (docs/formats/attachment.md).

Python has no atomic operations of its own, so entering and leaving go through libatomic, which belongs to GCC. An engine that
is paused by other means (`serve --engine sglang --engine-url`) needs neither, and can look at `turn_count` alone.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap

MAGIC = b"xobgate\0"
FORMAT_VERSION = 1
GATE_BYTES = 64
IS_CLOSED = 1 << 63
POLL_S = 20e-6
# memory_order in C11's numbers
ACQUIRE, RELEASE = 2, 3


def _load_libatomic() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libatomic.so.1")
    except OSError as error:
        raise RuntimeError(
            "entering the gate needs libatomic.so.1: install libatomic1 (Debian) or libatomic (Fedora)"
        ) from error
    library.__atomic_compare_exchange_8.restype = ctypes.c_bool
    return library


class EngineGate:
    """A view of the gate at `offset` of a mapping. Enter and leave from any thread."""

    def __init__(self, memory: mmap, offset: int) -> None:
        word = lambda at: ctypes.c_uint64.from_buffer(memory, offset + at)  # noqa: E731
        self._state, self._turn_count, self._version = word(24), word(32), word(40)
        self._libatomic: ctypes.CDLL | None = None

    @classmethod
    def make(cls, memory: mmap, offset: int, epoch: int) -> EngineGate:
        """A closed gate in memory that is zero: somebody has to prove what the weights are before it opens."""
        words = (FORMAT_VERSION, epoch, IS_CLOSED, 1, 0)
        memory[offset + 8 : offset + 48] = b"".join(word.to_bytes(8, "little") for word in words)
        memory[offset : offset + 8] = MAGIC
        return cls(memory, offset)

    @property
    def is_closed(self) -> bool:
        return self._state.value & IS_CLOSED != 0

    @property
    def turn_count(self) -> int:
        """One more whenever the gate closes or opens, odd while closed: a step between two equal even ones saw one version."""
        return self._turn_count.value

    def _atomic(self, name: str) -> ctypes._FuncPtr:
        if self._libatomic is None:
            self._libatomic = _load_libatomic()
        return getattr(self._libatomic, name)

    def try_enter(self) -> int | None:
        """The version of the weights, which stay as they are until leave(); None while the gate is closed."""
        exchange = self._atomic("__atomic_compare_exchange_8")
        seen = ctypes.c_uint64(self._state.value)
        while seen.value & IS_CLOSED == 0:
            entered = ctypes.c_uint64(seen.value + 1)
            if exchange(ctypes.byref(self._state), ctypes.byref(seen), entered, ACQUIRE, ACQUIRE):
                return self._version.value
        return None

    def leave(self) -> None:
        self._atomic("__atomic_fetch_sub_8")(ctypes.byref(self._state), ctypes.c_uint64(1), RELEASE)

    @contextmanager
    def step(self) -> Iterator[int]:
        """One step of the model: waits until the gate is open, and gives the version that the weights are meanwhile."""
        while (version := self.try_enter()) is None:
            time.sleep(POLL_S)
        try:
            yield version
        finally:
            self.leave()
