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


def contrast(page, selector, against="body"):
    """Ratio of luminances of the ink of an element and of what lies behind, as WCAG defines it."""
    script = "([what, field]) => getComputedStyle(document.querySelector(what))[field]"
    ink, paper = page.evaluate(script, [selector, "color"]), page.evaluate(script, [against, "backgroundColor"])
    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
