"""One HTML file that needs nothing else, and in which text stays text."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from probpca.appearing import appearing, require_writable
from probpca.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNSAFE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}


def page_place(path: Any) -> Path:
    """Where a page is to be; raise ``SourceError``, before there is any work, if it cannot be there."""
    place = Path(path)
    require_writable(place)
    return place


def write_page(place: Path, name: str, scripts: Sequence[str], data: Any, parts: Mapping[str, str]) -> Path:
    """Fill in the template ``name`` and what stands around it: ``parts`` are HTML, ``data`` is what scripts read."""
    page = Template(asset("page.html")).substitute(
        parts,
        body=Template(asset(f"{name}.html")).substitute(parts),
        policy=_policy(scripts),
        style=asset("page.css") + asset(f"{name}.css"),
        data=inert_json(data),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )
    try:
        with appearing(place) as part:
            part.write_bytes(page.encode("utf-8", "replace"))
    except OSError as error:
        msg = f"the page could not be written to {place}: {error.strerror}."
        raise SourceError(msg) from None
    return place


def asset(name: str) -> str:
    """A file that lies beside this one."""
    return files("probpca.views.pages").joinpath(name).read_text(encoding="utf-8")


def bundle(*names: str) -> str:
    """Scripts of this folder as one, with a scope of its own."""
    return "(() => {\n" + "\n".join(asset(name) for name in names) + "\n})();\n"


def inert_json(data: Any) -> str:
    """JSON in which nothing ends a script element, begins a comment or breaks a line."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(UNSAFE)


def _policy(scripts: Sequence[str]) -> str:
    """What the browser may do: run these scripts and no others, and load nothing."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
