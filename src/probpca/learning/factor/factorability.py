"""Whether correlations suit a factor analysis: the Kaiser-Meyer-Olkin measure and Bartlett's test of sphericity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.linalg.lapack import dpotri

from probpca.errors import DataError
from probpca.inference.calibration import chi2_tail, log10_chi2_tail, probability
from probpca.learning.factor.unrestricted_gaussian import UnrestrictedSettings, regular_root, unrestricted_gaussian
from probpca.result_tables import (
    FIRST_ROWS,
    Column,
    ResultTable,
    Section,
    frame_of,
    rest,
    several,
    shown_as_table,
    words,
)

if TYPE_CHECKING:
    from probpca.learning.factor.unrestricted_gaussian import UnrestrictedGaussian
    from probpca.typing import Array

GRADES = ((0.9, "marvelous"), (0.8, "meritorious"), (0.7, "middling"), (0.6, "mediocre"), (0.5, "miserable"))
"""Smallest values of the measure with the words of Kaiser (1974) for them."""


def grade(kmo: float) -> str:
    """Word of Kaiser (1974) for a value of the measure.

    Examples
    --------
    >>> from probpca.learning.factor.factorability import grade
    >>> grade(0.84), grade(0.3)
    ('meritorious', 'unacceptable')
    """
    return next((word for least, word in GRADES if kmo >= least), "unacceptable")


@shown_as_table
@final
@dataclass(frozen=True, slots=True, eq=False)
class Factorability:
    r"""Whether the correlations of some features suit a factor analysis.

    .. math::
        \mathrm{KMO} = \frac{\sum r_{jk}^2}{\sum r_{jk}^2 + \sum a_{jk}^2}, \qquad
        \chi^2 = -\big(n - 1 - (2 d + 5) / 6\big) \log |R|

    with :math:`r_{jk}` the correlations of features and :math:`a_{jk}` their partial correlations given all other
    features; sums are over all pairs, or those of one feature. If features share factors, partial correlations are
    small and the measure is near 1 (Kaiser 1974). Bartlett's test (1950) asks whether all correlations are zero.
    ``print`` and a notebook show the features with the smallest values.

    Attributes
    ----------
    kmo : float
        Kaiser-Meyer-Olkin measure of sampling adequacy of all features.
    feature_kmo : ndarray of shape (d,)
        Measure of each feature; NaN if it is not correlated with any other.
    chi_square : float
        Statistic of Bartlett's test of sphericity; with missing cells twice the log-likelihood ratio, without
        Bartlett's factor.
    df : int
        Degrees of freedom, d (d - 1) / 2.
    p_value : float
        Probability of a larger chi-square if the features are independent.
    weight : float
        Total weight of the rows with observed cells.
    missing : float
        Share of missing cells.
    feature_names : tuple of str
        Names of the features; those that do not vary are left out.
    note : str
        Warning about the measure or the test; empty if there is none.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca.learning.factor.factorability import factorability
    >>> factorability(load_iris(as_frame=True).data)
    Factorability: 150 rows x 4 features
    Kaiser-Meyer-Olkin measure: 0.540 (miserable)
    Bartlett's test of sphericity: chi-square 706.96, 6 degrees of freedom, p = 1.9e-149
    <BLANKLINE>
    Features with the smallest measures
    feature              KMO
    sepal width (cm)   0.270  unacceptable
    petal length (cm)  0.531  miserable
    sepal length (cm)  0.584  miserable
    petal width (cm)   0.634  mediocre
    """

    kmo: float
    feature_kmo: Array
    chi_square: float
    df: int
    p_value: float
    weight: float
    missing: float
    feature_names: tuple[str, ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Features and their measures as columns."""
        return {"feature": np.array(self.feature_names, dtype=object), "kmo": self.feature_kmo}

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return ``to_dict`` as a dataframe of pandas, or of the library ``backend``."""
        return frame_of(self.to_dict(), backend)

    def table(self, most: int = FIRST_ROWS) -> ResultTable:
        """The overall measure, Bartlett's test, and the ``most`` features with the smallest measures."""
        d = len(self.feature_names)
        shown = np.argsort(self.feature_kmo, kind="stable")[: min(most, int(np.isfinite(self.feature_kmo).sum()))]
        p = probability(float(log10_chi2_tail(np.array(self.chi_square), self.df)))
        heading = f"Factorability: {self.weight:,.12g} rows x {several(d, 'feature')}"
        freedom = f"{several(self.df, 'degree')} of freedom"
        remarks = (
            f"Kaiser-Meyer-Olkin measure: {self.kmo:.3f} ({grade(self.kmo)})",
            f"Bartlett's test of sphericity: chi-square {self.chi_square:,.2f}, {freedom}, p = {p}",
        )
        values = self.feature_kmo[shown]
        columns = (
            words("feature", [self.feature_names[j] for j in shown]),
            Column("KMO", [f"{value:.3f}" for value in values]),
            words("", [grade(value) for value in values]),
        )
        note = (f"Note: {self.note}",) if self.note else ()
        hidden = rest(d - shown.size, "more feature")
        return ResultTable(
            (Section(heading, (), remarks), Section("Features with the smallest measures", columns, (*hidden, *note)))
        )


