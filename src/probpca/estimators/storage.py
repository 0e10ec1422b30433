"""An estimator in one file."""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from probpca.errors import FileFormatError
from probpca.learning.result import Status
from probpca.models.serialization import MODEL_FIELDS, model_arrays, model_from_arrays, read_record, write_record

if TYPE_CHECKING:
    from pathlib import Path

DRAWS = "draws_"


def write_estimator(estimator: Any, path: str | Path) -> None:
    """Write parameters, fitted numbers and the model."""
    check_is_fitted(estimator)
    parameters = {name: _plain(value) for name, value in estimator.get_params(deep=False).items()}
    if not isinstance(parameters["random_state"], int | None):
        msg = (
            f"random_state must be an int or None to be written to a file; got {parameters['random_state']!r}.\n"
            "Hint: estimator.set_params(random_state=0)."
        )
        raise FileFormatError(msg)
    names = getattr(estimator, "feature_names_in_", None)
    header = {
        "kind": type(estimator).__name__,
        "parameters": parameters,
        "fitted": {name: getattr(estimator, name) for name in estimator._stored_numbers},
        "sketch_error": getattr(estimator, "sketch_error_", 0.0),
        "status": estimator.status_.name,
        "feature_names": None if names is None else [str(name) for name in names],
    }
    arrays = {name: np.asarray(getattr(estimator, name)) for name in estimator._stored_arrays}
    write_record(path, header, {**estimator._parts(), **arrays, **_draw_arrays(estimator)})


def _draw_arrays(estimator: Any) -> dict[str, Any]:
    """Draws of the parameters, stacked; nothing if none were made."""
    draws = [model_arrays(drawn) for drawn in getattr(estimator, "parameter_draws_", [])]
    return {DRAWS + name: np.stack([drawn[name] for drawn in draws]) for name in MODEL_FIELDS} if draws else {}


def _plain(value: Any) -> Any:
    """A numpy number as Python has it, for a search over np.arange leaves such parameters; a path as text."""
    if isinstance(value, PathLike):
        return fspath(value)
    return value.item() if isinstance(value, np.generic) else value


def read_estimator(kind: Any, path: str | Path) -> Any:
    """Read what ``write_estimator`` wrote for this kind of estimator."""
    header, arrays = read_record(path)
    if header.get("kind") != kind.__name__:
        msg = f"{path} holds a {header.get('kind')}, not a {kind.__name__}."
        raise FileFormatError(msg)
    try:
        estimator: Any = kind(**header["parameters"])
        for name in kind._stored_numbers:
            setattr(estimator, name, header["fitted"][name])
        estimator.status_ = Status[header["status"]]
        estimator.kept_sketch_error_ = header.get("sketch_error", 0.0)
        for name in kind._stored_arrays:
            setattr(estimator, name, arrays[name])
        if header["feature_names"] is not None:
            estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    except (KeyError, TypeError) as error:
        msg = f"{path} lacks a part of a {kind.__name__}: {error}."
        raise FileFormatError(msg) from error
    estimator._take_parts(path, arrays)
    estimator.n_components_ = estimator.model_.n_components
    drawn = [arrays[DRAWS + name] for name in MODEL_FIELDS if DRAWS + name in arrays]
    if drawn:
        one_by_one = [dict(zip(MODEL_FIELDS, parts, strict=True)) for parts in zip(*drawn, strict=True)]
        estimator.parameter_draws_ = [model_from_arrays(path, parts) for parts in one_by_one]
    return estimator
