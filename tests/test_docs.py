"""The README and the pages of the documentation show what really happens.

Examples are run in a temporary folder: ``pycon`` blocks as doctests, ``python`` blocks as scripts, ``console`` blocks
as commands. Blocks that need a cluster are run by ``tests/distributed/test_docs.py``.
"""

import doctest
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from console_examples import commands, printed, write_tables

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NEEDS_A_CLUSTER = re.compile(r"^(?:import|from) (?:dask|pyspark|probpca\.spark)\b", re.MULTILINE)

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the source distribution has no docs")


def pages():
    """README and pages, without what is generated."""
    hidden = ("_build/", "generated/", "benchmarks/")
    found = (page.relative_to(ROOT).as_posix() for page in DOCS.rglob("*.md"))
    return ["README.md", *sorted(page for page in found if not any(part in page for part in hidden))]


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text, language):
    """The code of each fenced block in this language, and its first line."""
    for fence in FENCE.finditer(text):
        if fence[1] == language:
            yield fence[2], text.count("\n", 0, fence.start(2))


def doctests(text):
    """The pycon blocks of a page at their line numbers, and nothing else."""
    lines = [""] * (text.count("\n") + 1)
    for code, first in blocks(text, "pycon"):
        # An empty line in the middle of an output is part of it.
        marked = re.sub(r"\n(?=\n+(?!>>>|\n))", "\n<BLANKLINE>", code.rstrip("\n"))
        for i, line in enumerate(marked.splitlines()):
            lines[first + i] = line
    return "\n".join(lines)


def failures(text, name):
    """What a reader who types the examples of a page would see go wrong."""
    test = doctest.DocTestParser().get_doctest(doctests(text), {}, name, name, 0)
    said = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.append)
    return "".join(said)


def matches(shown, printed):
    return doctest.OutputChecker().check_output(shown, printed, OPTIONS)


@pytest.mark.parametrize("page", pages())
def test_examples_of_a_page_give_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples may write files
    said = failures(read(page), page)
    assert not said, said


@pytest.mark.parametrize("page", [page for page in pages() if any(blocks(read(page), "python"))])
def test_scripts_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code, first in blocks(read(page), "python"):
        if not NEEDS_A_CLUSTER.search(code):
            exec(compile("\n" * first + code, page, "exec"), {})  # noqa: S102


@pytest.mark.parametrize("page", [page for page in pages() if any(commands(read(page)))])
def test_commands_print_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables()
    for command, shown in commands(read(page)):
        said = printed(command)
        assert matches(shown, said), f"$ {command}\n{said}\nmake console writes this into the page."


def test_a_wrong_example_is_found():
    said = failures("Text.\n\n```pycon\n>>> 1 + 1\n3\n```\n", "wrong.md")
    assert "line 4" in said
    assert "Expected:\n    3\nGot:\n    2" in said


def test_a_wrong_command_is_found():
    ((command, shown),) = commands("```console\n$ pip install .\n$ probpca score a b\n1.0\n```\n")
    assert command == "probpca score a b"
    assert matches(shown, "1.0\n")
    assert not matches(shown, "2.0\n")


def test_every_block_of_code_is_of_a_kind_that_is_run():
    kinds = {(page, fence[1]) for page in pages() for fence in FENCE.finditer(read(page))}
    assert {kind for _, kind in kinds} <= {"pycon", "python", "console"}


@pytest.mark.parametrize("page", pages())
def test_files_that_a_page_links_to_exist(page):
    links = re.findall(r"\]\(([\w./]+)(?:#[\w-]+)?\)", read(page))
    made = ("docs/examples/", "docs/_figures/")  # the gallery and the figures, made by every build
    targets = {link: (ROOT / page).parent / link for link in links}
    missing = {link: path.resolve().as_posix() for link, path in targets.items() if not path.exists()}
    assert [link for link, path in missing.items() if not any(folder in path for folder in made)] == []


def reference():
    """Names that the reference lists, by the module that they are imported from."""
    listed, module = {}, ""
    pages = sorted((DOCS / "reference").glob("*.md"))
    for line in "\n".join(page.read_text(encoding="utf-8") for page in pages).splitlines():
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
    named = set(re.findall(r"`((?:tests|src|docs|benchmarks)/[\w/.]+\.\w+)`", read(page)))
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_promise_about_security_names_the_tests_that_hold_it():
    promises = read("docs/security.md").split("## What is promised")[1].split("\n\n")[1].splitlines()[2:]
    assert promises
    for promise in promises:
        held = re.findall(r"`(tests/[\w/.]+)`", promise.split("|")[2])
        assert held, promise
        assert all((ROOT / path).exists() for path in held), promise


@pytest.mark.parametrize("page", pages())
def test_make_targets_that_a_page_names_exist(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([\w-]+)", read(page)))
    assert [target for target in sorted(named) if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


@pytest.mark.parametrize("page", pages())
def test_tests_that_a_page_names_exist(page):
    for path, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", read(page)):
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{test}"
