"""Tensors of numpy and PyTorch as bytes and back, and the types that they have in safetensors files.

Neither library is imported unless a tensor of its is given. Anything else comes as a `RawTensor`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import prod
from mmap import mmap
from typing import Any

# name in a safetensors header -> (code in the layout digest, bits of an element); src/tensor/dtype.h
DTYPES = {
    "BOOL": (1, 8), "U8": (2, 8), "I8": (3, 8), "F8_E5M2": (4, 8), "F8_E4M3": (5, 8), "F8_E8M0": (6, 8), "I16": (7, 16),
    "U16": (8, 16), "F16": (9, 16), "BF16": (10, 16), "I32": (11, 32), "U32": (12, 32), "F32": (13, 32), "I64": (14, 64),
    "U64": (15, 64), "F64": (16, 64), "C64": (17, 64), "F4": (18, 4), "F6_E2M3": (19, 6), "F6_E3M2": (20, 6),
    "F8_E4M3FNUZ": (21, 8), "F8_E5M2FNUZ": (22, 8),
}  # fmt: skip
# Of numpy, ml_dtypes and PyTorch, where the name says it; numpy's and PyTorch's agree where both have one.
NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0", "int16": "I16", "uint16": "U16", "float16": "F16", "bfloat16": "BF16", "int32": "I32",
    "uint32": "U32", "float32": "F32", "int64": "I64", "uint64": "U64", "float64": "F64", "complex64": "C64",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
}  # fmt: skip


@dataclass
class RawTensor:
    """Bytes in the order of a safetensors file."""

    dtype: str
    shape: tuple[int, ...]
    data: Any  # a contiguous buffer


def is_torch(tensor: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def spec_of(name: str, tensor: Any) -> tuple[str, tuple[int, ...], int]:
    """(safetensors type, shape, bytes)"""
    dtype = tensor.dtype if isinstance(tensor, RawTensor) else NAMES.get(str(tensor.dtype).removeprefix("torch."))
    if dtype not in DTYPES:
        raise ValueError(f"tensor {name!r} has type {tensor.dtype}, which safetensors files do not know")
    if is_torch(tensor) and tensor.device.type != "cpu":
        raise ValueError(f"tensor {name!r} lies on {tensor.device}: shared memory is for weights on the CPU")
    shape = tuple(int(dim) for dim in tensor.shape)
    bits = prod(shape) * DTYPES[dtype][1]
    if bits % 8 != 0:
        raise ValueError(f"tensor {name!r} does not end on a byte")
    if isinstance(tensor, RawTensor) and memoryview(tensor.data).nbytes != bits // 8:
        raise ValueError(f"tensor {name!r} has {memoryview(tensor.data).nbytes} bytes, not {bits // 8}")
    return dtype, shape, bits // 8


def bytes_of(tensor: Any) -> memoryview:
    if isinstance(tensor, RawTensor):
        return memoryview(tensor.data).cast("B")
    if is_torch(tensor):
        import torch

        return memoryview(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    import numpy

    return memoryview(numpy.ascontiguousarray(tensor).reshape(-1).view(numpy.uint8))


def view_of(like: Any, memory: mmap, offset: int, byte_count: int) -> Any:
    """A tensor of the same kind, type and shape, whose elements are these bytes."""
    if isinstance(like, RawTensor):
        return RawTensor(like.dtype, tuple(like.shape), memoryview(memory)[offset : offset + byte_count])
    if is_torch(like):
        import torch

        if byte_count == 0:
            return torch.empty_like(like)
        bytes_there = torch.frombuffer(memory, dtype=torch.uint8, count=byte_count, offset=offset)
        return bytes_there.view(like.dtype).reshape(like.shape)
    import numpy

    return numpy.ndarray(like.shape, like.dtype, buffer=memory, offset=offset)
