"""Which cells of some rows are observed, in the form that multiplies fastest.

Four forms, one contract. With omega the precisions of the cells, 0 where nothing was observed, and y
their values less some centre, each form makes the products of both with tables that have a column
per feature (going from features to rows) and with moments that have a column per row (going back).
Everything that missing cells ask of a solver is in these four products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from probpca.typing import Array, Index


class Cells(Protocol):
    """The observed cells of some rows. A *pattern* is a set of observed features."""

    @property
    def pattern(self) -> Index | None:
        """Pattern of each row, rows sorted by it: (b,); None: each row has its own."""
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

    def mask_products(self, table: Array) -> Array:
        """Sum over features of omega times (p, d): (p, b), or (p, patterns)."""
        ...

    def value_products(self, table: Array) -> Array:
        """Sum over features of omega y times (p, d): (p, b)."""
        ...

    def mask_sums(self, moments: Array) -> Array:
        """Sum over rows, or patterns, of omega times (p, b): (p, d)."""
        ...

    def value_sums(self, moments: Array) -> Array:
        """Sum over rows of omega y times (p, b): (p, d)."""
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