def factorability(rows: Any, settings: UnrestrictedSettings = UnrestrictedSettings()) -> Factorability:
    """Kaiser-Meyer-Olkin measure and Bartlett's test of sphericity of rows, or of the ``Moments`` of complete rows.

    NaN is a missing cell. Correlations are then those of the Gaussian that maximises the likelihood of the observed
    cells, and the test compares its log-likelihood with that of independent features, which is valid for many rows.
    """
    free = unrestricted_gaussian(rows, settings)
    d, R = free.n_features, free.correlations
    if d < 2:
        msg = f"correlations need at least two features that vary; got {d}."
        raise DataError(msg)
    root = regular_root(R, settings.least_pivot)
    if root is None or not free.is_bounded:
        msg = (
            "the Kaiser-Meyer-Olkin measure needs correlations of full rank; columns are exact combinations of others, "
            f"or {free.weight:,.6g} rows are too few for {d} features.\nHint: drop such columns, or use fewer of them."
        )
        raise DataError(msg)
    overall, of_features = sampling_adequacy(R, root)
    chi_square, df = sphericity(free), d * (d - 1) // 2
    return Factorability(
        overall,
        of_features,
        chi_square,
        df,
        float(chi2_tail(chi_square, df)),
        free.weight,
        free.missing,
        tuple(free.names),
        _note(free),
    )


def sampling_adequacy(correlations: Array, root: Array) -> tuple[float, Array]:
    """Kaiser-Meyer-Olkin measure of all features and of each, given their correlations and the Cholesky factor."""
    inverse = dpotri(root, lower=1)[0]
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    std = np.sqrt(np.diag(inverse))
    shared, partial = np.square(correlations), np.square(inverse / np.outer(std, std))
    np.fill_diagonal(shared, 0.0)
    np.fill_diagonal(partial, 0.0)
    r, a = shared.sum(axis=1), partial.sum(axis=1)
    both = np.append(r.sum(), r), np.append(a.sum(), a)
    measures = np.divide(both[0], sum(both), out=np.full(both[0].size, np.nan), where=both[0] > 0)
    return float(measures[0]), measures[1:]


def sphericity(free: UnrestrictedGaussian) -> float:
    """Statistic of Bartlett's test; twice the log-likelihood ratio if cells are missing."""
    ratio = 2 * (free.log_likelihood - free.baseline_log_likelihood)  # -n log |R| for complete rows
    n, d = free.weight, free.n_features
    return ratio if free.missing else ratio * (n - 1 - (2 * d + 5) / 6) / n


def _note(free: UnrestrictedGaussian) -> str:
    """What is doubtful: notes on the correlations, and the approximation of the test if cells are missing."""
    if not free.missing:
        return free.note
    approximate = "Bartlett's test is approximate, because cells are missing: it compares the likelihoods."
    return " ".join(filter(None, (free.note, approximate)))
