"""The fields of frozen classes, with the comments that stand beside them in the source."""

from __future__ import annotations

import ast
import inspect
from dataclasses import is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

FIELD_KINDS = ("_tuplegetter", "member_descriptor")


def fields_of(kind: type) -> Iterator[tuple[str, str, str]]:
    """Name, type and comment of each field of a dataclass, a named tuple or an enumeration."""
    if issubclass(kind, Enum):
        yield from ((member.name, "", str(member.value)) for member in kind)
        return
    source = inspect.getsource(kind)
    lines = source.splitlines()
    for statement in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            default = "" if statement.value is None else f" = {ast.unparse(statement.value)}"
            _, _, comment = lines[statement.end_lineno - 1].partition("  # ")  # type: ignore[operator]
            yield statement.target.id, ast.unparse(statement.annotation) + default, comment


def add_fields(_app: Sphinx, what: str, _name: str, obj: Any, _options: Any, lines: list[str]) -> None:
    """Append the list of fields, before the examples if there are any, unless the docstring has a list of its own."""
    is_record = isinstance(obj, type) and (is_dataclass(obj) or hasattr(obj, "_fields") or issubclass(obj, Enum))
    if what != "class" or not is_record or any(line.startswith(":Attributes:") for line in lines):
        return
    listing = [".. rubric:: Fields" if not issubclass(obj, Enum) else ".. rubric:: Members", ""]
    for name, annotation, comment in fields_of(obj):
        listing.append(f"``{name}``" + (f" : {annotation}" if annotation else ""))
        listing += [f"    {comment or '..'}"]
    examples = next((i for i, line in enumerate(lines) if line.startswith(".. rubric:: Examples")), len(lines))
    lines[examples:examples] = ["", *listing, ""]


def skip_bare_fields(_app: Sphinx, _what: str, _name: str, obj: Any, _skip: bool, _options: Any) -> bool | None:  # noqa: FBT001
    """Leave out what ``add_fields`` has told already."""
    return True if type(obj).__name__ in FIELD_KINDS or isinstance(obj, Enum) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Hook into autodoc, after numpydoc has had its say."""
    app.connect("autodoc-process-docstring", add_fields, priority=900)
    app.connect("autodoc-skip-member", skip_bare_fields)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
