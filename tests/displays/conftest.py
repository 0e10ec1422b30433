"""Figures are drawn without a screen; fits of factor analysis."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from factor_oracles import ABILITIES, correlated_abilities
from probpca import FactorAnalysis

mpl.use("Agg")


@pytest.fixture(scope="session")
def abilities():
    """Complete rows of three correlated factors, in a dataframe."""
    return pd.DataFrame(correlated_abilities(np.random.default_rng(7)), columns=list(ABILITIES))


@pytest.fixture(scope="session")
def oblique(abilities):
    """Correlated factors."""
    return FactorAnalysis(3, rotation="oblimin").fit(abilities)


@pytest.fixture(scope="session")
def incomplete(abilities):
    """The same rows with missing cells, two of them empty."""
    holes = abilities.mask(np.random.default_rng(8).random(abilities.shape) < 0.1)
    holes.iloc[[4, 9]] = np.nan
    return holes


@pytest.fixture(scope="session")
def bartlett(incomplete):
    """Correlated factors of rows with missing cells, with Bartlett's scores."""
    return FactorAnalysis(3, rotation="oblimin", scores="bartlett").fit(incomplete)


@pytest.fixture(scope="session")
def heywood(abilities):
    """Factors of a table in which one column nearly repeats another."""
    again = abilities["word"] + 0.3 * np.random.default_rng(9).standard_normal(len(abilities))
    with pytest.warns(UserWarning, match="Heywood"):
        return FactorAnalysis(3, rotation="oblimin").fit(abilities.assign(again=again))
