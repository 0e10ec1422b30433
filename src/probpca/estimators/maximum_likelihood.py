"""Fits, streams of batches, and draws of the parameters of estimators that maximise the likelihood."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from probpca.blocks import Block
from probpca.blocks.block import unmasked
from probpca.cached_property import cached_property
from probpca.errors import DataError, ProbpcaError, SourceError
from probpca.estimators.base import (
    checked_matrix,
    fit_replaced,
    generator,
    is_matrix,
    open_rows,
    open_training,
    progress_bar,
)
from probpca.estimators.constraints import check_parameters
from probpca.estimators.queries import TableFit, distances_of_fit
from probpca.estimators.storage import (
    calibration_record,
    choice_record,
    read_calibration,
    read_choice,
    read_story,
    story_record,
)
from probpca.inference.imputation import ParameterCovariance
from probpca.learning.describe import repeatable, summarise
from probpca.learning.result import FitResult, complete_information
from probpca.learning.robust import fit_robust, reference
from probpca.learning.streaming.exact import Sketched, Summed, begin_stream, check_half_life, needed_rows
from probpca.learning.streaming.online_em import Gathered
from probpca.learning.training_distances import STREAM
from probpca.learning.uncertainty.parameter_draws import (
    draw_parameters,
    require_memory_for_draws,
    require_rows_in_memory,
)
from probpca.models.serialization import MODEL_FIELDS, model_arrays, model_from_arrays
from probpca.sources import open_source
from probpca.sources.open import check_weight

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from probpca.learning import Settings
    from probpca.learning.streaming.exact import Stream
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.typing import Array

    Learn: TypeAlias = Callable[[Source, Any, Settings, np.random.Generator], FitResult]


@dataclass(frozen=True, eq=False)
class LikelihoodFit(TableFit):
    """Fitted state of an estimator that maximises the likelihood."""

    result: FitResult
    draw_seed: int | None = None
    sketch_error: float = 0.0
    source: Source | None = None  # the training rows, if they are kept
    draws: tuple[LinearGaussian, ...] = ()  # of the parameters

    @classmethod
    def of(cls, result: FitResult, *rest: Any, **more: Any) -> Self:
        """Keep a result, which need not count the cells of complete rows."""
        cells = result.weight * result.model.n_features if result.cells is None else result.cells
        empty = np.empty(0, np.intp) if result.empty is None else result.empty
        return cls(result._replace(cells=cells, empty=empty, sample=None), *rest, **more)

    @cached_property
    def scaled_model(self) -> LinearGaussian:
        """The model of the columns as the fit saw them."""
        return self.result.scaled_model

    @cached_property
    def information(self) -> Array:
        """Sums of E[t t'], t = [z; 1], over the rows in which each feature was observed, packed."""
        if self.result.information is not None:
            return self.result.information
        return complete_information(self.result.weight, self.result.model.n_components)

    @property
    @abstractmethod
    def noise_inflation(self) -> float | Array:
        """Factor, or one for each feature, that corrects noise variances for the degrees of freedom of parameters."""

    @cached_property
    def doubt(self) -> ParameterCovariance:
        """Uncertainty of the parameters that imputed cells inherit."""
        return ParameterCovariance.of_fit(self.result.model, self.information, self.noise_inflation)

    def with_draws(self, source: Source, count: int) -> Self:
        """Add draws of the parameters until there are ``count``; each is the same whenever it is made."""
        model = self.result.model
        require_memory_for_draws(count, model.n_features, model.n_components)
        rngs = np.random.default_rng(self.draw_seed).spawn(count)[len(self.draws) :]
        drawn = draw_parameters(source, model, self.noise_inflation, rngs)
        return replace(self, draws=(*self.draws, *drawn))

    def record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the numbers and arrays that go into a file."""
        numbers, arrays = story_record(self.result)
        chosen, scales = choice_record(self.result)
        arrays |= scales
        numbers |= chosen | {
            "log_likelihood_": self.result.log_likelihood,
            "n_samples_": self.result.weight,
            "n_observed_": self.result.cells,
            "draw_seed_": self.draw_seed,
            "sketch_error_": self.sketch_error,
        }
        arrays |= {"information_": self.information, "empty_features_": self.result.empty}
        weights = {"row_weight_": self.result.row_weight, "cell_weight_": self.result.cell_weight}
        arrays |= {name: weight for name, weight in weights.items() if weight is not None}
        obstacle, reference = calibration_record(self.calibration)
        numbers, arrays = numbers | obstacle, arrays | reference
        drawn = [model_arrays(model) for model in self.draws]
        if drawn:
            arrays |= {f"draws_{name}": np.stack([model[name] for model in drawn]) for name in MODEL_FIELDS}
        return numbers, {**model_arrays(self.result.model), **arrays}

    @classmethod
    def from_record(cls, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Build the fit from the numbers and arrays of a file."""
        result = FitResult(
            log_likelihood=numbers["log_likelihood_"],
            weight=numbers["n_samples_"],
            cells=numbers["n_observed_"],
            information=arrays["information_"],
            empty=arrays["empty_features_"],
            model=model_from_arrays(arrays),
            row_weight=arrays.get("row_weight_"),
            cell_weight=arrays.get("cell_weight_"),
            **read_story(numbers, arrays),
            **read_choice(numbers, arrays),
        )
        stacks = [arrays[f"draws_{name}"] for name in MODEL_FIELDS if f"draws_{name}" in arrays]
        drawn = [dict(zip(MODEL_FIELDS, parts, strict=True)) for parts in zip(*stacks, strict=True)]
        draws = tuple(model_from_arrays(parts) for parts in drawn)
        training = read_calibration(numbers, arrays)
        return cls(result, numbers["draw_seed_"], numbers["sketch_error_"], draws=draws, training=training)


class StreamedFit:
    """The rows that ``partial_fit`` has read, summed; their model is computed at the first question, and only then.

    The sums never change: each batch makes a new object. A failure is remembered with its reason.
    """

    def __init__(self, stream: Stream, estimator: Any, solution: LikelihoodFit | None = None) -> None:
        """Remember the sums, the parameters of the estimator for the fit to them, and the fit if it is known."""
        self.stream, self.n_components = stream, estimator.n_components
        self._settings, self._random_state = _stream_settings(estimator), estimator.random_state
        self._fit_type, self._details = estimator._fit_type, estimator._details  # noqa: SLF001
        self._solution = solution
        self._failure = ""

    @property
    def ready(self) -> bool:
        """Whether enough rows for a model have come, and no attempt to fit them has failed."""
        return self._missing_rows == 0 and not self._failure

    @property
    def _missing_rows(self) -> int:
        return max(needed_rows(self.n_components) - self.stream.count, 0)

    def solve(self, name: str) -> LikelihoodFit:
        """Return the fit to all rows so far, or raise ``NotFittedError`` with the reason why there is none."""
        if self._solution is None and not self._failure:
            self._solve()
        if self._solution is None:
            msg = f"This {name} instance is not fitted yet: {self._failure}"
            raise NotFittedError(msg)
        return self._solution

    def _solve(self) -> None:
        if self._missing_rows:
            needed, count = needed_rows(self.n_components), self.stream.count
            self._failure = f"{needed} rows are needed to fit a model; {count} have come so far."
            return
        rng = generator(self._random_state)
        try:
            result = self.stream.fit(self.n_components, self._settings, rng)
            lost, seed = self.stream.error if isinstance(self.stream, Sketched) else 0.0, int(rng.integers(2**63))
            self._solution = self._fit_type.of(result, seed, lost, training=STREAM, **self._details)
        except ProbpcaError as error:  # the rows so far are constant, or say too little
            self._failure = str(error)


def fit_rows(estimator: Any, learn: Learn, X: Any, sample_weight: Any, cell_weight: Any) -> LikelihoodFit:
    """Fit the model of an estimator to rows by the function ``learn``, and return its fitted state."""
    check_parameters(estimator, estimator._constraints)  # noqa: SLF001
    if estimator.robust is not None:
        learn = _robust(estimator, learn)
    rng = generator(estimator.random_state)
    with fit_replaced(estimator):
        with progress_bar(estimator.verbose) as bar:
            source = open_training(estimator, X, sample_weight, cell_weight, None if bar is None else bar.parts)
            if estimator.keep_source or estimator.n_parameter_draws:
                require_rows_in_memory(source)
            q = estimator.n_components if isinstance(estimator.n_components, int) else 1
            require_memory_for_draws(estimator.n_parameter_draws, source.n_features, q)
            result = learn(source, estimator.n_components, estimator._settings(bar), rng)  # noqa: SLF001
        robust = result.row_weight is not None
        result = _with_uncounted_rows(result, sample_weight) if robust else result
        if robust and result.sample is not None:
            training: Any = reference(result, estimator.robust, estimator._settings(None).trimming)  # noqa: SLF001
        else:
            training = distances_of_fit(source, result, complete=result.cells is None)
    kept, seed = source if estimator.keep_source else None, int(rng.integers(2**63))
    fit = estimator._fit_type.of(result, seed, source=kept, training=training, **estimator._details)  # noqa: SLF001
    if estimator.n_parameter_draws:
        fit = fit.with_draws(source, estimator.n_parameter_draws)
    return fit


def _robust(estimator: Any, learn: Learn) -> Learn:
    """Function that fits the rows, or the rows and cells, that agree with each other by the function ``learn``."""
    if estimator.keep_source or estimator.n_parameter_draws:
        which = "keep_source=True" if estimator.keep_source else f"n_parameter_draws={estimator.n_parameter_draws}"
        msg = (
            f"{which} is for draws of the parameters, which refit the model to resampled rows; robust fits have none.\n"
            f"Hint: robust=None, or fit an ordinary {type(estimator).__name__} to the rows that the robust one used."
        )
        raise DataError(msg)
    own_units = bool(getattr(estimator, "standardize", True))
    return partial(fit_robust, how=estimator.robust, learn=learn, own_units=own_units)


def reads_once(estimator: Any) -> bool:
    """Whether rows may be read once, by ``partial_fit``; raises ``AttributeError`` if the estimator is robust."""
    if estimator.robust is None:
        return True
    msg = (
        f"partial_fit() reads each row once; robust={estimator.robust!r} needs all rows again and again.\n"
        "Hint: fit(X), or robust=None."
    )
    raise AttributeError(msg)


def _with_uncounted_rows(result: FitResult, sample_weight: Any) -> FitResult:
    """Result of a robust fit with weights of 0 for the rows of ``sample_weight`` 0, which no source contains."""
    used, cells = cast("Array", result.row_weight), result.cell_weight
    counted = None if sample_weight is None else np.asarray(unmasked(sample_weight), dtype=np.float64).ravel() > 0
    if counted is None or counted.size == used.size:
        return result
    rows = np.zeros(counted.size)
    rows[counted] = used
    if cells is not None:
        weight = np.zeros((counted.size, cells.shape[1]))
        weight[counted] = cells
        cells = weight
    return result._replace(row_weight=rows, cell_weight=cells)


def require_ordinary(estimator: Any, what: str) -> None:
    """Raise ``DataError`` after a robust fit, about which ``what`` cannot say anything."""
    if estimator._state.result.row_weight is not None:  # noqa: SLF001
        msg = (
            f"{what} is for ordinary fits, which maximise the likelihood of all rows; this one is robust.\n"
            "Hint: fit with robust=None to the rows X[model.row_weight_ == 1]."
        )
        raise DataError(msg)


def drawn_parameters(estimator: Any, n_draws: int) -> list[LinearGaussian]:
    """Draws of the parameters of a fitted estimator, which keeps them."""
    fit: LikelihoodFit = estimator._state  # noqa: SLF001
    require_ordinary(estimator, "impute_draws()")
    if len(fit.draws) < n_draws:
        if fit.source is None:
            msg = (
                f"impute_draws() needs {n_draws} draws of the parameters; the fit made {len(fit.draws)}.\n"
                f"Hint: fit with keep_source=True, or with n_parameter_draws={n_draws}."
            )
            raise DataError(msg)
        estimator._fitted = fit = fit.with_draws(fit.source, n_draws)  # noqa: SLF001
    return list(fit.draws[:n_draws])


def training_rows(
    estimator: Any,
    X: Any,
    sample_weight: Any,
    cell_weight: Any,
    needed_by: str = "the bootstrap",
    *,
    in_memory: bool = True,
) -> Source:
    """Training rows of a fitted estimator: ``X``, which must be them, or those that the fit kept.

    Rows in batches or files are taken only if they need not be ``in_memory``, and have no weights.
    """
    is_weighted = sample_weight is not None or cell_weight is not None
    if X is None and is_weighted:
        msg = "sample_weight and cell_weight need the rows that they belong to; got no X.\nHint: pass X too."
        raise DataError(msg)
    if X is None:
        kept: Source | None = estimator._state.source  # noqa: SLF001
        if kept is None:
            msg = f"{needed_by} needs the training rows.\nHint: pass them as X, or fit with keep_source=True."
            raise DataError(msg)
        return kept
    if not is_matrix(X) and (in_memory or is_weighted):
        weighted = "" if in_memory else " if they have weights"
        msg = f"{needed_by} needs rows in memory{weighted}; got rows that are read in batches.\nHint: pass one matrix."
        raise SourceError(msg)
    rows = _opened_matrix(estimator, X, sample_weight, cell_weight) if is_matrix(X) else open_rows(estimator, X)
    rows = repeatable(rows)
    summary = summarise(rows)
    _require_same("rows", estimator.n_samples_, summary.total_weight)
    _require_same("observed cells", estimator.n_observed_, float(summary.observed.sum()))
    return rows


def _opened_matrix(estimator: Any, X: Any, sample_weight: Any, cell_weight: Any) -> Source:
    block = estimator._block(X)  # noqa: SLF001
    return open_source(
        block.values,
        weight=sample_weight,
        cell_weight=cell_weight,
        unstored_missing=block.unstored_missing,
        n_jobs=estimator.n_jobs,
    )


def _require_same(what: str, fitted: float, count: float) -> None:
    if not np.isclose(count, fitted, rtol=1e-6):
        msg = (
            f"X must be the training rows, which had {fitted:,.6g} {what}; got {count:,.6g}.\n"
            "Hint: pass the table of the fit, with the same weights."
        )
        raise DataError(msg)


def stream_of(estimator: Any) -> Stream | None:
    """Sums over the rows that ``partial_fit`` has read; None without ``partial_fit``."""
    fitted = estimator._fitted  # noqa: SLF001
    return fitted.stream if isinstance(fitted, StreamedFit) else None


def with_batch(estimator: Any, X: Any, sample_weight: Any) -> Stream | None:
    """Sums over the rows of a stream and one more batch; None if the batch has no rows that count."""
    block = checked_batch(estimator, X, sample_weight)
    if block is None:
        return None
    with np.errstate(all="ignore"):  # the fit refuses sums that are not finite
        return _stream_for(estimator, block).absorb(block, estimator.half_life)


def checked_batch(estimator: Any, X: Any, sample_weight: Any) -> Block | None:
    """One batch of a stream as a block, after all checks; None if it has no rows that count."""
    check_parameters(estimator, estimator._constraints)  # noqa: SLF001
    check_half_life(estimator.half_life, estimator.n_components)
    first = stream_of(estimator) is None
    rows = checked_matrix(estimator, X, reset=first, ensure_min_features=1 + first)
    if sample_weight is not None and not np.any(unmasked(sample_weight)):
        return None
    weight = None if sample_weight is None else check_weight(sample_weight, rows.shape[0])
    is_sparse = sparse.issparse(rows)
    if np.isinf(rows.data if is_sparse else rows).any():
        msg = "rows must be finite; the batch contains infinity and was not used.\nHint: NaN marks a missing cell."
        raise DataError(msg)
    return Block(rows, weight, unstored_missing=is_sparse and estimator.missing == "unstored")


def merged_streams(estimator: Any, other: Any) -> Stream:
    """Sums over the rows that two estimators have read by ``partial_fit``."""
    if not isinstance(other, type(estimator)):
        msg = f"merge() needs another {type(estimator).__name__}; got {type(other).__name__}."
        raise DataError(msg)
    mine, theirs = stream_of(estimator), stream_of(other)
    if mine is None or theirs is None:
        msg = (
            "merge() needs estimators trained with partial_fit(): fit() does not keep the sums that merging "
            "needs.\nHint: partial_fit(X) instead of fit(X)."
        )
        raise DataError(msg)
    if type(mine) is not type(theirs):
        msg = (
            "merge() needs two estimators that keep the same sums; only one of these has seen missing cells, or "
            "has too many columns for exact sums.\nHint: fit() to all rows."
        )
        raise DataError(msg)
    counts = estimator.n_features_in_, other.n_features_in_
    if counts[0] != counts[1]:
        msg = f"merge() needs estimators with the same columns; got {counts[0]} and {counts[1]}."
        raise DataError(msg)
    ours, others = (list(getattr(one, "feature_names_in_", [])) for one in (estimator, other))
    if ours and others and ours != others:
        msg = f"merge() needs estimators with the same columns in the same order; got {ours} and {others}."
        raise DataError(msg)
    merged: Stream = mine.merge(theirs)
    return merged


def _stream_settings(estimator: Any) -> Settings:
    """A stream is fitted quickly and in memory: nobody watches, and there is no checkpoint."""
    return replace(estimator._settings(), checkpoint=None)  # noqa: SLF001


def _stream_for(estimator: Any, block: Block) -> Stream:
    """The sums to add a batch to; the first missing cell changes their kind."""
    stream, standardize = stream_of(estimator), bool(getattr(estimator, "standardize", False))
    settings = _stream_settings(estimator)
    if stream is None:
        stream = begin_stream(block.n_features, estimator.n_components, settings, standardize=standardize)
    if block.is_complete or not isinstance(stream, Summed | Sketched):
        return stream
    if standardize or isinstance(stream, Sketched):
        msg = (
            "partial_fit() takes missing cells only with standardize=False and up to 2,000 columns.\n"
            "Hint: use fit() on all rows."
        )
        raise DataError(msg)
    seed = int(generator(estimator.random_state).integers(2**63))
    earlier = (stream.rows(stream.moments.mean),) if stream.weight else ()
    return Gathered(earlier, estimator.n_components, settings, seed, stream.count)


def present(estimator: Any, value: Any, name: str) -> Any:
    """Value of a fitted attribute; raises ``AttributeError`` where a fit left nothing under its name."""
    if not value:
        msg = f"{type(estimator).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg)
    return value
