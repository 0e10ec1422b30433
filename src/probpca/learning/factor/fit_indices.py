"""Fit indices of factor models: chi-square, RMSEA, CFI, TLI, SRMR, AIC and BIC."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, final, get_args

import numpy as np
from scipy.optimize import brentq
from scipy.stats import ncx2

from probpca.blocks import Block
from probpca.blocks.block import dense_values
from probpca.errors import DataError, ShapeError
from probpca.inference.calibration import chi2_tail, log10_chi2_tail, probability
from probpca.inference.likelihood import LOG_2PI, log_likelihood as row_log_likelihood
from probpca.learning.describe import repeatable
from probpca.learning.factor.unrestricted_gaussian import UnrestrictedGaussian, listed, unrestricted_gaussian
from probpca.learning.selection.criteria import n_parameters
from probpca.result_tables import Column, ResultTable, Section, frame_of, several, shown_as_table, words
from probpca.sources import open_source
from probpca.statistics import Moments, Sum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from probpca.models import LinearGaussian
    from probpca.typing import Index

Correction: TypeAlias = Literal["bartlett"]
MANY_MISSING = 0.05
"""Share of missing cells above which a note explains what it means for the indices."""


@shown_as_table
@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FitIndices:
    r"""How well a factor model fits the covariances of the features.

    .. math::
        \chi^2 = 2 (\mathcal L_\text{unrestricted} - \mathcal L), \qquad
        \mathrm{RMSEA} = \sqrt{\max(\chi^2 - f, 0) / (f n)}, \\
        \mathrm{CFI} = 1 - \frac{\max(\chi^2 - f, 0)}{\max(\chi_0^2 - f_0, \chi^2 - f, 0)}, \qquad
        \mathrm{TLI} = 1 - \frac{\chi^2 / f - 1}{\chi_0^2 / f_0 - 1}

    Here f are the degrees of freedom, n the number of rows with observed cells, and :math:`\chi_0^2` and :math:`f_0`
    belong to the baseline model of independent features. The SRMR is the root mean square of the differences between
    correlations, and between means in standard deviations, of the unrestricted Gaussian and of the model; the d
    variances and d means count among them, as in lavaan. With missing cells all log-likelihoods are those of the
    observed cells (full-information maximum likelihood). ``print`` and a notebook show a table.

    Attributes
    ----------
    chi_square : float
        Likelihood-ratio statistic against the unrestricted Gaussian.
    df : int
        Degrees of freedom: parameters of the unrestricted Gaussian minus those of the model.
    p_value : float
        Probability of a larger chi-square if the model holds, for many rows.
    rmsea : float
        Root mean square error of approximation.
    rmsea_interval : tuple of float
        90% confidence interval of the RMSEA, by the noncentral chi-square distribution.
    cfi : float
        Comparative fit index.
    tli : float
        Tucker-Lewis index, which may exceed 1.
    srmr : float
        Standardised root mean square residual.
    aic : float
        Akaike information criterion; smaller is better.
    bic : float
        Bayesian information criterion; smaller is better.
    log_likelihood : float
        Total log-likelihood of the model.
    unrestricted_log_likelihood : float
        That of a Gaussian with any mean and covariance (the saturated model).
    baseline_log_likelihood : float
        That of a Gaussian with independent features.
    baseline_chi_square : float
        Likelihood-ratio statistic of independent features.
    baseline_df : int
        Degrees of freedom of independent features, d (d - 1) / 2.
    n_parameters : int
        Number of free parameters of the model.
    weight : float
        Total weight of the rows with observed cells, n.
    n_features : int
        Number of features d that vary.
    n_factors : int
        Number of factors q.
    missing : float
        Share of missing cells.
    correction : str or None
        "bartlett" if chi-squares have Bartlett's small-sample factor.
    note : str
        Warning about the indices; empty if there is none.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca.learning import fit_ppca
    >>> from probpca.learning.factor.fit_indices import fit_indices
    >>> X = load_iris().data
    >>> found = fit_indices(fit_ppca(X, 1).model, X)
    >>> round(found.chi_square, 2), found.df, round(found.srmr, 3)
    (181.51, 5, 0.096)
    >>> found
    Fit of 1 factor: 150 rows x 4 features
    index        value
    chi-square  181.51  5 degrees of freedom, p = 2.5e-37
    RMSEA        0.485  90% interval 0.426 to 0.547
    CFI          0.754
    TLI          0.704
    SRMR         0.096
    AIC          959.3
    BIC          986.4
    <BLANKLINE>
    model                 log-likelihood  parameters
    factors                      -470.67           9
    unrestricted                 -379.91          14
    independent features         -741.02           8
    """

    chi_square: float
    df: int
    p_value: float
    rmsea: float
    rmsea_interval: tuple[float, float]
    cfi: float
    tli: float
    srmr: float
    aic: float
    bic: float
    log_likelihood: float
    unrestricted_log_likelihood: float
    baseline_log_likelihood: float
    baseline_chi_square: float
    baseline_df: int
    n_parameters: int
    weight: float
    n_features: int
    n_factors: int
    missing: float = 0.0
    correction: Correction | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """All indices by name; the ends of the interval of the RMSEA are ``rmsea_low`` and ``rmsea_high``."""
        low, high = self.rmsea_interval
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "rmsea_interval"}
        return values | {"rmsea_low": low, "rmsea_high": high}

    def numbers(self) -> list[float]:
        """Values of all numeric fields, the interval of the RMSEA last."""
        values = self.to_dict()
        return [float(values[name]) for name in values if name not in ("correction", "note")]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], correction: Correction | None, note: str) -> FitIndices:
        """Indices from what ``numbers`` returns, and the other fields."""
        whole = ("df", "baseline_df", "n_parameters", "n_features", "n_factors")
        names = [f.name for f in fields(cls) if f.name not in ("rmsea_interval", "correction", "note")]
        *values, low, high = numbers
        given: dict[str, Any] = {
            name: int(value) if name in whole else value for name, value in zip(names, values, strict=True)
        }
        return cls(**given, rmsea_interval=(low, high), correction=correction, note=note)

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return a dataframe with one line, of pandas or of another library: "polars" or "pyarrow"."""
        return frame_of({name: [value] for name, value in self.to_dict().items()}, backend)

    def table(self) -> ResultTable:
        """The indices, and the log-likelihoods that they compare."""
        return _table_of(self)


