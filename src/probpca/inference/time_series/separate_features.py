"""Posterior of systems whose features share no states: each feature is filtered and smoothed by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.available_memory import require_memory
from probpca.blocks.sequences import Sequences
from probpca.cached_property import cached_property
from probpca.inference.time_series.row_filter import KnownState
from probpca.inference.time_series.square_root_filter import FilteredTrajectory
from probpca.linalg.tridiagonal import InverseBlocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.models.state_space import Part, StateSpace
    from probpca.typing import Array


@final
@dataclass(frozen=True, eq=False)
class SeparateTrajectories:
    """Joint posterior of all states, made of independent posteriors of the states of each feature."""

    model: StateSpace
    rows: Sequences
    parts: list[Part]
    found: list[FilteredTrajectory]
    copies: int = 1  # sequences do not share covariances

    @classmethod
    def of(cls, model: StateSpace, rows: Sequences) -> SeparateTrajectories | None:
        """Run the filter of each feature; None if features share states."""
        parts = model.parts()
        if parts is None:
            return None
        columns = [Sequences(rows.values[:, part.feature : part.feature + 1], rows.lengths) for part in parts]
        found = [FilteredTrajectory.of(part.model, column) for part, column in zip(parts, columns, strict=True)]
        return cls(model, rows, parts, found)

    @cached_property
    def mean(self) -> Array:
        """Smoothed means: (n, q)."""
        return self.together([one.mean for one in self.found])

    @cached_property
    def covariances(self) -> InverseBlocks:
        """Smoothed covariances, and covariances of each state with the next, zero between features."""
        each = [one.covariances for one in self.found]
        both = ([np.moveaxis(blocks[k], -1, 0) for blocks in each] for k in (0, 1))
        return InverseBlocks(*(np.ascontiguousarray(np.moveaxis(self.block_diagonal(one), 0, -1)) for one in both))

    def last_states(self) -> list[KnownState]:
        """Last state of each sequence given its rows."""
        ends = self.rows.starts + self.rows.lengths - 1
        mean = self.together([one.found.mean[ends] for one in self.found])
        return list(map(KnownState, mean, self.block_diagonal([one.found.root[ends] for one in self.found])))

    def sample(self, noise: Array) -> Array:
        """Draw trajectories from the posterior, given standard normal ``noise`` (draws, n, q): (draws, n, q)."""
        out = np.empty_like(noise)
        for part, one in zip(self.parts, self.found, strict=True):
            out[:, :, part.states] = one.sample(np.ascontiguousarray(noise[:, :, part.states]))
        return out

    @property
    def distance(self) -> Array:
        """Squared Mahalanobis distance of each row from its prediction: (n,)."""
        return np.sum([one.distance for one in self.found], axis=0)

    def row_likelihoods(self) -> Array:
        """Log density of each row given the rows before it: (n,)."""
        return np.sum([one.row_likelihoods() for one in self.found], axis=0)

    def log_likelihood(self, squares: Array | None = None) -> float:  # noqa: ARG002
        """Log density of all rows."""
        return float(self.row_likelihoods().sum())

    def together(self, columns: Sequence[Array]) -> Array:
        """Values of all states, from those of the states of each feature: (n, q)."""
        out = np.empty((len(columns[0]), self.model.n_components))
        for part, values in zip(self.parts, columns, strict=True):
            out[:, part.states] = values
        return out

    def block_diagonal(self, blocks: Sequence[Array]) -> Array:
        """Matrices of all states, from those of the states of each feature: (n, q, q)."""
        n, q = len(blocks[0]), self.model.n_components
        require_memory(f"covariances of {q:,} states at {n:,} steps", 8 * n * q * q, "ask for fewer steps")
        out = np.zeros((n, q, q))
        for part, block in zip(self.parts, blocks, strict=True):
            out[np.ix_(np.arange(n), part.states, part.states)] = block
        return out
