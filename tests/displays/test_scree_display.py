"""The scree shows what the fit holds."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import spiked_rows
from probpca import (
    PPCA,
    BayesianPCA,
    DataError,
    FactorAnalysis,
    LinearDynamicalSystem,
    ScreeDisplay,
    ShapeError,
    select_n_components,
)
from probpca.displays.axes import THEME
from probpca.learning.selection.criteria import n_parameters
from probpca.learning.selection.parallel_analysis import null_eigenvalues
from probpca.learning.uncertainty.asymptotic import asymptotic_uncertainty


@pytest.fixture(scope="module")
def x():
    return spiked_rows(np.random.default_rng(2), 60, 7, 2, noise=0.1)


@pytest.fixture(scope="module")
def ppca(x):
    return PPCA(n_components=4).fit(x)


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_variances_and_noise_are_those_of_the_fit(ppca):
    display = ScreeDisplay.from_estimator(ppca)
    assert_array_equal(display.explained_variance, ppca.explained_variance_)
    assert_array_equal(display.explained_variance_ratio, ppca.explained_variance_ratio_)
    assert display.noise_variance == ppca.noise_variance_
    assert_allclose(display.line_.get_ydata(), ppca.explained_variance_)
    assert_allclose(display.line_.get_xdata(), [1, 2, 3, 4])
    assert_allclose(display.noise_.get_ydata(), ppca.noise_variance_)
    display.figure_.canvas.draw()


def test_shares_are_written_together(ppca):
    display = ScreeDisplay.from_estimator(ppca)
    together = 100 * ppca.explained_variance_ratio_.cumsum()
    assert {f"{together[0]:.1f}%", "% of variance (cumulative)"} <= {*words(display.ax_)}


def test_intervals_are_those_of_the_uncertainty(ppca):
    sure = asymptotic_uncertainty(ppca.model_, ppca.n_samples_)
    display = ScreeDisplay.from_estimator(ppca, uncertainty=sure, level=0.8)
    low, high = sure.explained_variance.interval(0.8)
    (bars,) = display.ax_.collections
    drawn = np.array(bars.get_segments())[:, :, 1]
    assert_allclose(drawn, np.column_stack([low, high]))


def test_uncertainty_of_another_fit_is_refused(ppca, x):
    other = PPCA(n_components=2).fit(x)
    with pytest.raises(ShapeError, match="must have 4 components, as the estimator has; got 2"):
        ScreeDisplay.from_estimator(ppca, uncertainty=asymptotic_uncertainty(other.model_, other.n_samples_))


def test_choices_of_criteria_are_marked_where_they_are(ppca, x):
    found = select_n_components(x, ["bic", "parallel"], random_state=0)
    display = ScreeDisplay.from_estimator(ppca, selection=found)
    assert display.choices == found.choices
    upright = {line.get_xdata()[0] for line in display.ax_.lines if line.get_xdata()[0] == line.get_xdata()[-1]}
    assert upright == set(found.choices.values())
    assert any("bic" in text for text in words(display.ax_))


@pytest.mark.parametrize("standardize", [False, True])
def test_what_a_component_has_above_its_noise_is_its_loadings(x, standardize):
    units = np.geomspace(1, 1e3, 7)  # in which columns are told
    ppca = PPCA(n_components=2, standardize=standardize).fit(x * units)
    display = ScreeDisplay.from_estimator(ppca)
    above = display.explained_variance - display.noise_variance
    assert_allclose(above, np.square(ppca.loadings_).sum(axis=0))


def test_standardised_columns_have_one_noise_and_shares_of_their_own_variance(x):
    units = np.geomspace(1, 1e3, 7)
    plain, told = (ScreeDisplay.from_estimator(PPCA(3, standardize=True).fit(x * unit)) for unit in (1.0, units))
    assert_allclose(told.noise_.get_ydata(), plain.noise_.get_ydata())
    assert_allclose(told.line_.get_ydata(), plain.line_.get_ydata())
    values = np.linalg.eigvalsh(np.corrcoef(x.T))[::-1] / 7
    assert f"{100 * values[0]:.1f}%" in words(told.ax_)


def test_where_features_have_noise_of_their_own_so_have_components(x):
    system = LinearDynamicalSystem(3, transition="stable", random_state=0, tol=1.0).fit(x * np.geomspace(1, 1e3, 7))
    display = ScreeDisplay.from_estimator(system.to_ppca())
    lines = np.array(display.noise_.get_segments())
    assert_allclose(lines[:, :, 1], np.column_stack([display.noise_variance] * 2))
    assert_allclose(lines[:, :, 0].mean(axis=1), [1, 2, 3])


def test_curves_rise_and_fall_as_scores_do_and_are_ringed_where_they_choose(ppca, x):
    found = select_n_components(x, random_state=0)
    display = ScreeDisplay.from_estimator(ppca, selection=found)
    below = display.axes_[1]
    assert [curve.get_label() for curve in display.curves_] == [c.name for c in found.criteria if c.score.size]
    for curve in display.curves_:
        criterion = found[curve.get_label()]
        counts, at = curve.get_data()
        scores = criterion.score[: counts.size]
        assert_array_equal(counts, criterion.n_components[: counts.size])
        assert_array_equal(np.argsort(at), np.argsort(scores))
        assert ((at >= 0) & (at <= 1)).all()
        if not criterion.in_nats:
            assert_array_equal(at > THEME.threshold, scores > 1)
        ring = below.lines[below.lines.index(curve) + 1]
        assert_array_equal(ring.get_data(), [[criterion.choice], at[counts == criterion.choice]])
    display.figure_.canvas.draw()


@pytest.mark.parametrize("standardize", [False, True])
def test_an_exact_fit_has_its_bic_as_if_that_had_been_asked(x, standardize):
    own = ScreeDisplay.from_estimator(PPCA(n_components=5, standardize=standardize).fit(x)).selection["bic"]
    fits = [PPCA(n_components=q, standardize=standardize).fit(x) for q in range(1, 6)]
    asked = [fit.log_likelihood_ - n_parameters(7, fit.n_components_) * np.log(60) / 2 for fit in fits]
    assert_allclose(own.score, asked)
    assert own.choice == (None if np.argmax(asked) == 4 else np.argmax(asked) + 1)


def test_a_choice_at_the_end_is_claimed_only_by_who_looked_further():
    rows = spiked_rows(np.random.default_rng(2), 60, 9, 4)
    by_bic, given, few = PPCA("bic").fit(rows), PPCA(n_components=4).fit(rows), PPCA(n_components=3).fit(rows)
    assert ScreeDisplay.from_estimator(by_bic).choices == {"bic": 4}
    assert ScreeDisplay.from_estimator(given).choices == ScreeDisplay.from_estimator(few).choices == {}


def test_other_fits_have_no_curve(x):
    holed = np.where(np.random.default_rng(0).random(x.shape) < 0.1, np.nan, x)
    for fit in (
        PPCA(n_components=4, random_state=0).fit(holed),
        PPCA(n_components=4, bias_correction=True).fit(x),
        BayesianPCA(n_components=4, random_state=0).fit(x),
    ):
        assert ScreeDisplay.from_estimator(fit).curves_ == []


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("scale", ["log", "linear"])
def test_components_are_counted_in_whole_numbers(x, count, scale):
    display = ScreeDisplay.from_estimator(PPCA(n_components=count).fit(x), scale=scale)
    for ax in display.axes_:
        low, high = ax.get_xlim()
        assert [tick for tick in ax.get_xticks() if low <= tick <= high] == list(range(1, count + 1))


def test_one_component_is_enough(x):
    display = ScreeDisplay.from_estimator(PPCA(n_components=1).fit(x), scale="linear")
    assert display.ax_.get_yscale() == "linear"
    display.figure_.canvas.draw()


def test_many_components_are_drawn_without_percentages():
    x = np.random.default_rng(0).standard_normal((60, 30))
    display = ScreeDisplay.from_estimator(PPCA(n_components=20).fit(x))
    assert not any("%" in text for text in words(display.ax_))


def test_the_given_axes_are_used(ppca):
    figure, axes = plt.subplots(1, 2)
    display = ScreeDisplay.from_estimator(ppca, ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].has_data()
    assert not display.curves_  # there is no room for them


def test_curves_find_a_place_in_given_axes(ppca, x):
    found = select_n_components(x, "bic")
    figure, axes = plt.subplots(2, 2)
    display = ScreeDisplay.from_estimator(ppca, selection=found, ax=axes[:, 0])
    assert list(display.axes_) == list(axes[:, 0])
    assert_array_equal(*(ax.get_xlim() for ax in display.axes_))
    cut = ScreeDisplay.from_estimator(ppca, selection=found, ax=axes[1, 1])
    box = axes[1, 1].get_position()
    assert all(box.x0 - 1e-9 <= ax.get_position().x0 and ax.get_position().y1 <= box.y1 + 1e-9 for ax in cut.axes_)
    figure.canvas.draw()


def test_settings_of_matplotlib_are_left_alone(ppca):
    before = dict(mpl.rcParams)
    ScreeDisplay.from_estimator(ppca)
    assert dict(mpl.rcParams) == before


def test_a_fit_is_needed():
    with pytest.raises(
        DataError, match=r"ScreeDisplay needs a fitted estimator; got PPCA\(\), which is not fitted.\nHint"
    ):
        ScreeDisplay.from_estimator(PPCA())


def test_without_matplotlib_it_is_said_what_to_install(ppca, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'probpca\[plot\]'"):
        ScreeDisplay.from_estimator(ppca)


@pytest.mark.parametrize("standardize", [False, True])
def test_percent_are_shares_of_the_eigenvalues_and_the_number_is_marked(x, standardize):
    ppca = PPCA(n_components=2, standardize=standardize).fit(x)
    display = ScreeDisplay.from_estimator(ppca, x, units="percent")
    values = np.linalg.eigvalsh(np.corrcoef(x.T) if standardize else np.cov(x.T))[::-1]
    assert_allclose([bar.get_height() for bar in display.bars_], 100 * values / values.sum())
    colours = [mpl.colors.to_hex(bar.get_facecolor()) for bar in display.bars_]
    assert colours == [THEME.ink] * 2 + [THEME.rule] * 5
    assert any(text.startswith("2 components (as given)") for text in words(display.ax_))
    assert len(display.axes_) == 1
    assert len(ScreeDisplay.from_estimator(ppca, units="percent").bars_) == 2


def test_percent_need_complete_rows_of_the_fit(ppca, x):
    holed = np.where(np.random.default_rng(0).random(x.shape) < 0.1, np.nan, x)
    with pytest.raises(DataError, match=r"X must not have missing cells: .*\nHint: leave X out"):
        ScreeDisplay.from_estimator(ppca, holed, units="percent")
    with pytest.raises(ShapeError, match="rows must have 7 columns"):
        ScreeDisplay.from_estimator(ppca, x[:, :3], units="percent")
    with pytest.raises(DataError, match="units must be one of variance, percent; got 'share'"):
        ScreeDisplay.from_estimator(ppca, units="share")


# Eigenvalues of correlations


def eigenvalues(x):
    return np.linalg.eigvalsh(np.corrcoef(np.asarray(x).T))[::-1]


def test_factors_have_the_eigenvalues_of_correlations_and_those_of_chance(oblique, abilities):
    display = ScreeDisplay.from_estimator(oblique)
    assert_allclose(display.explained_variance, eigenvalues(abilities))
    assert_allclose(display.by_chance, null_eigenvalues(160, 9, 9))
    assert_allclose(display.line_.get_ydata(), display.explained_variance)
    assert_allclose(display.noise_.get_ydata(), display.by_chance)
    filled = [mpl.colors.to_hex(colour) == THEME.ink for colour in display.points_.get_facecolors()]
    assert filled == [True] * 3 + [False] * 6
    assert display.ax_.get_yscale() == "linear"
    assert "3 factors (as given)" in words(display.ax_)
    display.figure_.canvas.draw()


def test_rotations_and_units_change_no_eigenvalue(oblique, abilities):
    wanted = ScreeDisplay.from_estimator(oblique).explained_variance
    scaled = FactorAnalysis(2).fit(abilities * np.geomspace(1e-3, 1e3, 9))
    for fitted in (oblique.rotate("varimax"), oblique.rotate(None), scaled):
        assert_allclose(ScreeDisplay.from_estimator(fitted).explained_variance, wanted)


def test_eigenvalues_above_chance_are_those_that_parallel_analysis_counts(abilities, incomplete):
    for rows in (abilities, incomplete):
        found = select_n_components(rows, "parallel")["parallel"]
        display = ScreeDisplay.from_data(rows)
        m = found.score.size
        assert_allclose(display.explained_variance[:m] / display.by_chance[:m], found.score, rtol=1e-6)
        assert display.n_components == found.choice
        assert f"{found.choice} above chance" in words(display.ax_)


def test_rows_with_missing_cells_are_needed(bartlett, incomplete, abilities):
    with pytest.raises(DataError, match=r"need the training rows after this fit.\nHint: pass them as X"):
        ScreeDisplay.from_estimator(bartlett)
    with pytest.raises(ShapeError, match="rows must have 9 columns, as in the fit; got 4"):
        ScreeDisplay.from_estimator(bartlett, incomplete.iloc[:, :4])
    display, wanted = ScreeDisplay.from_estimator(bartlett, incomplete), ScreeDisplay.from_data(incomplete)
    assert_array_equal(display.explained_variance, wanted.explained_variance)
    assert_allclose(display.explained_variance[0], eigenvalues(abilities)[0], rtol=0.2)


def test_weights_of_rows_count_them_several_times(abilities):
    weight = np.where(np.arange(160) < 40, 3.0, 1.0)
    repeated = ScreeDisplay.from_data(abilities.loc[abilities.index.repeat(weight.astype(int))])
    for display in (
        ScreeDisplay.from_data(abilities, sample_weight=weight),
        ScreeDisplay.from_estimator(FactorAnalysis(2).fit(abilities, sample_weight=weight)),
        ScreeDisplay.from_estimator(FactorAnalysis(2).fit(abilities), abilities, sample_weight=weight),
    ):
        assert_allclose(display.explained_variance, repeated.explained_variance)
        assert_allclose(display.by_chance, repeated.by_chance)


def test_eigenvalues_in_percent_add_up_to_everything(oblique):
    display = ScreeDisplay.from_estimator(oblique, units="percent", scale="log")
    assert_allclose(display.line_.get_ydata().sum(), 100)
    assert_allclose(display.noise_.get_ydata() * 9 / 100, display.by_chance)
    assert display.ax_.get_yscale() == "linear"


def test_constant_columns_and_noise_have_a_scree_plot(abilities):
    display = ScreeDisplay.from_data(abilities.assign(same=1.0))
    assert_allclose(display.explained_variance, eigenvalues(abilities))
    noise = ScreeDisplay.from_data(np.random.default_rng(0).standard_normal((100, 8)), most=5, scale="log")
    assert (noise.n_components, noise.explained_variance.size, noise.ax_.get_yscale()) == (0, 5, "log")
    noise.figure_.canvas.draw()


def test_criteria_stand_below_eigenvalues_too(oblique, abilities):
    found = select_n_components(abilities, ["parallel", "bic"])
    display = ScreeDisplay.from_estimator(oblique, selection=found)
    assert [curve.get_label() for curve in display.curves_] == ["parallel", "bic"]
    with pytest.raises(DataError, match="no intervals of eigenvalues"):
        ScreeDisplay.from_estimator(oblique, uncertainty=oblique.uncertainty())
    with pytest.raises(DataError, match="missing must be one of nan, unstored; got 'zero'"):
        ScreeDisplay.from_data(abilities, missing="zero")
