"""Which cells of some rows are observed, in the form that multiplies fastest.

Four forms, one contract: omega are the precisions of the cells, 0 where nothing was observed, and y their
values less some centre; each form has both as operators that multiply from features to rows and back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from probpca.rows.operators import Operator
    from probpca.typing import Array, Index


class Cells(Protocol):
    """The observed cells of some rows. A *pattern* is a set of observed features."""

    @property
    def pattern(self) -> Index | None:
        """Pattern of each row, rows sorted by it: (b,); None: each row has its own."""
        ...

    @property
    def mask(self) -> Operator:
        """Omega, of each row or of each pattern."""
        ...

    @property
    def values(self) -> Operator:
        """Omega y, of each row."""
        ...

    def ready(self) -> Cells:
        """The same in double precision, in this thread's scratch if it is stored smaller."""
        ...

    def observed(self) -> Array:
        """Number of observed cells of each row: (b,)."""
        ...

    def log_precision(self) -> Array | float:
        """Sum of log omega over the observed cells of each row: (b,), or 0 for all."""
        ...

    def square_sums(self, weight: Array) -> Array:
        """Sum over rows of w omega y^2: (d,)."""
        ...

    def residual(self, left: Array, right: Array) -> Residual:
        """Omega (y - left' right) of the observed cells, left (r, d) and right (r, b)."""
        ...


class Residual(Protocol):
    """What is left of the observed cells after a prediction."""

    def row_squares(self) -> Array:
        """Sum over features of omega r^2: (b,)."""
        ...

    def column_squares(self, weight: Array) -> Array:
        """Sum over rows of w omega r^2: (d,)."""
        ...

    def sums(self, moments: Array) -> Array:
        """Sum over rows of omega r times (p, b): (p, d)."""
        ...

    def dense(self) -> Array:
        """Omega r, zero where nothing was observed: (b, d)."""
        ...
