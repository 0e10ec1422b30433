"""What a person reads off the pages."""

import re

import numpy as np

RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def number(text):
    """A number as it is written on the screen."""
    plain = text.strip().replace("\u2212", "-").replace(",", "").replace("\u221e", "inf")
    small = re.fullmatch(r"([\d.]+) \u00d7 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", plain)
    return float(small[1]) * 10.0 ** int(small[2].translate(RAISED)) if small else float(plain)


def column(page, table, k):
    """Texts of column k of a table."""
    return page.locator(f"{table} tr").evaluate_all("(lines, k) => lines.map((line) => line.cells[k].textContent)", k)


def numbers(page, table, k):
    return np.array([number(text) if text not in ("", "missing") else np.nan for text in column(page, table, k)])


def choose(page, name):
    page.fill("#row", name)
    page.press("#row", "Enter")


def contrast(page, selector, against="body", ink="color"):
    """Ratio of luminances of the ink of an element and of what lies behind, as WCAG defines it."""
    script = "([what, field]) => getComputedStyle(document.querySelector(what))[field]"
    drawn, paper = page.evaluate(script, [selector, ink]), page.evaluate(script, [against, "backgroundColor"])
    light, dark = sorted((luminance(drawn), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    return float(_linear(colour) @ [0.2126, 0.7152, 0.0722])


NORMAL = np.eye(3)
COLOUR_BLIND = (
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
)
"""What readers without red, green or blue cones see of linear colours (Machado, Oliveira & Fernandes 2009)."""


def difference(one, other, vision):
    """Difference of two colours in CIELAB (1976) to readers with this vision."""
    return float(np.linalg.norm(_lab(vision @ _linear(one)) - _lab(vision @ _linear(other))))


def _linear(colour):
    parts = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def _lab(linear):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = xyz @ np.clip(linear, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
