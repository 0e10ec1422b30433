"""Fits that outlying rows and cells cannot bend: trimmed rows, and cells with precisions."""
