"""What tests read out of a page that the library wrote, by other means than the page itself."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np

EVIL = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "\"'`};window.hacked=1;//",
    "${window.hacked=1} $title {{constructor.constructor('window.hacked=1')()}}",
    "a.b[0]['c']\\",
    "naïve 温度 \u202e \u2028 \U0001f600 \ud800",
    "",
    "<!--<script>",
)


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text inside scripts and other elements."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.scripts, self.words, self._open = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        if tag == "script":
            self.scripts.append((dict(attrs), []))

    def handle_endtag(self, tag):  # noqa: ARG002
        self._open = None

    def handle_data(self, data):
        if self._open == "script":
            self.scripts[-1][1].append(data)
        elif self._open != "style":
            self.words.append(data)

    def count(self, tag):
        return sum(found == tag for found, _ in self.tags)

    def data(self):
        (text,) = [parts for attrs, parts in self.scripts if attrs.get("id") == "data"]
        return json.loads("".join(text))


def read(path):
    return Elements(path.read_text(encoding="utf-8"))


def numbers(text, *shape):
    """Three bytes a number, as they are packed."""
    kept = np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(-1, 3)
    whole = np.concatenate([kept, np.zeros((len(kept), 1), np.uint8)], axis=1)
    return whole.reshape(-1).view(">f4").astype(float).reshape(shape)


def positions(text, *shape):
    """Three bytes a whole number, as they are packed."""
    kept = np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(-1, 3).astype(int)
    return (kept @ [65536, 256, 1]).reshape(shape)


def bits(text, *shape):
    flat = np.unpackbits(np.frombuffer(base64.b64decode(text), dtype=np.uint8))
    return flat[: np.prod(shape)].reshape(shape).astype(bool)


def loads_nothing(path):
    """No element, style or call of this page names an address to load from."""
    text = path.read_text(encoding="utf-8")
    for tag, attrs in Elements(text).tags:
        assert not {"src", "href", "srcset", "data", "action", "poster"} & set(attrs), (tag, attrs)
        assert not any(name.startswith("on") for name in attrs), (tag, attrs)
        assert tag not in ("link", "iframe", "object", "embed", "base"), tag
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
    assert "url(" not in styles
    assert "@import" not in styles
    addresses = set(re.findall(r"https?://[\w.-]+", text))
    # Names of XML and of schemas, the issue that a warning names, and the editor of a menu that is not shown.
    assert addresses <= {"http://www.w3.org", "https://vega.github.io", "https://github.com"}, addresses
    assert "default-src 'none'" in text
