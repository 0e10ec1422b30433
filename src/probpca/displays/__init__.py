"""Figures of tables and fits, drawn with matplotlib: one Display a module, in the style of scikit-learn."""
