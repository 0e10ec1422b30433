"""Formulas as MathML, which browsers draw by themselves: no script and no network."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
OPERATOR = f"{{{NAMESPACE}}}mo"
FAMILIES = {"bold": "BOLD", "script": "SCRIPT", "double-struck": "DOUBLE-STRUCK", "bold-italic": "BOLD ITALIC"}
RELATIONS = {"~": "\N{TILDE OPERATOR}"}
FUNCTIONS = {"log", "exp", "tr", "min", "max", "det"}


def to_mathml(latex: str, display: str) -> str:
    """One formula, with what browsers and the converter disagree about put right."""
    if "&" in latex and not re.search(r"\\begin\{(\w*matrix|array|cases)\}", latex):
        msg = f"alignment works in matrices and arrays only: {latex!r}"
        raise ValueError(msg)
    ET.register_namespace("", NAMESPACE)
    root = ET.fromstring(convert(latex, display=display))  # noqa: S314
    for leaf in root.iter():
        if leaf.text in RELATIONS:
            leaf.tag, leaf.text = OPERATOR, RELATIONS[leaf.text]
        elif leaf.text in FUNCTIONS:
            leaf.tag = OPERATOR
            leaf.attrib.update(form="prefix", lspace="0.17em", rspace="0.17em", movablelimits="false")
        elif leaf.tag == OPERATOR and leaf.text == "|":
            leaf.attrib.update(lspace="0.06em", rspace="0.06em", stretchy="false")
        family = FAMILIES.get(leaf.attrib.get("mathvariant", ""))
        if family and leaf.text and len(leaf.text) == 1:
            leaf.text = _letter(family, leaf.text)
            del leaf.attrib["mathvariant"]
    return ET.tostring(root, encoding="unicode")


def _letter(family: str, letter: str) -> str:
    """The letter of that family: browsers draw the character, and ignore the attribute."""
    case = "CAPITAL" if letter.isupper() else "SMALL"
    name = f"{family} {case} {letter.upper()}"
    for place in (f"MATHEMATICAL {name}", name):  # some letters were in Unicode before their families came
        try:
            return unicodedata.lookup(place)
        except KeyError:
            continue
    return letter


def visit_inline(writer: Any, node: nodes.math) -> None:
    """Write an inline formula."""
    writer.body.append(to_mathml(node.astext(), "inline"))
    raise SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    """Write a displayed formula."""
    writer.body.append(f'<div class="formula">{to_mathml(node.astext(), "block")}</div>')
    raise SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name that ``html_math_renderer`` asks for."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