def fit_indices(
    model: LinearGaussian,
    rows: Any,
    log_likelihood: float | None = None,
    *,
    correction: Correction | None = None,
    heywood: Any = (),
    columns: Sequence[str] | None = None,
) -> FitIndices:
    """Fit indices of a factor model that was fitted by maximum likelihood to some rows.

    Parameters
    ----------
    model : LinearGaussian
        The fitted model.
    rows : array, dataframe, file name, ..., Moments or UnrestrictedGaussian
        The rows of the fit, as accepted by ``open_source``, or their moments if they are complete. NaN is a missing
        cell. An ``UnrestrictedGaussian`` saves its fit if several models of the same rows are compared.
    log_likelihood : float or None
        Total log-likelihood of the rows; None computes it.
    correction : {"bartlett"} or None
        "bartlett" replaces n by n - 1 - (2 d + 5) / 6 - 2 q / 3 in the chi-squares, which improves their distribution
        with few rows. It needs complete rows.
    heywood : array-like of int
        Positions of the features whose noise variance is at its floor, for the note.
    columns : sequence of str or None
        Names of the features, for the note; None takes those of the rows if they have any.

    Returns
    -------
    FitIndices
        The indices, with a note on what is doubtful about them.
    """
    _require_correction(correction)
    if not isinstance(rows, Moments | UnrestrictedGaussian):
        rows = repeatable(open_source(rows))
    _require_features(model, rows)
    free = unrestricted_gaussian(rows, columns=columns)
    if correction is not None and free.missing:
        msg = (
            f"correction={correction!r} needs complete rows; {100 * free.missing:.2g}% of the cells are missing.\n"
            "Hint: use correction=None."
        )
        raise DataError(msg)
    whole, model = model, model.restrict(free.features)
    if log_likelihood is None or model.n_features < whole.n_features:  # features that are left out have a likelihood
        log_likelihood = _of_moments(model, free) if not free.missing else _of_rows(model, rows, free.features)
    return _compared(
        model, free, _plausible(log_likelihood, free), correction, np.flatnonzero(np.isin(free.features, heywood))
    )


