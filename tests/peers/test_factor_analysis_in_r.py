"""Fit indices and standard errors are those of lavaan, adequacy that of psych, chi-square that of factanal."""

import csv
import shutil
import subprocess
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from factor_oracles import dense_fit, dense_value_and_gradient
from oracles import punched
from probpca.learning.factor.factorability import factorability
from probpca.learning.factor.fit_indices import fit_indices
from probpca.learning.factor.standard_errors import standard_errors

LAVAAN = """
suppressMessages(library(lavaan))
options(digits = 15)
keep <- function(values, name) {
  write.table(cbind(names(values), format(values, digits = 15)), name, col.names = FALSE, row.names = FALSE, sep = ",")
}
answer <- function(name, missing, information) {
  x <- read.csv(paste0(name, ".csv"), header = FALSE, na.strings = "nan")
  fit <- lavaan(
    "f1 =~ NA*V1 + V2 + V3 + V4 + V5 + V6 + V7 + V8
     f2 =~ NA*V2 + V3 + V4 + V5 + V6 + V7 + V8
     f1 ~~ 1*f1; f2 ~~ 1*f2; f1 ~~ 0*f2",
    data = x, meanstructure = TRUE, int.ov.free = TRUE, auto.var = TRUE,
    missing = missing, information = information, em.h1.tol = 1e-12)
  keep(fitMeasures(fit), paste0(name, "-indices.csv"))
  standard <- standardizedSolution(fit)
  standard <- standard[standard$op == "=~" | (standard$op == "~~" & grepl("V", standard$lhs)), ]
  names <- paste(standard$lhs, standard$rhs)
  keep(setNames(standard$est.std, names), paste0(name, "-estimates.csv"))
  keep(setNames(standard$se, names), paste0(name, "-errors.csv"))
}
answer("complete", "listwise", "expected")
answer("holed", "fiml", "observed")
"""
PSYCH = """
suppressMessages(library(psych))
options(digits = 15)
x <- read.csv("complete.csv", header = FALSE)
measure <- KMO(cor(x))
test <- cortest.bartlett(cor(x), n = nrow(x))
chi2 <- factanal(x, 2, rotation = "none", control = list(lower = 1e-6, opt = list(factr = 10)))$STATISTIC
values <- c(measure$MSA, measure$MSAi, test$chisq, test$df, chi2)
write.table(format(values, digits = 15), "psych.csv", col.names = FALSE, row.names = FALSE, quote = FALSE)
"""


def run_in_r(package, script, folder):
    """Run a script in a folder; skip the test where R or the package is not installed."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("R is not installed")
    asked = [rscript, "-e", f"q(status = !requireNamespace('{package}', quietly = TRUE))"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:  # noqa: S603
        pytest.skip(f"R has no {package}")
    (folder / "script.R").write_text(script)
    subprocess.run([rscript, "script.R"], cwd=folder, capture_output=True, check=True)  # noqa: S603


@pytest.fixture(scope="module")
def tables():
    """Rows of two factors, complete and with a fifth of the cells missing."""
    rng = np.random.default_rng(5)
    W = np.array([[0.8, 0.7, 0.6, 0.5, 0.2, 0.1, 0.0, 0.3], [0.0, 0.1, 0.3, 0.0, 0.8, 0.7, 0.6, 0.5]]).T
    x = rng.standard_normal((200, 2)) @ W.T + 0.7 * rng.standard_normal((200, 8))
    x[:, 2] += 0.4 * x[:, 3] + 0.2 * rng.standard_t(4, 200)  # two factors do not fit exactly
    return {"complete": x, "holed": punched(rng, x, 0.2)}


@pytest.fixture(scope="module")
def models(tables):
    return {name: dense_fit(x, 2) for name, x in tables.items()}


@pytest.fixture(scope="module")
def lavaan(tables, tmp_path_factory):
    """What lavaan says, by table and kind of answer."""
    folder = tmp_path_factory.mktemp("lavaan")
    for name, x in tables.items():
        np.savetxt(folder / f"{name}.csv", x, delimiter=",", fmt="%.17g")
    run_in_r("lavaan", LAVAAN, folder)

    def answers(path):
        with path.open() as lines:
            return {name: float(value) for name, value in csv.reader(lines)}

    kinds = "indices", "estimates", "errors"
    return {name: {kind: answers(folder / f"{name}-{kind}.csv") for kind in kinds} for name in tables}


NAMES = {
    "chi_square": "chisq",
    "df": "df",
    "p_value": "pvalue",
    "rmsea": "rmsea",
    "rmsea_low": "rmsea.ci.lower",
    "rmsea_high": "rmsea.ci.upper",
    "cfi": "cfi",
    "tli": "tli",
    "srmr": "srmr",
    "aic": "aic",
    "bic": "bic",
    "log_likelihood": "logl",
    "unrestricted_log_likelihood": "unrestricted.logl",
    "baseline_chi_square": "baseline.chisq",
    "baseline_df": "baseline.df",
    "n_parameters": "npar",
}


@pytest.mark.parametrize("name", ["complete", "holed"])
def test_fit_indices_are_those_of_lavaan(tables, models, lavaan, name):
    found, theirs = fit_indices(models[name], tables[name]).to_dict(), lavaan[name]["indices"]
    ours = [found[index] for index in NAMES]
    assert_allclose(ours, [theirs[index] for index in NAMES.values()], rtol=1e-5)
    assert found["rmsea_low"] > 0


class Echelon(NamedTuple):
    loadings: np.ndarray
    correlations: np.ndarray


def echelon(loadings):
    """Rotate factors so that the first feature does not load on the second, with positive loadings."""
    turn = np.linalg.qr(loadings[:2].T)[0]
    turned = loadings @ turn
    return Echelon(turned * np.sign(np.diag(turned)), np.eye(2))


@pytest.mark.parametrize("name", ["complete", "holed"])
def test_standard_errors_are_those_of_lavaan(tables, models, lavaan, name):
    x, theirs = tables[name], lavaan[name]
    gradient = None if name == "complete" else lambda model: dense_value_and_gradient(model, x)[1]
    found = standard_errors(models[name], len(x), echelon, gradient)
    places = [("loadings", j, k) for k in range(2) for j in range(k, 8)]
    signs = [np.sign(theirs["estimates"]["f1 V1"]), np.sign(theirs["estimates"]["f2 V2"])]
    for _, j, k in places:
        label = f"f{k + 1} V{j + 1}"
        assert_allclose(found.loadings.value[j, k] * signs[k], theirs["estimates"][label], atol=1e-5)
        assert_allclose(found.loadings.standard_error[j, k], theirs["errors"][label], rtol=1e-4)
    labels = [f"V{j + 1} V{j + 1}" for j in range(8)]
    assert_allclose(found.uniquenesses.standard_error, [theirs["errors"][label] for label in labels], rtol=1e-4)


def test_adequacy_is_that_of_psych_and_bartlett_s_chi_square_that_of_factanal(tables, models, tmp_path):
    x = tables["complete"]
    np.savetxt(tmp_path / "complete.csv", x, delimiter=",", fmt="%.17g")
    run_in_r("psych", PSYCH, tmp_path)
    found, model = factorability(x), models["complete"]
    corrected = fit_indices(model, x, correction="bartlett").chi_square
    ours = [found.kmo, *found.feature_kmo, found.chi_square, found.df, corrected]
    assert_allclose(ours, np.loadtxt(tmp_path / "psych.csv"), rtol=1e-6)
