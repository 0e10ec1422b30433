"""Something to look at while a long fit runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tqdm.auto import tqdm

if TYPE_CHECKING:
    from probpca.learning.loop import Progress


class ProgressBar:
    """A bar that counts iterations and shows the log-likelihood and what is still to be gained.

    Use it as a context manager and hand it to a solver as ``watch``.
    """

    def __init__(self, *, enabled: bool) -> None:
        """Prepare a bar, which appears with the first step; a disabled one never does."""
        self._enabled = enabled
        self._bar: tqdm[Any] | None = None
        self._pass: tqdm[Any] | None = None

    def __enter__(self) -> Self:
        """Return the bar itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the bar."""
        for bar in (self._pass, self._bar):
            if bar is not None:
                bar.close()

    def parts(self, done: int, total: int) -> None:
        """Show how far a pass over rows in a file has come."""
        if not self._enabled:
            return
        if self._pass is None:
            self._pass = tqdm(total=total, unit="part", desc="reading", leave=False, position=1)
        self._pass.update(done - self._pass.n)
        if done == total:
            self._pass.close()
            self._pass = None

    def __call__(self, progress: Progress) -> None:
        """Show one step."""
        if not self._enabled:
            return
        if self._bar is None:
            self._bar = tqdm(total=progress.max_iter, unit="step")
        self._bar.set_postfix_str(f"ll {progress.log_likelihood:.6g}, to gain {progress.remaining:.2g}")
        self._bar.update(progress.iteration - self._bar.n)
