"""Figures are drawn without a screen, and none is left behind."""

import matplotlib as mpl
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _no_figure_is_left():
    yield
    plt.close("all")
