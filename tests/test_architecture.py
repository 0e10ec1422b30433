"""Who may import whom, and how large a thing may grow."""

import ast
from pathlib import Path

import pytest

import probpca

ROOT = Path(probpca.__file__).parent
GROUND = {"appearing", "errors", "scratch", "typing"}
NUMBERS = GROUND | {"linalg", "rows"}
ALLOWED = {
    "errors": {"typing"},
    "typing": set(),
    "appearing": {"errors"},
    "scratch": {"typing"},
    "data": GROUND,
    "linalg": GROUND,
    "rows": GROUND,
    "models": NUMBERS,
    "statistics": NUMBERS,
    "sources": NUMBERS | {"statistics"},
    "inference": NUMBERS | {"models"},
    "learning": NUMBERS | {"models", "statistics", "sources", "inference"},
    "estimators": NUMBERS | {"models", "statistics", "sources", "inference", "learning"},
    "spark": {"estimators"},
    "__main__": {"cli"},
    "views": NUMBERS | {"models", "statistics", "sources", "inference", "learning"},
    "cli": GROUND | {"data", "estimators", "inference", "models", "sources", "learning", "views"},
}
OUTSIDE = {
    "sklearn": {"estimators"},
    "threadpoolctl": {"sources/local.py"},
    "tqdm": {"learning/progress.py"},
    "narwhals": {"sources", "estimators"},
    "matplotlib": {"views"},
    "altair": {"views/report_charts.py"},
    "vl_convert": {"views/report_charts.py"},
    "pyarrow": {"sources/arrow"},
    "dask": {"sources/dask.py"},
    "pyspark": {"sources/spark.py", "estimators/spark.py"},
}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def name(path):
    return path.relative_to(ROOT).as_posix()


def imported(path):
    """Full names of all modules that a file imports, at whatever depth."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{name(path)} has a relative import"
            yield node.module


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_point_downwards(path):
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    rooms = {module.split(".")[1] for module in imported(path) if module.startswith("probpca.")}
    assert rooms <= ALLOWED[room] | {room}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_outside_libraries_are_met_where_they_belong(path):
    for module in imported(path):
        homes = OUTSIDE.get(module.split(".")[0])
        assert homes is None or any(name(path).startswith(home) for home in homes), module


@pytest.mark.parametrize("path", [*MODULES, ROOT / "__init__.py"], ids=name)
def test_modules_stay_small_and_have_a_subject(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 250
    assert path.stem not in {"utils", "helpers", "common", "misc"}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_functions_stay_short(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= 35, f"{node.name} has {lines} lines"


def test_every_public_name_can_be_had():
    for public in probpca.__all__:
        assert getattr(probpca, public) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        probpca.nonsense  # noqa: B018
