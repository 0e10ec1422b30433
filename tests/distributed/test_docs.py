"""Examples of the documentation that need a cluster."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "streams.md"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the source distribution has no docs")


def script(word):
    """The one python block of the page that contains this word."""
    scripts = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (code,) = (code for code in scripts if word in code)
    return code


def run(code):
    names = {}
    exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102
    return names


@pytest.mark.skipif(find_spec("dask") is None, reason="needs dask")
@pytest.mark.usefixtures("client")
def test_the_example_with_dask_runs():
    names = run(script("dask.array"))
    assert names["scores"].shape == (100_000, 10)
    assert names["scores"][:5].compute().shape == (5, 10)


@pytest.mark.usefixtures("spark")
def test_the_example_with_spark_runs():
    names = run(script("probpca.spark"))
    assert names["scores"].count() == 1_000
    assert len(names["scores"].first()["latent"]) == 2
