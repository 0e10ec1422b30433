"""``make screenshots``: report and explorer as they look, light and dark, for people to judge."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits, load_wine

from probpca import PPCA, FactorAnalysis, MixturePPCA, explorer, report
from probpca.datasets import load_fertility

FERTILITY, WINE, DIGITS = load_fertility(), load_wine(), load_digits()


def write(folder):
    """The pages, and the row to choose in each."""
    years = PPCA(3, random_state=0).fit(FERTILITY.values)
    named = {"labels": FERTILITY.countries, "feature_names": FERTILITY.years, "title": "Births per woman, 1960 to 2011"}
    x = np.where(np.random.default_rng(0).random(WINE.data.shape) < 0.05, np.nan, WINE.data)
    wines = PPCA(3, standardize=True, random_state=0).fit(x)
    factors = FactorAnalysis(3, rotation="oblimin").fit(x)
    clusters = MixturePPCA(random_state=0).fit(x)
    pictures = PPCA(10).fit(DIGITS.data)
    drawn = {"groups": {"digit": DIGITS.target}, "image_shape": (8, 8), "title": "Digits"}
    cultivar = WINE.target_names[WINE.target]
    columns = {"feature_names": WINE.feature_names, "groups": {"cultivar": cultivar}, "title": "Wines"}
    return [
        (report(years, FERTILITY.values, folder / "report-years.html", **named), "Serbia"),
        (report(wines, x, folder / "report-wine.html", **columns), "110"),
        (report(factors, x, folder / "report-factors.html", **columns), "110"),
        (report(clusters, x, folder / "report-clusters.html", **columns), "110"),
        (explorer(factors, x, folder / "explorer-factors.html", **columns), "12"),
        (explorer(years, FERTILITY.values, folder / "explorer-years.html", **named), "India"),
        (explorer(wines, x, folder / "explorer-wine.html", **columns), "12"),
        (explorer(pictures, DIGITS.data, folder / "explorer-digits.html", **drawn), "5"),
    ]


def main():
    folder = Path(tempfile.mkdtemp(prefix="probpca-"))
    pages = write(folder)
    found = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for (path, row), scheme in ((page, scheme) for page in pages for scheme in ("light", "dark")):
            page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme=scheme)
            page.goto(path.as_uri())
            page.wait_for_selector("body[data-ready=true]")
            page.fill("#row", row)
            page.press("#row", "Enter")
            page.wait_for_timeout(400)
            page.screenshot(path=folder / f"{path.stem}-{scheme}.png", full_page=True)
            page.close()
        browser.close()
    print(folder)  # noqa: T201


if __name__ == "__main__":
    main()
