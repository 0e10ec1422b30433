"""Working memory that each thread allocates once.

Fresh pages cost as much as a pass over them: a loop over blocks that allocates its
temporaries spends a third of its time in the kernel.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_thread = threading.local()

KEPT_BYTES = 64 * 2**20
"""Larger buffers are not kept: threads live on, and so would their memory."""


def scratch(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A buffer with arbitrary contents, valid until this thread asks for ``name`` again."""
    buffers: dict[str, npt.NDArray[np.uint8]] = _thread.__dict__.setdefault("buffers", {})
    needed = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = buffers.get(name)
    if buffer is None or buffer.size < needed:
        buffer = np.empty(needed, dtype=np.uint8)
        if needed <= KEPT_BYTES:
            buffers[name] = buffer
    return buffer[:needed].view(dtype).reshape(shape)


def release() -> None:
    """Give this thread's buffers back."""
    _thread.__dict__.pop("buffers", None)
