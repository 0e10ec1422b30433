"""Estimators in files: parameters, names of columns and the fitted state in one npz file that contains no code."""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.errors import FileFormatError
from probpca.inference.calibration import Calibration
from probpca.learning.result import Status
from probpca.models.serialization import read_record, write_record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PARAMETER = "parameter_"
"""Prefix of the arrays that are parameters of an estimator."""


def write_estimator(estimator: Any, path: str | Path, **more: Any) -> None:
    """Write the parameters of an estimator and its fitted state; ``more`` goes into the header of the file."""
    numbers, arrays = fit_record(estimator)
    parameters = plain_parameters(estimator)
    given = {name: value for name, value in parameters.items() if isinstance(value, np.ndarray)}
    names = getattr(estimator, "feature_names_in_", None)
    header = {
        "kind": type(estimator).__name__,
        "parameters": {name: value for name, value in parameters.items() if name not in given},
        "fitted": {**numbers, "n_features_in_": estimator.n_features_in_},
        "feature_names": None if names is None else [str(name) for name in names],
        **more,
    }
    write_record(path, header, {**arrays, **{PARAMETER + name: value for name, value in given.items()}})


def fit_record(estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the numbers and arrays that make up the fitted state of an estimator."""
    record: tuple[dict[str, Any], dict[str, Any]] = estimator._state.record()
    return record


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator as files can hold them, or say which of them no file can hold."""
    parameters = {name: _plain(value) for name, value in estimator.get_params(deep=False).items()}
    if not isinstance(parameters["random_state"], int | None):
        msg = (
            f"random_state must be an int or None to be written to a file; got {parameters['random_state']!r}.\n"
            "Hint: estimator.set_params(random_state=0)."
        )
        raise FileFormatError(msg)
    return parameters


def _plain(value: Any) -> Any:
    """Return a parameter as JSON or npz can hold it: paths as text, numpy numbers as Python's, lists as arrays."""
    if isinstance(value, PathLike):
        return fspath(value)
    if type(value).__name__ == "NAType":  # of pandas: a parameter for which None means the same
        return None
    if isinstance(value, list | tuple | np.ndarray):
        return np.asarray(value, dtype=np.float64)
    return value.item() if isinstance(value, np.generic) else value


def read_estimator(kind: Any, path: str | Path) -> Any:
    """Read a fitted estimator of some kind."""
    header, arrays = read_record(path)
    if header.get("kind") != kind.__name__:
        msg = f"{path} holds a {header.get('kind')}, not a {kind.__name__}."
        raise FileFormatError(msg)
    given = {name.removeprefix(PARAMETER): array for name, array in arrays.items() if name.startswith(PARAMETER)}
    try:
        estimator = with_fit(kind(**header["parameters"], **given), path, header["fitted"], arrays)
        estimator.n_features_in_ = header["fitted"]["n_features_in_"]
        if header["feature_names"] is not None:
            estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    except (KeyError, TypeError) as error:
        msg = f"{path} lacks a part of a {kind.__name__}: {error}."
        raise FileFormatError(msg) from error
    return estimator


def with_fit(estimator: Any, path: str | Path, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    """Give an estimator the fitted state that a file holds."""
    estimator._fitted = estimator._fit_type.from_record(path, numbers, arrays)
    return estimator


def story_record(result: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what all results of fits have in common, beside the model: numbers for the header, and arrays."""
    return {"n_iter_": result.n_iter, "status": result.status.name}, {"trace_": np.array(result.trace)}


def choice_record(result: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how the number of components of a table was chosen, and the scales of its columns as far as known."""
    scales = {"column_std_": result.column_std, "scale_": result.scale}
    known = {name: values for name, values in scales.items() if values is not None}
    return {"rule_": result.rule, "notes_": list(result.notes)}, known


def read_choice(numbers: Any, arrays: Any) -> dict[str, Any]:
    """Return the same as fields of a result."""
    return {
        "rule": numbers["rule_"],
        "notes": tuple(numbers["notes_"]),
        "column_std": arrays.get("column_std_"),
        "scale": arrays.get("scale_"),
    }


def calibration_record(calibration: Calibration) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the reference distribution of p-values: numbers for the header, and arrays, which hold infinity."""
    numbers = np.array([calibration.scale, calibration.degrees, calibration.extreme])
    return {"calibration_obstacle": calibration.obstacle}, {"calibration_": numbers}


def read_calibration(numbers: Any, arrays: Any) -> Calibration:
    """Return the reference distribution of p-values; files without one have none."""
    if "calibration_" not in arrays:
        return Calibration(obstacle="the file holds no calibration")
    scale, degrees, extreme = arrays["calibration_"].tolist()
    return Calibration(scale, degrees, extreme, numbers["calibration_obstacle"])


def read_story(numbers: Any, arrays: Any) -> dict[str, Any]:
    """Return the same as fields of a result."""
    return {
        "status": Status[numbers["status"]],
        "trace": tuple(arrays["trace_"].tolist()),
        "n_iter": numbers["n_iter_"],
    }
