"""How the tests run, wherever they run."""

import os
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest

pytest.register_assert_rewrite("oracles")

ROOT = Path(__file__).parents[1]
BEFORE = pytest.StashKey[set[str]]()
LEFT_BEHIND = pytest.StashKey[list[str]]()

# Timings belong to benchmarks, so no deadline; in CI every run draws the same examples.
hypothesis.settings.register_profile("local", deadline=None, max_examples=25)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def rng():
    """The same stream for every test: what fails today fails tomorrow."""
    return np.random.default_rng(20240229)


@pytest.fixture(autouse=True)
def _close_figures():
    """Close the figures that a test or an example has drawn."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def _files_are_large(request, monkeypatch):
    """Let the files of tests of estimators and laws stand for large ones, which are not held in memory during a fit."""
    if {("tests", "estimators"), ("tests", "laws")} & {request.path.relative_to(ROOT).parts[:2]}:
        monkeypatch.setattr("probpca.sources.source.HELD_BYTES", 0)


def visible_files():
    """Names in the root of the repository, without caches and environments, which begin with a dot."""
    return {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}


def pytest_configure(config):
    config.stash[BEFORE] = visible_files()


def pytest_sessionfinish(session):
    """Fail a run that leaves files in the root of the repository: tests write to ``tmp_path``."""
    session.config.stash[LEFT_BEHIND] = sorted(visible_files() - session.config.stash[BEFORE])
    if session.config.stash[LEFT_BEHIND]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    for name in config.stash.get(LEFT_BEHIND, []):
        terminalreporter.write_line(f"FAILED: the tests left {name} in {ROOT}; use tmp_path", red=True)
