"""What options accept; imports nothing but argparse."""

from __future__ import annotations

import argparse

RULES = ("bic", "evidence", "cv", "ard", "parallel", "gavish_donoho")


def components(text: str) -> int | float | str:
    """A number of components, a share of variance, or a rule."""
    if text in RULES:
        return text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    return share(text, f"must be a number of components, a share between 0 and 1, or one of {', '.join(RULES)}")


def states(text: str) -> int | str:
    """A number of states, or a rule."""
    return text if text in ("bic", "cv") else count(text)


def count(text: str) -> int:
    """A whole number, 1 or more."""
    if not (text.isdecimal() and int(text) > 0):
        msg = f"must be a whole number, 1 or more; got {text}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def seed(text: str) -> int:
    """A whole number, 0 or more."""
    return 0 if text == "0" else count(text)


def jobs(text: str) -> int:
    """A number of threads; negative ones count from all cores."""
    if text.startswith("-") and text[1:].isdecimal() and int(text):
        return int(text)
    return count(text)


def share(text: str, needed: str = "must lie between 0 and 1") -> float:
    """A number between 0 and 1."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < 1:
        msg = f"{needed}; got {text}"
        raise argparse.ArgumentTypeError(msg)
    return found
