"""Models in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from probpca.errors import FileFormatError
from probpca.estimators import PPCA, BayesianPCA
from probpca.models.serialization import read_record
from probpca.sources.files import FORMATS

KINDS = {kind.__name__: kind for kind in (PPCA, BayesianPCA)}


class Fitted(NamedTuple):
    """An estimator, and the names of the columns that it was fitted to; it is asked about bare arrays."""

    estimator: Any
    names: tuple[str, ...] | None

    @property
    def features(self) -> tuple[str, ...]:
        """Names to print."""
        return self.names or tuple(f"x{j}" for j in range(self.estimator.model_.n_features))


def open_model(path: str, n_jobs: int | None = None) -> Fitted:
    """Read what ``probpca fit`` wrote."""
    place = Path(path)
    if place.suffix.lower() in FORMATS or place.suffix.lower() == ".gz":
        msg = f"{place} is a table; a model is needed here.\nHint: the model comes first: probpca COMMAND MODEL TABLE."
        raise FileFormatError(msg)
    if place.is_dir():
        msg = f"{place} is a folder, not a model.\nHint: probpca fit writes models, by default to model.npz."
        raise FileFormatError(msg)
    with place.open("rb") as file:
        if file.read(2) != b"PK":
            msg = f"{place} is not a model that probpca fit wrote."
            raise FileFormatError(msg)
    kind = read_record(place)[0].get("kind")
    if kind not in KINDS:
        msg = f"{place} holds a {kind}; commands take a {' or a '.join(KINDS)}.\nHint: probpca fit writes one."
        raise FileFormatError(msg)
    estimator: Any = KINDS[kind].from_file(place)
    estimator.n_jobs = n_jobs
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return Fitted(estimator, None)
    del estimator.feature_names_in_
    return Fitted(estimator, tuple(map(str, names)))
