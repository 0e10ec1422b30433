"""Figures of tables and fits, drawn with matplotlib: one Display a module, with the scikit-learn interface."""
