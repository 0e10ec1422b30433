"""The story of a fit is its trace."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, ConvergenceDisplay, DataError, LinearDynamicalSystem


@pytest.fixture(scope="module")
def holed():
    x = spiked_rows(np.random.default_rng(7), 60, 6, 2, noise=0.2)
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    return x


@pytest.mark.parametrize(
    "estimator",
    [
        PPCA(n_components=2, solver="em", random_state=0),
        PPCA(n_components=2, random_state=0),
        BayesianPCA(n_components=2, random_state=0),
        LinearDynamicalSystem(n_components=1, tol=0.5, random_state=0),
    ],
    ids=["em", "accelerated", "bayesian", "dynamics"],
)
def test_the_curve_is_the_trace_and_the_gap_what_it_lacks(estimator, holed):
    fitted = estimator.fit(holed)
    display = ConvergenceDisplay.from_estimator(fitted)
    assert_array_equal(display.trace, fitted.trace_)
    assert_array_equal(display.line_.get_ydata(), fitted.trace_)
    assert_array_equal(display.line_.get_xdata(), np.arange(1, fitted.trace_.size + 1))
    assert_allclose(display.gap, fitted.trace_.max() - fitted.trace_)
    drawn = display.gap_line_.get_ydata()
    assert_allclose(drawn[display.gap > 0], display.gap[display.gap > 0])
    assert np.isnan(drawn[display.gap == 0]).all()
    assert display.axes_[1].get_yscale() == "log"
    bounded = isinstance(fitted, BayesianPCA)
    assert display.ax_.get_ylabel() == ("lower bound (nats)" if bounded else "log-likelihood (nats)")
    assert display.figure_.get_suptitle().replace("\n", " ") == fitted.status_.value
    display.figure_.canvas.draw()


def test_a_better_fit_may_be_the_reference(holed):
    poor = PPCA(n_components=2, solver="em", tol=1.0, random_state=0).fit(holed)
    good = PPCA(n_components=2, tol=1e-6, random_state=0).fit(holed)
    display = ConvergenceDisplay.from_estimator(poor, reference=good.log_likelihood_)
    assert_allclose(display.gap, good.log_likelihood_ - poor.trace_)
    assert display.gap[-1] > 0
    assert "reference" in display.axes_[1].get_ylabel()


def test_tol_is_marked(holed):
    display = ConvergenceDisplay.from_estimator(PPCA(n_components=2, tol=0.02, random_state=0).fit(holed))
    assert_allclose(display.axes_[1].lines[1].get_ydata(), 0.02)


def test_long_stories_are_stretched_at_their_beginning():
    trace = -np.exp(-np.arange(200) / 20.0)
    assert ConvergenceDisplay(trace).plot().ax_.get_xscale() == "log"
    assert ConvergenceDisplay(trace[:20]).plot().ax_.get_xscale() == "linear"


def test_given_axes_are_used_or_one_is_cut():
    trace = [1.0, 2.0, 2.5]
    figure, axes = plt.subplots(1, 3)
    assert list(ConvergenceDisplay(trace).plot(axes[:2]).axes_) == list(axes[:2])
    cut = ConvergenceDisplay(trace).plot(axes[2])
    assert len(cut.axes_) == 2
    assert all(ax.figure is figure for ax in cut.axes_)
    assert figure.get_suptitle() == ""
    assert not axes[2].axison
    whole, parts = axes[2].get_position(), [ax.get_position() for ax in cut.axes_]
    assert cut.ax_ is cut.axes_[0] is not axes[2]
    assert_allclose([parts[0].x0, parts[1].x1], [whole.x0, whole.x1])
    assert parts[0].x1 < parts[1].x0


def test_what_took_no_steps_cannot_be_shown(holed):
    complete = np.nan_to_num(holed)
    with pytest.raises(DataError, match=r"needs a fit that iterates; got a trace of 1 values.\nHint: the closed form"):
        ConvergenceDisplay.from_estimator(PPCA(n_components=2).fit(complete))
    with pytest.raises(DataError, match="ConvergenceDisplay needs a fitted estimator"):
        ConvergenceDisplay.from_estimator(PPCA())