def _compared(
    model: LinearGaussian,
    free: UnrestrictedGaussian,
    log_likelihood: float,
    correction: Correction | None,
    heywood: Index,
) -> FitIndices:
    """Compare the log-likelihoods and moments of a model with those of the unrestricted Gaussian."""
    (d, q), n = model.loadings.shape, free.weight
    p = n_parameters(d, q, model.noise_variance.size)
    of_model = _Misfit.of(free, log_likelihood, d * (d + 3) // 2 - p, _rows_counted(n, d, q, correction))
    baseline = _Misfit.of(free, free.baseline_log_likelihood, d * (d - 1) // 2, _rows_counted(n, d, 0, correction))
    return FitIndices(
        chi_square=of_model.chi_square,
        df=of_model.df,
        p_value=of_model.p_value,
        rmsea=of_model.rmsea,
        rmsea_interval=of_model.rmsea_interval(),
        cfi=_cfi(of_model, baseline),
        tli=_tli(of_model, baseline),
        srmr=_srmr(model, free),
        aic=2 * p - 2 * log_likelihood,
        bic=p * float(np.log(n)) - 2 * log_likelihood,
        log_likelihood=log_likelihood,
        unrestricted_log_likelihood=free.log_likelihood,
        baseline_log_likelihood=free.baseline_log_likelihood,
        baseline_chi_square=baseline.chi_square,
        baseline_df=baseline.df,
        n_parameters=p,
        weight=n,
        n_features=d,
        n_factors=q,
        missing=free.missing,
        correction=correction,
        note=" ".join(_notes(of_model, baseline, heywood, free)),
    )


class _Misfit(NamedTuple):
    """Likelihood-ratio statistic of a model against the unrestricted Gaussian; NaN if that has no likelihood."""

    chi_square: float
    df: int
    n: float  # number of rows, or what a correction puts in its place

    @classmethod
    def of(cls, free: UnrestrictedGaussian, log_likelihood: float, df: int, n: float) -> _Misfit:
        if not free.is_bounded:
            return cls(np.nan, df, n)
        gap = max(free.log_likelihood - log_likelihood, 0.0)
        return cls(2 * gap * n / free.weight, df, n)

    @property
    def is_testable(self) -> bool:
        return self.df > 0 and not np.isnan(self.chi_square)

    @property
    def p_value(self) -> float:
        return float(chi2_tail(self.chi_square, self.df)) if self.is_testable else np.nan

    @property
    def excess(self) -> float:
        return max(self.chi_square - self.df, 0.0)

    @property
    def rmsea(self) -> float:
        return float(np.sqrt(self.excess / (self.df * self.n))) if self.is_testable else np.nan

    def rmsea_interval(self) -> tuple[float, float]:
        """90% confidence interval of the RMSEA."""
        if not self.is_testable:
            return np.nan, np.nan
        low, high = (noncentrality(self.chi_square, self.df, p) for p in (0.95, 0.05))
        unit = self.df * self.n
        return float(np.sqrt(low / unit)), float(np.sqrt(high / unit))


def noncentrality(chi_square: float, df: float, p: float) -> float:
    """Noncentrality with which a noncentral chi-square is at most ``chi_square`` with probability p; 0 if none is."""

    def above(c: float) -> float:
        return float(ncx2.cdf(chi_square, df, c)) - p

    if 1.0 - float(chi2_tail(chi_square, df)) <= p:
        return 0.0
    most = chi_square + 20 * np.sqrt(chi_square + df) + 100  # many standard deviations too much
    return float(brentq(above, 1e-12, most, xtol=1e-12, rtol=1e-14))


def _cfi(of_model: _Misfit, baseline: _Misfit) -> float:
    if not of_model.is_testable:
        return np.nan
    most = max(baseline.excess, of_model.excess)
    return 1.0 - of_model.excess / most if most else 1.0


def _tli(of_model: _Misfit, baseline: _Misfit) -> float:
    if not of_model.is_testable:
        return np.nan
    ratio, alone = of_model.chi_square / of_model.df, baseline.chi_square / baseline.df
    return 1.0 - (ratio - 1) / (alone - 1) if alone != 1 else np.nan


def _srmr(model: LinearGaussian, free: UnrestrictedGaussian) -> float:
    """Root mean square of the residual correlations, variances and means of the features."""
    std, d = np.sqrt(np.diag(free.covariance)), model.n_features
    residuals = (free.covariance - model.covariance.dense()) / np.outer(std, std)
    means = (free.mean - model.mean) / std
    squares = np.square(residuals[np.tril_indices(d)]).sum() + np.square(means).sum()
    return float(np.sqrt(squares / (d * (d + 3) // 2)))


def _rows_counted(n: float, d: int, q: int, correction: Correction | None) -> float:
    """Number of rows, or Bartlett's number in its place."""
    if correction is None:
        return n
    counted = n - 1 - (2 * d + 5) / 6 - 2 * q / 3
    if counted <= 0:
        msg = (
            f"correction='bartlett' needs more than {n - counted:.4g} rows for {d} features and "
            f"{several(q, 'factor')}; got {n:.6g}."
        )
        raise DataError(msg)
    return counted


def _of_moments(model: LinearGaussian, free: UnrestrictedGaussian) -> float:
    """Log-likelihood of complete rows from their mean and covariance."""
    covariance, shift = model.covariance, free.mean - model.mean
    trace = float(np.trace(covariance.solve(free.covariance)))
    distance = float(covariance.squared_mahalanobis(shift[None])[0])
    return -0.5 * free.weight * (model.n_features * LOG_2PI + covariance.logdet() + trace + distance)


def _of_rows(model: LinearGaussian, rows: Any, features: Index) -> float:
    """Log-likelihood of the observed cells of some features."""
    if isinstance(rows, UnrestrictedGaussian):
        msg = "log_likelihood is needed with an UnrestrictedGaussian of rows with missing cells.\nHint: pass the rows."
        raise DataError(msg)
    return float(rows.fold(partial(_total_log_likelihood, model, features)).value)


def _total_log_likelihood(model: LinearGaussian, features: Index, block: Block) -> Sum:
    return Sum(block.weights @ row_log_likelihood(model, Block(dense_values(block)[:, features])))


def _require_correction(correction: str | None) -> None:
    if correction is not None and correction not in get_args(Correction):
        msg = f"correction must be 'bartlett' or None; got {correction!r}."
        raise DataError(msg)


def _require_features(model: LinearGaussian, rows: Any) -> None:
    if isinstance(rows, UnrestrictedGaussian):
        d = max(int(rows.features.max(initial=0)) + 1, model.n_features)
    else:
        d = rows.mean.size if isinstance(rows, Moments) else rows.n_features
    if d != model.n_features:
        msg = f"rows must have {model.n_features} features, as the model has; got {d}."
        raise ShapeError(msg)


def _plausible(log_likelihood: float, free: UnrestrictedGaussian) -> float:
    """Raise ``DataError`` if a log-likelihood is larger than any Gaussian has, by more than rounding."""
    value = float(log_likelihood)
    if not value <= free.log_likelihood + 0.01 + 1e-6 * abs(value):
        msg = (
            f"log_likelihood must be at most {free.log_likelihood:.6f}, that of the unrestricted Gaussian of the same "
            f"rows; got {value:.6f}.\nHint: pass the total log-likelihood of these rows, in the units of the data."
        )
        raise DataError(msg)
    return value


def _notes(of_model: _Misfit, baseline: _Misfit, heywood: Index, free: UnrestrictedGaussian) -> Iterator[str]:
    """Sentences on what is doubtful."""
    if of_model.df <= 0:
        yield (
            f"The model has {'no' if of_model.df == 0 else 'negative'} degrees of freedom: it fits any covariance, so "
            "that there is nothing to test. Use fewer factors."
        )
    if free.note:
        yield free.note
    if heywood.size:
        yield (
            f"No noise is left in {listed(free.names, heywood)} (Heywood case): the p-value and the "
            "indices that use chi-square are not to be trusted. Use fewer factors, or more rows."
        )
    if free.missing > MANY_MISSING:
        yield about_missing(free.missing)
    if of_model.is_testable and baseline.p_value > 0.05:
        yield "The features are hardly correlated, so that CFI and TLI mean little."


def about_missing(share: float) -> str:
    """Sentence on what the indices mean if this share of the cells is missing."""
    return (
        f"{100 * share:.2g}% of the cells are missing: chi-square, its p-value, AIC and BIC remain valid, but RMSEA, "
        "CFI and TLI estimate something else than with complete rows, and SRMR only describes."
    )


def _table_of(found: FitIndices) -> ResultTable:
    rows = f"{found.weight:,.12g} rows x {several(found.n_features, 'feature')}"
    missing = f", {100 * found.missing:.2g}% of the cells missing" if found.missing else ""
    low, high = found.rmsea_interval
    test = f"{several(found.df, 'degree')} of freedom"
    if not np.isnan(found.p_value):
        test += f", p = {probability(float(log10_chi2_tail(np.array(found.chi_square), found.df)))}"
    lines = [
        ("chi-square", f"{found.chi_square:,.2f}", test),
        ("RMSEA", f"{found.rmsea:.3f}", f"90% interval {low:.3f} to {high:.3f}"),
        ("CFI", f"{found.cfi:.3f}", ""),
        ("TLI", f"{found.tli:.3f}", ""),
        ("SRMR", f"{found.srmr:.3f}", ""),
        ("AIC", f"{found.aic:,.1f}", ""),
        ("BIC", f"{found.bic:,.1f}", ""),
    ]
    shown = [(name, "-", "") if value == "nan" else (name, value, remark) for name, value, remark in lines]
    names, values, remarks = zip(*shown, strict=True)
    columns = words("index", names), Column("value", values), words("", remarks, longest=None)
    corrected = ("Chi-squares have Bartlett's small-sample factor.",) if found.correction else ()
    note = (f"Note: {found.note}",) if found.note else ()
    first = Section(f"Fit of {several(found.n_factors, 'factor')}: {rows}{missing}", columns, (*corrected, *note))
    return ResultTable((first, _log_likelihoods(found)))


def _log_likelihoods(found: FitIndices) -> Section:
    """Log-likelihoods and numbers of parameters of the three models."""
    d = found.n_features
    values = np.array([found.log_likelihood, found.unrestricted_log_likelihood, found.baseline_log_likelihood])
    parameters = found.n_parameters, d * (d + 3) // 2, 2 * d
    columns = (
        words("model", ["factors", "unrestricted", "independent features"]),
        Column("log-likelihood", [f"{value:,.2f}" if np.isfinite(value) else "-" for value in values]),
        Column("parameters", [f"{count:,}" for count in parameters]),
    )
    return Section("", columns)
