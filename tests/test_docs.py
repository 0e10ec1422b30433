"""The pages of the documentation keep their promises."""

import doctest
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(?:python|pycon)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the source distribution has no docs")


def pages():
    hidden = ("_build", "generated", "benchmarks/")
    found = (page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
    return sorted(page for page in found if not any(part in page for part in hidden))


def examples(text):
    """The fenced examples on the lines where they stand, and nothing else."""
    lines = [""] * (text.count("\n") + 1)
    for fence in FENCE.finditer(text):
        first = text.count("\n", 0, fence.start(1))
        for i, line in enumerate(fence[1].splitlines()):
            lines[first + i] = line
    return "\n".join(lines)


def failures(text, name):
    """What a reader who types the examples of a page would see go wrong."""
    test = doctest.DocTestParser().get_doctest(examples(text), {}, name, name, 0)
    said = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize("page", pages())
def test_examples_of_a_page_give_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples may write files
    said = failures((DOCS / page).read_text(encoding="utf-8"), page)
    assert not said, said


def test_a_wrong_example_is_found():
    said = failures("Text.\n\n```pycon\n>>> 1 + 1\n3\n```\n", "wrong.md")
    assert "line 4" in said
    assert "Expected:\n    3\nGot:\n    2" in said


def reference():
    """Names that the reference lists, by the module that they are imported from."""
    listed, module = {}, ""
    for line in (DOCS / "reference" / "index.md").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)$", line):
            module = found[1]
        elif found := re.match(r"   (\w+)$", line):
            listed.setdefault(module, []).append(found[1])
    return listed


@pytest.mark.parametrize("module", ["probpca", *(f"probpca.{name}" for name in ("models", "inference", "learning"))])
def test_every_public_name_has_its_place_in_the_reference(module):
    home = import_module(module)
    public = [name for name in home.__all__ if not isinstance(getattr(home, name), ModuleType)]
    assert sorted(reference()[module]) == sorted(public)


def test_every_name_of_the_reference_can_be_imported():
    for module, names in reference().items():
        assert all(hasattr(import_module(module), name) for name in names)


@pytest.mark.parametrize("page", pages())
def test_files_that_a_page_names_exist(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:tests|src|docs|benchmarks)/[\w/.]+\.\w+)`", text))
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", pages())
def test_tests_that_a_page_names_exist(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for path, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{test}"
