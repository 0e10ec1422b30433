"""Reusable working memory for numerical kernels, allocated once per thread.

Touching freshly allocated memory costs about as much as a pass over it: a loop over blocks that allocates its
temporary arrays spends a third of its time in the operating system. A kernel borrows a workspace while it runs:

    with workspace() as work:
        for rows in block.pieces():
            centred = block.centred(rows, mean, work=work)

No kernel returns an array that lives in its workspace: the next kernel of the same thread overwrites it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

KEPT_BYTES = 64 * 2**20
"""Buffers larger than this are freed when a workspace is returned, so that long-lived threads do not hold them."""


@final
class Workspace:
    """Named buffers that the kernel that has borrowed the workspace may overwrite."""

    def __init__(self) -> None:
        """Create an empty workspace."""
        self._buffers: dict[str, npt.NDArray[np.uint8]] = {}
        self._large = False

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """Return an uninitialised array of the given shape, valid until ``name`` is requested again."""
        needed = np.dtype(dtype).itemsize
        for size in shape:
            needed *= size
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < needed:
            buffer = self._buffers[name] = np.empty(needed, dtype=np.uint8)
            self._large |= needed > KEPT_BYTES
        return buffer[:needed].view(dtype).reshape(shape)

    def forget_large(self) -> None:
        """Free the buffers that are larger than ``KEPT_BYTES``."""
        if self._large:
            self._buffers = {name: buffer for name, buffer in self._buffers.items() if buffer.size <= KEPT_BYTES}
            self._large = False


class _Idle(threading.local):
    """Workspaces of this thread that are not borrowed at the moment."""

    def __init__(self) -> None:
        self.workspaces: list[Workspace] = []


_idle = _Idle()


class workspace:  # noqa: N801
    """Context manager that lends a workspace of the current thread; nested uses get separate workspaces."""

    __slots__ = ("_work",)

    def __enter__(self) -> Workspace:
        """Borrow an idle workspace, or create one."""
        idle = _idle.workspaces
        self._work = idle.pop() if idle else Workspace()
        return self._work

    def __exit__(self, *_: object) -> None:
        """Return the workspace to the idle ones of this thread."""
        self._work.forget_large()
        _idle.workspaces.append(self._work)
