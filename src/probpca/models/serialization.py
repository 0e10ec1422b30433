"""Model files: arrays with a JSON header. Reading one never unpickles or runs code."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from probpca.errors import FileFormatError, ProbpcaError
from probpca.models.archive import SCHEMA_VERSION, read_archive, write_archive
from probpca.models.belief import ParameterBelief
from probpca.models.gaussian import Gaussian, LinearGaussian
from probpca.models.layout import Layout
from probpca.models.mixture import Mixture
from probpca.models.schema import check_record
from probpca.models.state_space import StateSpace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MODEL_FIELDS = ("mean", "loadings", "noise_variance")
DYNAMICS_FIELDS = ("transition", "process_noise", "input_loadings")


def write_record(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write arrays and a JSON header to ``path``; an interrupted write leaves no partial file.

    What ``read_record`` would not accept is not written: it raises ``FileFormatError``.
    """
    text = json.dumps({"format": "probpca", "schema": SCHEMA_VERSION, **header})
    try:
        check_record(json.loads(text), arrays)
    except FileFormatError as error:
        msg = f"{path} cannot be written, because it could not be read again: {error}"
        raise FileFormatError(msg) from error
    write_archive(path, text, arrays)


def read_record(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the header and the arrays of a file from ``write_record``; raise ``FileFormatError`` for other files."""
    header, arrays = read_archive(path)
    with reading(path):
        check_record(header, arrays)
    return header, arrays


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Add the name of the file to errors in what it holds, which all become ``FileFormatError``."""
    try:
        yield
    except ProbpcaError as error:
        msg = f"{path} holds no valid model: {error}\nHint: it was damaged or changed; write it again."
        raise FileFormatError(msg) from error


def model_from_arrays(arrays: Mapping[str, Any]) -> LinearGaussian:
    """Build a ``LinearGaussian`` from stored arrays."""
    return LinearGaussian(*(arrays[name] for name in MODEL_FIELDS))


def belief_from_arrays(arrays: Mapping[str, Any]) -> ParameterBelief:
    """Build a ``ParameterBelief`` from stored arrays."""
    return ParameterBelief(model_from_arrays(arrays), arrays["covariance"], arrays["precision"])


def belief_arrays(belief: ParameterBelief) -> dict[str, Any]:
    """Arrays of a ``ParameterBelief``, by name."""
    return {**model_arrays(belief.centre), "covariance": belief.covariance, "precision": belief.precision}


def model_arrays(model: LinearGaussian) -> dict[str, Any]:
    """Arrays of a ``LinearGaussian``, by name."""
    return {name: getattr(model, name) for name in MODEL_FIELDS}


def mixture_arrays(mixture: Mixture) -> dict[str, Any]:
    """Arrays of a ``Mixture``, by name: those of its clusters are stacked."""
    stacked = {"mean": mixture.means, "loadings": mixture.loadings, "noise_variance": mixture.noise_variance}
    return {"cluster_weights": mixture.weights, **stacked}


def mixture_from_arrays(arrays: Mapping[str, Any]) -> Mixture:
    """Build a ``Mixture`` from stored arrays."""
    parts = zip(*(arrays[name] for name in MODEL_FIELDS), strict=True)
    return Mixture(arrays["cluster_weights"], tuple(LinearGaussian(*fields) for fields in parts))


def state_space_arrays(model: StateSpace) -> dict[str, Any]:
    """Arrays of a ``StateSpace``, by name; ``input_loadings`` only if the model has inputs."""
    dynamics = {name: getattr(model, name) for name in DYNAMICS_FIELDS if getattr(model, name) is not None}
    start = {"initial_mean": model.initial.mean, "initial_covariance": model.initial.covariance}
    return {**model_arrays(model.emission), **dynamics, **start}


def layout_record(model: StateSpace) -> dict[str, Any] | None:
    """Layout of a ``StateSpace`` as JSON can hold it; None if it has none."""
    layout = model.layout
    if layout is None:
        return None
    return {
        "roles": list(layout.roles),
        "features": layout.features.tolist(),
        "period": layout.period,
        "unscored": layout.unscored,
    }


def state_space_from_arrays(arrays: Mapping[str, Any], layout: Mapping[str, Any] | None = None) -> StateSpace:
    """Build a ``StateSpace`` from stored arrays, and the record of its layout."""
    initial = Gaussian(arrays["initial_mean"], arrays["initial_covariance"])
    dynamics = arrays["transition"], arrays["process_noise"], model_from_arrays(arrays), arrays.get("input_loadings")
    return StateSpace(initial, *dynamics, None if layout is None else Layout(**layout))


def save_model(model: LinearGaussian | Mixture | StateSpace, path: str | Path) -> None:
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
    header: dict[str, Any] = {"kind": type(model).__name__}
    if isinstance(model, LinearGaussian):
        write_record(path, header, model_arrays(model))
    elif isinstance(model, Mixture):
        write_record(path, header, mixture_arrays(model))
    else:
        write_record(path, header | {"layout": layout_record(model)}, state_space_arrays(model))


def load_model(path: str | Path) -> LinearGaussian | Mixture | StateSpace:
    """Read a model from a file written by ``save_model`` or by the ``to_file`` method of an estimator.

    For the file of an estimator the result is its ``model_``; for ``BayesianPCA`` that is the predictive distribution
    of a new row, whose noise includes the uncertainty of the parameters. Every field of the file is checked. A file
    that is damaged, was changed, or is something else raises ``FileFormatError``, and so does whatever is not a regular
    file, such as a pipe. Reading never unpickles, and takes no more memory than the file is large.

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
    kind = header["kind"]
    if kind == "checkpoint" or "loadings" not in arrays:
        what = "a checkpoint" if kind == "checkpoint" else f"a {kind} of a single column"
        msg = f"{path} holds {what}, not a model.\nHint: save_model and the to_file methods write models."
        raise FileFormatError(msg)
    with reading(path):
        if kind == "BayesianPCA":
            return belief_from_arrays(arrays).predictive()
        if "cluster_weights" in arrays:
            return mixture_from_arrays(arrays)
        if "transition" not in arrays:
            return model_from_arrays(arrays)
        return state_space_from_arrays(arrays, header.get("fitted", header)["layout"])
