"""Learning from batches, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from probpca.blocks import Block
from probpca.errors import DataError, ProbpcaError
from probpca.estimators.fitted import FITTED
from probpca.learning.components import check_count, given_count
from probpca.learning.seeds import generator
from probpca.learning.settings import Settings
from probpca.learning.streaming.exact import Sketched, Stream, Summed, begin, check_half_life, needed_rows
from probpca.learning.streaming.online_em import Gathered
from probpca.sources.open import check_weight

if TYPE_CHECKING:
    from probpca.learning.result import FitResult


class StreamQueries:
    """``partial_fit`` and ``merge``: rows are summed as they come, and the model follows when it is asked for."""

    stream_: Stream

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more batch of rows; a batch may be a single row.

        Complete rows are summed exactly: the model is that of ``fit`` to all rows, whatever the batches, their
        order and the solver. Beyond 2,000 columns a sketch takes the place of the sums, and ``sketch_error_``
        bounds what it loses. Rows with missing cells are learned from by online EM, which is near the
        maximum of the likelihood after one pass; ``fit`` gets there if the rows can be read again.
        With ``half_life`` older rows count less and less. After ``fit``, which keeps no sums, a new stream begins.
        """
        self._validate_params()
        check_half_life(self.half_life, self.n_components)
        first = "stream_" not in self.__dict__
        kinds = [np.float64, np.float32]
        rows = validate_data(
            self,
            X,
            reset=first,
            accept_sparse="csr",
            dtype=kinds,
            ensure_all_finite=False,
            ensure_min_features=1 + first,
        )
        if sample_weight is not None and not np.any(sample_weight):
            return self  # rows that are not there
        weight = None if sample_weight is None else check_weight(sample_weight, rows.shape[0])
        thin = sparse.issparse(rows)
        if np.isinf(rows.data if thin else rows).any():
            msg = "rows must be finite; the batch contains infinity, and was left out.\nHint: NaN is a missing cell."
            raise DataError(msg)
        block = Block(rows, weight, unstored_missing=thin and self.missing == "unstored")
        stream = self._stream(block)
        self._set_stream(stream.absorb(block, self.half_life))
        return self

    def merge(self, other: Any) -> Self:
        """Join what another estimator has learned by ``partial_fit``: the model of the rows of both."""
        mine, theirs = (estimator.__dict__.get("stream_") for estimator in (self, other))
        if mine is None or theirs is None:
            msg = "estimators are merged that learned by partial_fit: fit keeps no sums.\nHint: partial_fit(X) instead."
            raise DataError(msg)
        if type(mine) is not type(theirs):
            msg = "one stream has missing cells, or more of them, or many columns: their sums do not go together."
            raise DataError(msg)
        if self.n_features_in_ != other.n_features_in_:
            msg = f"both must have the same columns; got {self.n_features_in_} and {other.n_features_in_}."
            raise DataError(msg)
        ours, others = (list(getattr(estimator, "feature_names_in_", [])) for estimator in (self, other))
        if ours and others and ours != others:
            msg = f"both must have the same columns in the same order; got {ours} and {others}."
            raise DataError(msg)
        self._set_stream(mine.merge(theirs))
        return self

    @property
    def sketch_error_(self) -> float:
        """No variance along a principal axis is further below the true one than this; 0 without a sketch."""
        stream = self.__dict__.get("stream_")
        return stream.error if isinstance(stream, Sketched) else self.__dict__.get("kept_sketch_error_", 0.0)

    def _stream(self, block: Block) -> Stream:
        """The state to go on from; the first missing cell changes its kind."""
        parameters: Any = self
        stream = self.__dict__.get("stream_")
        if stream is None:
            check_count(given_count(parameters.n_components) or 1, block.n_features)
            stream = begin(block.n_features, parameters.n_components, standardize=parameters.standardize)
        if block.is_complete or not isinstance(stream, Summed | Sketched):
            return stream
        if parameters.standardize or isinstance(stream, Sketched):
            msg = "missing cells in batches go with standardize=False, and with up to 2,000 columns.\nHint: use fit."
            raise DataError(msg)
        seed = int(generator(parameters.random_state).integers(2**63))
        earlier = (stream.rows(stream.moments.mean),) if stream.weight else ()
        return Gathered(earlier, parameters.n_components, self._settings(), seed, stream.count)

    def _settings(self) -> Settings:
        parameters: Any = self
        corrected = bool(parameters.bias_correction)
        return Settings(parameters.solver, parameters.tol, parameters.max_iter, bias_correction=corrected)

    def _set_stream(self, stream: Stream) -> None:
        for name in (*FITTED, "source_", "parameter_draws_"):
            self.__dict__.pop(name, None)
        self.stream_ = stream

    def __getattr__(self, name: str) -> Any:
        """What a fit has to say is worked out when it is asked for."""
        if "stream_" in self.__dict__ and name in FITTED:
            self._work_out()
            return self.__dict__[name]
        if "stream_" in self.__dict__ and hasattr(type(self), name):  # a property that found no model
            self._work_out()
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg)

    def _work_out(self) -> None:
        parameters: Any = self
        needed, count = needed_rows(parameters.n_components), self.stream_.count
        if count < needed:
            msg = f"{needed} rows are needed before there is a model; {count} have come so far."
            raise AttributeError(msg)
        rng = generator(parameters.random_state)
        try:
            result: FitResult = self.stream_.fit(parameters.n_components, self._settings(), rng)
        except ProbpcaError as error:  # too few rows yet
            raise AttributeError(str(error)) from error
        parameters._keep(result)  # noqa: SLF001
        self.draw_seed_ = int(rng.integers(2**63))
