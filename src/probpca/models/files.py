"""One file, arrays and a little JSON inside; reading it never runs code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from probpca.errors import FileFormatError, ProbpcaError
from probpca.models.linear_gaussian import LinearGaussian

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION = 1
MODEL_FIELDS = ("mean", "loadings", "noise_variance")


def write_record(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write arrays and a JSON header to ``path``, all or nothing."""
    path = Path(path)
    text = json.dumps({"format": "probpca", "schema": SCHEMA_VERSION, **header})
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with temporary.open("xb") as file:
            np.savez_compressed(file, header=np.array(text), **arrays)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_record(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read what ``write_record`` wrote; anything else is a ``FileFormatError`` that says why."""
    try:
        # Opened here because numpy leaves the file open when it finds a broken archive.
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # damaged bytes fail in any way: in zip, in zlib, in numpy's headers
        msg = f"{path} cannot be read as a probpca file ({error}).\nHint: it may be cut short; write it again."
        raise FileFormatError(msg) from error
    try:
        header = json.loads(str(arrays.pop("header")))
        known = header["format"] == "probpca" and isinstance(header["schema"], int)
    except (KeyError, TypeError, ValueError):
        known = False
    if not known:
        msg = f"{path} was not written by probpca: it has no probpca header."
        raise FileFormatError(msg)
    if header["schema"] > SCHEMA_VERSION:
        msg = (
            f"{path} has schema {header['schema']}; this version reads up to {SCHEMA_VERSION}.\nHint: upgrade probpca."
        )
        raise FileFormatError(msg)
    return header, arrays


def model_from_arrays(path: str | Path, arrays: Mapping[str, Any]) -> LinearGaussian:
    """Build the model from stored arrays, or say which of them is wrong."""
    try:
        return LinearGaussian(*(arrays[name] for name in MODEL_FIELDS))
    except (KeyError, ProbpcaError, TypeError, ValueError) as error:
        msg = f"{path} holds no valid model: {error}"
        raise FileFormatError(msg) from error


def model_arrays(model: LinearGaussian) -> dict[str, Any]:
    """The arrays that make up a model, by name."""
    return {name: getattr(model, name) for name in MODEL_FIELDS}


def save_model(model: LinearGaussian, path: str | Path) -> None:
    """Write a model to one file (npz with a schema version)."""
    write_record(path, {"kind": "LinearGaussian"}, model_arrays(model))


def load_model(path: str | Path) -> LinearGaussian:
    """Read a model written by ``save_model``; a foreign or damaged file is a ``FileFormatError``."""
    _, arrays = read_record(path)
    return model_from_arrays(path, arrays)
