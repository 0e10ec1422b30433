"""Working memory of the kernels, allocated once a thread.

Fresh pages cost as much as a pass over them: a loop over blocks that allocates its temporaries spends a third of
its time in the operating system. A kernel borrows a workspace for as long as it runs and shares it with nobody:

    with workspace() as work:
        for rows in block.pieces():
            centred = block.centred(rows, mean, work=work)

What a kernel returns is never in the workspace, for the next kernel of the thread overwrites it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

KEPT_BYTES = 64 * 2**20
"""Larger buffers are given back with their workspace: threads live on, and so would their memory."""


@final
class Workspace:
    """Named buffers that whoever holds the workspace may write into."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._buffers: dict[str, npt.NDArray[np.uint8]] = {}
        self._large = False

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """An array with arbitrary contents, valid until the same name is used again."""
        needed = np.dtype(dtype).itemsize
        for size in shape:
            needed *= size
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < needed:
            buffer = self._buffers[name] = np.empty(needed, dtype=np.uint8)
            self._large |= needed > KEPT_BYTES
        return buffer[:needed].view(dtype).reshape(shape)

    def forget_large(self) -> None:
        """Keep only buffers of moderate size."""
        if self._large:
            self._buffers = {name: buffer for name, buffer in self._buffers.items() if buffer.size <= KEPT_BYTES}
            self._large = False


class _Idle(threading.local):
    """The workspaces of this thread that no kernel holds."""

    def __init__(self) -> None:
        self.workspaces: list[Workspace] = []


_idle = _Idle()


class workspace:  # noqa: N801
    """Lend a workspace of this thread; a kernel that another one calls gets a workspace of its own."""

    __slots__ = ("_work",)

    def __enter__(self) -> Workspace:
        """Take a workspace that no kernel holds."""
        idle = _idle.workspaces
        self._work = idle.pop() if idle else Workspace()
        return self._work

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self._work.forget_large()
        _idle.workspaces.append(self._work)
