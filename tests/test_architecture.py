"""Which package may import which, and what modules may be called."""

import ast
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import probpca

ROOT = Path(probpca.__file__).parent
GROUND = {
    "atomic_write",
    "available_memory",
    "cached_property",
    "errors",
    "printable_text",
    "result_tables",
    "scratch",
    "typing",
}
NUMBERS = GROUND | {"linalg", "blocks"}
LEARNING = NUMBERS | {"models", "statistics", "sources", "inference", "learning"}
ALLOWED = {
    "errors": {"typing"},
    "typing": set(),
    "atomic_write": {"errors"},
    "available_memory": {"errors"},
    "cached_property": set(),
    "printable_text": set(),
    "result_tables": {"printable_text"},
    "scratch": {"typing"},
    "datasets": GROUND,
    "linalg": GROUND,
    "blocks": GROUND,
    "models": NUMBERS,
    "statistics": NUMBERS,
    "sources": NUMBERS | {"statistics"},
    "inference": NUMBERS | {"models"},
    "learning": LEARNING,
    "estimators": LEARNING,
    "spark": {"estimators"},
    "__main__": {"cli"},
    "displays": LEARNING | {"estimators"},
    "pages": LEARNING | {"displays"},
    "cli": LEARNING | {"datasets", "estimators", "displays", "pages"},
}
OUTSIDE = {
    "sklearn": {"estimators"},
    "threadpoolctl": {"sources/engines/local.py"},
    "tqdm": {"learning/progress.py"},
    "narwhals": {"sources", "estimators", "result_tables.py"},
    "matplotlib": {"displays"},
    "altair": {"pages/report_charts.py"},
    "vl_convert": {"pages/report_charts.py"},
    "pyarrow": {"sources/readers", "sources/write.py", "sources/engines/spark.py"},
    "python_calamine": {"sources/readers/workbook.py"},
    "dask": {"sources/engines/dask.py"},
    "distributed": {"sources/engines/dask.py"},
    "pyspark": {"sources/engines/spark.py", "estimators/spark.py"},
}
BY_NAME = {"import_module", "arrow_module", "files", "find_spec", "lazy"}
"""Functions that take the name of a module as text."""
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
PACKAGES = sorted(path.parent for path in ROOT.rglob("__init__.py"))


def name(path):
    return path.relative_to(ROOT).as_posix()


def imported(path):
    """Full names of all modules that a file imports, at whatever depth, by statement or by text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{name(path)} has a relative import"
            yield node.module
        elif isinstance(node, ast.Call) and called(node) in BY_NAME and node.args:
            yield from texts(node.args[0])


def called(node):
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)


def texts(node):
    """The text of an argument, or how a formatted one begins."""
    if isinstance(node, ast.JoinedStr):
        node = node.values[0]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value.rstrip(".")


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_point_downwards(path):
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    rooms = {module.split(".")[1] for module in imported(path) if module.startswith("probpca.")}
    assert rooms <= ALLOWED[room] | {room}


@pytest.mark.parametrize("path", [path for path in MODULES if name(path).startswith("learning/")], ids=name)
def test_learning_knows_no_engine_but_threads_and_no_reader(path):
    rooms = {module for module in imported(path) if module.startswith("probpca.sources")}
    assert rooms <= {"probpca.sources", "probpca.sources.engines.local"}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_outside_libraries_are_met_where_they_belong(path):
    for module in imported(path):
        homes = OUTSIDE.get(module.split(".")[0])
        assert homes is None or any(name(path).startswith(home) for home in homes), module


@pytest.mark.parametrize(
    "line", ["import_module('probpca.cli.main')", "files('probpca.cli')", "import_module(f'probpca.cli.{x}')"]
)
def test_imports_by_text_are_seen(tmp_path, line):
    file = tmp_path / "module.py"
    file.write_text(line)
    assert [module.split(".")[:2] for module in imported(file)] == [["probpca", "cli"]]


@pytest.mark.parametrize("path", [*MODULES, ROOT / "__init__.py"], ids=name)
def test_modules_have_a_subject(path):
    assert not re.search(r"(^|_)(utils?|helpers?|common|misc)(_|$)", path.stem)


@pytest.mark.parametrize("path", [path for path in MODULES if path.stem != "cached_property"], ids=name)
def test_no_property_is_computed_under_a_lock(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "functools":
            assert "cached_property" not in {alias.name for alias in node.names}, "use probpca.cached_property"


@pytest.mark.parametrize("folder", PACKAGES, ids=name)
def test_no_package_exports_a_name_that_one_of_its_modules_has(folder):
    package = import_module(".".join(("probpca", *folder.relative_to(ROOT).parts)))
    stems = {path.stem for path in folder.glob("*.py")} | {path.name for path in folder.iterdir() if path.is_dir()}
    for stem in stems & set(getattr(package, "__all__", ())):
        assert isinstance(getattr(package, stem), ModuleType), stem


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
    with pytest.raises(AttributeError, match="nonsense"):
        probpca.nonsense  # noqa: B018
