"""Words of the library as somebody at a terminal needs them."""

from __future__ import annotations

import re

UNKNOWN = {" or loosen tol": "", "; for complete rows use solver='closed_form'": "", "fix it, or take": "take"}
"""Advice about what has no option."""


def in_words_of_the_shell(text: str) -> str:
    """Parameters of Python as options."""
    text = re.sub(r"\bn_components='?([\w.]+)'?", r"--components \1", text)
    for said, instead in UNKNOWN.items():
        text = text.replace(said, instead)
    text = re.sub(r"\bmax_iter\b", "--max-iter", text)
    text = re.sub(r"\bor '(\w+)'", r"or \1", text)
    return re.sub(r"\bn_components\b", "--components", text)
