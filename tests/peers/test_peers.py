"""Other implementations, where they are exact, end where we do; where they are not, below."""

import shutil
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import spiked_rows
from probpca import PPCA
from probpca.inference import impute, log_likelihood
from probpca.models import LinearGaussian

PCAMETHODS = """
suppressMessages(library(pcaMethods))
data(metaboliteData); data(metaboliteDataComplete)
fit <- pca(metaboliteData, method = "ppca", nPcs = {q}, seed = 0, maxIterations = 2000)
write.csv(metaboliteData, "holed.csv", row.names = FALSE)
write.csv(metaboliteDataComplete, "complete.csv", row.names = FALSE)
write.csv(completeObs(fit), "imputed.csv", row.names = FALSE)
write.csv(loadings(fit), "loadings.csv", row.names = FALSE)
write.csv(fit@center, "centre.csv", row.names = FALSE)
"""


@pytest.fixture
def holed(rng):
    x = spiked_rows(rng, 120, 8, 2, noise=0.5)
    x[rng.random(x.shape) < 0.25] = np.nan
    return x[~np.isnan(x).all(axis=1)]


def test_the_em_of_ppca_rs_stays_at_our_optimum_and_comes_near_it_from_elsewhere(holed):
    ppca_rs = pytest.importorskip("ppca_rs")
    ours = PPCA(2, tol=1e-8, random_state=0).fit(holed)
    data = ppca_rs.Dataset(holed)

    def trained(start, steps):
        found = ppca_rs.PPCATrainer(data).train(start=start, state_size=2, n_iters=steps, quiet=True)
        return LinearGaussian(found.mean, found.transform, found.isotropic_noise**2)

    noise, mean = np.sqrt(ours.noise_variance_), ours.mean_[:, None]
    stayed = trained(ppca_rs.PPCAModel(noise, ours.loadings_, mean), 20)
    assert_allclose(stayed.loadings @ stayed.loadings.T, ours.loadings_ @ ours.loadings_.T, rtol=1e-3, atol=1e-3)
    assert_allclose(log_likelihood(stayed, holed).sum(), ours.log_likelihood_, atol=1e-4)
    start = ppca_rs.PPCAModel(1.0, np.random.default_rng(0).standard_normal((8, 2)), np.zeros((8, 1)))
    arrived = log_likelihood(trained(start, 2000), holed).sum()
    assert ours.log_likelihood_ - 0.05 < arrived < ours.log_likelihood_ + 1e-6


def has_pcamethods():
    """Is R here, with that package?"""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return False
    asked = [rscript, "-e", "q(status = !requireNamespace('pcaMethods', quietly = TRUE))"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0  # noqa: S603


@pytest.mark.skipif(not has_pcamethods(), reason="R with pcaMethods is not installed")
def test_pcamethods_has_a_lower_likelihood_and_a_larger_error_on_its_own_table(tmp_path):
    q = 10  # with 2 to 5 components errors are equal to two parts in a thousand, theirs the lower
    words = [shutil.which("Rscript"), "-e", PCAMETHODS.format(q=q)]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)  # noqa: S603
    names = ("holed", "complete", "imputed", "loadings", "centre")
    holed, complete, imputed, axes, centre = (
        np.genfromtxt(tmp_path / f"{name}.csv", delimiter=",", skip_header=1, missing_values="NA") for name in names
    )
    missing = np.isnan(holed)
    ours = PPCA(q, random_state=0).fit(holed)
    theirs = best_model(holed, centre, axes)
    assert log_likelihood(theirs, holed).sum() < ours.log_likelihood_ - 1
    error = {
        name: np.sqrt(np.square(table - complete)[missing].mean())
        for name, table in {"ours": impute(ours.model_, holed), "theirs": imputed}.items()
    }
    assert error["ours"] < error["theirs"]


def best_model(x, mean, axes):
    """The most likely model with this mean and these axes: EM over latent covariance and noise alone."""
    axes = np.linalg.qr(axes)[0]
    covariance, noise = np.eye(axes.shape[1]), 1.0
    for _ in range(200):
        model = LinearGaussian(mean, axes @ np.linalg.cholesky(covariance), noise)
        second, squares, cells = 0.0, 0.0, 0
        for row in x:
            seen = ~np.isnan(row)
            U, rest = axes[seen], (row - mean)[seen]
            P = np.linalg.inv(np.linalg.inv(covariance) + U.T @ U / noise)
            m = P @ U.T @ rest / noise
            second = second + P + np.outer(m, m)
            squares += np.square(rest - U @ m).sum() + np.trace(U @ P @ U.T)
            cells += seen.sum()
        covariance, noise = second / len(x), squares / cells
    return model
