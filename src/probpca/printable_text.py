"""Text of strangers, such as labels and names of columns and files, made safe to show in a terminal."""

from __future__ import annotations

import re
from unicodedata import category

OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that a terminal obeys or cannot show: controls, direction marks, surrogates, line separators."""
KEPT = frozenset("\n\u200c\u200d")
"""Characters of these categories that are kept: the line break, and joiners, which belong to the spelling of words."""
_BEYOND_ASCII = re.compile(r"[^ -~]")


def printable(text: str) -> str:
    """Replace characters that a terminal would obey by question marks; line breaks stay."""
    return _BEYOND_ASCII.sub(lambda found: "?" if _is_obeyed(found[0]) else found[0], text)


def printable_line(text: str) -> str:
    """Text in one line, without characters that a terminal would obey."""
    return printable(" ".join(text.split()))


def printable_json(text: str) -> str:
    r"""Escape characters that a terminal would obey, as in ``\u202e``; the JSON text means the same."""
    return _BEYOND_ASCII.sub(lambda found: _escaped(found[0]) if _is_obeyed(found[0]) else found[0], text)


def _is_obeyed(letter: str) -> bool:
    return letter not in KEPT and category(letter) in OBEYED


def _escaped(letter: str) -> str:
    """Escape of JSON for a letter: one or two code units of UTF-16."""
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
