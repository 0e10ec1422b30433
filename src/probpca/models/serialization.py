"""Model files: npz archives of arrays with a JSON header. Reading one never unpickles or runs code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.atomic_write import appearing
from probpca.errors import FileFormatError, ProbpcaError
from probpca.models.belief import ParameterBelief
from probpca.models.gaussian import Gaussian, LinearGaussian
from probpca.models.state_space import StateSpace

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION = 2
"""Version of the file format. Version 2 added the scales of standardised columns."""
MODEL_FIELDS = ("mean", "loadings", "noise_variance")
DYNAMICS_FIELDS = ("transition", "process_noise", "input_loadings")


def write_record(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write arrays and a JSON header to ``path``; an interrupted write leaves no partial file."""
    path = Path(path)
    text = json.dumps({"format": "probpca", "schema": SCHEMA_VERSION, **header})
    with appearing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, header=np.array(text), **arrays)


def read_record(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the header and the arrays of a file from ``write_record``; raise ``FileFormatError`` for other files."""
    try:
        # Opened here because numpy leaves the file open when it finds a broken archive.
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # damaged files fail in many ways: in zip, in zlib, in numpy's headers
        msg = f"{path} cannot be read as a probpca file ({error}).\nHint: it may be incomplete; write it again."
        raise FileFormatError(msg) from error
    try:
        header = json.loads(str(arrays.pop("header")))
        known = header["format"] == "probpca" and isinstance(header["schema"], int)
    except (KeyError, TypeError, ValueError):
        known = False
    if not known:
        msg = (
            f"{path} was not written by probpca: it has no probpca header.\n"
            "Hint: write models with save_model or an estimator's to_file method."
        )
        raise FileFormatError(msg)
    if header["schema"] > SCHEMA_VERSION:
        msg = (
            f"{path} has schema {header['schema']}; this version reads up to {SCHEMA_VERSION}.\nHint: upgrade probpca."
        )
        raise FileFormatError(msg)
    if header["schema"] < SCHEMA_VERSION:
        msg = (
            f"{path} must have schema {SCHEMA_VERSION}; got {header['schema']}, from an earlier version of probpca.\n"
            "Hint: fit again and write a new file; if it is a checkpoint, delete it first."
        )
        raise FileFormatError(msg)
    return header, arrays


def model_from_arrays(path: str | Path, arrays: Mapping[str, Any]) -> LinearGaussian:
    """Build a ``LinearGaussian`` from stored arrays; raise ``FileFormatError`` if they are not valid."""
    try:
        return LinearGaussian(*(arrays[name] for name in MODEL_FIELDS))
    except (KeyError, ProbpcaError, TypeError, ValueError) as error:
        msg = f"{path} holds no valid model: {error}"
        raise FileFormatError(msg) from error


def belief_from_arrays(path: str | Path, arrays: Mapping[str, Any]) -> ParameterBelief:
    """Build a ``ParameterBelief`` from stored arrays; raise ``FileFormatError`` if they are not valid."""
    centre = model_from_arrays(path, arrays)
    try:
        return ParameterBelief(centre, arrays["covariance"], arrays["precision"])
    except (KeyError, ProbpcaError, TypeError, ValueError) as error:
        msg = f"{path} holds no valid model: {error}"
        raise FileFormatError(msg) from error


def belief_arrays(belief: ParameterBelief) -> dict[str, Any]:
    """Arrays of a ``ParameterBelief``, by name."""
    return {**model_arrays(belief.centre), "covariance": belief.covariance, "precision": belief.precision}


def model_arrays(model: LinearGaussian) -> dict[str, Any]:
    """Arrays of a ``LinearGaussian``, by name."""
    return {name: getattr(model, name) for name in MODEL_FIELDS}


def state_space_arrays(model: StateSpace) -> dict[str, Any]:
    """Arrays of a ``StateSpace``, by name; ``input_loadings`` only if the model has inputs."""
    dynamics = {name: getattr(model, name) for name in DYNAMICS_FIELDS if getattr(model, name) is not None}
    start = {"initial_mean": model.initial.mean, "initial_covariance": model.initial.covariance}
    return {**model_arrays(model.emission), **dynamics, **start}


def state_space_from_arrays(path: str | Path, arrays: Mapping[str, Any]) -> StateSpace:
    """Build a ``StateSpace`` from stored arrays; raise ``FileFormatError`` if they are not valid."""
    emission = model_from_arrays(path, arrays)
    try:
        initial = Gaussian(arrays["initial_mean"], arrays["initial_covariance"])
        transition, process_noise = arrays["transition"], arrays["process_noise"]
        return StateSpace(initial, transition, process_noise, emission, arrays.get("input_loadings"))
    except (KeyError, ProbpcaError, TypeError, ValueError) as error:
        msg = f"{path} holds no valid model: {error}"
        raise FileFormatError(msg) from error


def save_model(model: LinearGaussian | StateSpace, path: str | Path) -> None:
    """Write a model to a file, to be read by ``load_model``.

    The file is an npz archive of the parameters with a format version. An existing file is replaced and keeps
    its permissions; one that is read-only raises ``SourceError``. A pipe or a device is written into.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from probpca.models import LinearGaussian, load_model, save_model
    >>> model = LinearGaussian(np.zeros(3), np.ones((3, 1)), 0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.npz"
    ...     save_model(model, path)
    ...     load_model(path).noise_variance
    array(0.5)
    """
    arrays = model_arrays(model) if isinstance(model, LinearGaussian) else state_space_arrays(model)
    write_record(path, {"kind": type(model).__name__}, arrays)


def load_model(path: str | Path) -> LinearGaussian | StateSpace:
    """Read a model from a file written by ``save_model`` or by the ``to_file`` method of an estimator.

    For the file of an estimator the result is its ``model_``; for ``BayesianPCA`` that is the predictive distribution
    of a new row. Any other file raises ``FileFormatError``. Reading never unpickles.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from probpca import PPCA
    >>> from probpca.models import load_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     PPCA(n_components=2).fit(load_iris().data).to_file(Path(folder) / "iris.npz")
    ...     model = load_model(Path(folder) / "iris.npz")
    >>> model.n_features, model.n_components
    (4, 2)
    """
    header, arrays = read_record(path)
    match header.get("kind"):
        case "LinearGaussian" | "PPCA" | "PPCAImputer":
            return model_from_arrays(path, arrays)
        case "BayesianPCA":
            return belief_from_arrays(path, arrays).predictive()
        case "StateSpace" | "LinearDynamicalSystem":
            return state_space_from_arrays(path, arrays)
        case kind:
            msg = f"{path} holds a {kind}, not a model.\nHint: save_model and the to_file methods write models."
            raise FileFormatError(msg)
