"""A browser, pages that watch for trouble, and files for them to open."""

import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits, load_wine

from factor_oracles import ABILITIES, correlated_abilities
from html_pages import EVIL
from probpca import PPCA, FactorAnalysis, MixturePPCA, explorer, report
from probpca.datasets import load_fertility

SIZE = {"width": 1240, "height": 900}


def chromium():
    """The browser of the system: none is downloaded."""
    asked = os.environ.get("CHROMIUM", "chromium")
    found = shutil.which(asked)
    if found is None:
        msg = f"no browser is called {asked}: apt-get install chromium, or set CHROMIUM=/path/to/it"
        raise RuntimeError(msg)
    return found


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """Open files, and see at the end that none wrote to the console or asked for anything else."""
    contexts, said, asked, opened = [], [], [], []

    def opening(path, **options):
        context = browser.new_context(viewport=SIZE, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        opened.append(path.as_uri())
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready=true]")
        return page

    yield opening
    for context in contexts:
        context.close()
    assert said == []
    assert asked == opened


def holed(values, share):
    rng = np.random.default_rng(0)
    return np.where(rng.random(values.shape) < share, np.nan, values)


@pytest.fixture(scope="session")
def fertility(tmp_path_factory):
    """Countries by years, with holes: many columns of one unit."""
    table = load_fertility()
    return both(
        tmp_path_factory, PPCA(3, random_state=0), table.values, labels=table.countries, feature_names=table.years
    )


@pytest.fixture(scope="session")
def wine(tmp_path_factory):
    """Few columns of different units in three groups, without names of rows."""
    table = load_wine()
    fit = PPCA(3, standardize=True, random_state=0)
    groups = {"cultivar": table.target_names[table.target], "proline": table.data[:, -1]}
    return both(tmp_path_factory, fit, holed(table.data, 0.05), feature_names=table.feature_names, groups=groups)


@pytest.fixture(scope="session")
def bottles(tmp_path_factory):
    """Wines in clusters, which the table does not name."""
    table = load_wine()
    x = holed(table.data, 0.05)
    fitted = MixturePPCA(n_components=1, n_init=2, random_state=0).fit(x)
    place = tmp_path_factory.mktemp("clusters") / "report.html"
    names = {"feature_names": table.feature_names, "groups": {"cultivar": table.target_names[table.target]}}
    return SimpleNamespace(x=x, fitted=fitted, report=report(fitted, x, place, **names))


@pytest.fixture(scope="session")
def evil(tmp_path_factory):
    """Names that try to be more than names."""
    x = holed(load_wine().data[:, : len(EVIL)], 0.05)
    labels = [EVIL[i % len(EVIL)] for i in range(len(x))]
    names = {"labels": labels, "feature_names": EVIL, "groups": dict.fromkeys(EVIL, labels)}
    return both(tmp_path_factory, PPCA(1, random_state=0), x, title=EVIL[0] + EVIL[1], **names)


@pytest.fixture(scope="session")
def abilities(tmp_path_factory):
    """Correlated factors of rows with holes."""
    x = holed(correlated_abilities(np.random.default_rng(7)), 0.05)
    fit = FactorAnalysis(3, rotation="oblimin")
    return both(tmp_path_factory, fit, x, feature_names=list(ABILITIES))


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """Rows that are images."""
    x = load_digits().data[:300]
    fitted = PPCA(10).fit(x)
    place = tmp_path_factory.mktemp("digits") / "explorer.html"
    explorer(fitted, x, place, labels=load_digits().target[:300], image_shape=(8, 8))
    return SimpleNamespace(x=x, fitted=fitted, explorer=place)


def both(factory, fit, x, **names):
    folder = factory.mktemp("pages")
    fitted = fit.fit(x)
    pages = {page.__name__: page(fitted, x, folder / f"{page.__name__}.html", **names) for page in (report, explorer)}
    return SimpleNamespace(x=x, fitted=fitted, **names, **pages)
