"""The command line: ``probpca fit``, ``probpca impute`` and the other commands."""
