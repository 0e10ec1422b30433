"""Fits that outlying rows and cells cannot bend: trimmed rows, and cells with precisions."""

from probpca.learning.robust.fit import fit_robust, reference

__all__ = ["fit_robust", "reference"]
