"""Archives of arrays with a JSON header: npz files whose members are not compressed.

Because nothing is inflated, the memory that reading takes is bounded by the size of the file. The directory of the
archive and the CRC-32 of every member are checked, so that a byte that was changed cannot change an answer.
"""

from __future__ import annotations

import json
import os
import stat
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy

from probpca.atomic_write import appearing
from probpca.errors import FileFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zipfile import ZipInfo

SCHEMA_VERSION = 3
"""Version of the file format. Version 3 does not compress arrays."""
NOT_FILES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def write_archive(path: str | Path, header: str, arrays: Mapping[str, Any]) -> None:
    """Write arrays and the text of a JSON header; an interrupted write leaves no partial file."""
    with appearing(Path(path)) as part, part.open("wb") as file:
        np.savez(file, header=np.array(header.encode()), **arrays)


def read_archive(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the header and the arrays of a file from ``write_archive``; raise ``FileFormatError`` for other files."""
    try:
        with open_regular(path) as file, ZipFile(file) as archive:
            arrays = _read_members(archive, os.fstat(file.fileno()).st_size)
    except (FileNotFoundError, PermissionError, FileFormatError):
        raise
    except (
        Exception
    ) as error:  # damaged files fail in many ways: in zip, in the numbers of a member, in numpy's headers
        msg = f"{path} cannot be read as a probpca file ({error}).\nHint: it may be incomplete; write it again."
        raise FileFormatError(msg) from error
    header = _parsed(arrays.pop("header", None))
    if header.get("format") != "probpca":
        msg = (
            f"{path} was not written by probpca: it has no probpca header.\n"
            "Hint: write models with save_model or an estimator's to_file method."
        )
        raise FileFormatError(msg)
    _require_version(path, header.get("schema"))
    return header, arrays


def open_regular(path: str | Path) -> IO[bytes]:
    """Open a regular file for reading; raise ``FileFormatError`` for a pipe, device, socket or folder, at once."""
    _require_regular(path, Path(path).stat().st_mode)  # a device is not even opened: that may do something
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  # the caller closes it
    try:
        _require_regular(path, os.fstat(file.fileno()).st_mode)  # the name may mean something else by now
    except FileFormatError:
        file.close()
        raise
    return file


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _require_regular(path: str | Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = NOT_FILES.get(stat.S_IFMT(mode), "something else")
        msg = (
            f"{path} cannot be read as a probpca file: it must be a regular file; it is {kind}.\n"
            "Hint: give the name of a file that save_model or to_file wrote."
        )
        raise FileFormatError(msg)


def _read_members(archive: ZipFile, size: int) -> dict[str, Any]:
    """All arrays of an archive, after a look at its directory."""
    members = archive.infolist()
    names = [member.filename.removesuffix(".npy") for member in members]
    for member in members:
        if member.compress_type != ZIP_STORED or member.compress_size != member.file_size:
            msg = f"its member {member.filename} is compressed, which probpca never does"
            raise ValueError(msg)
    if len(set(names)) < len(names) or sum(member.file_size for member in members) > size:
        msg = "members of the archive have the same name or lie over each other"
        raise ValueError(msg)
    return {name: _array(archive, member) for name, member in zip(names, members, strict=True)}


def _array(archive: ZipFile, member: ZipInfo) -> Any:
    """One array: its header must account for every byte of the member, whose CRC-32 ``ZipFile.read`` verifies."""
    data = archive.read(member)
    stream = BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        msg = f"its member {member.filename} is not an array"
        raise ValueError(msg)
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    if dtype.hasobject:
        msg = f"its member {member.filename} holds objects, which only pickle could read"
        raise ValueError(msg)
    if min(shape, default=0) < 0 or stream.tell() + prod(shape) * dtype.itemsize != len(data):
        msg = f"its member {member.filename} does not have the size that its shape {shape} needs"
        raise ValueError(msg)
    stored = np.ndarray(shape, dtype, data, stream.tell(), order="F" if fortran else "C")
    return stored.astype(dtype.newbyteorder("="))


def _parsed(stored: Any) -> dict[str, Any]:
    """The header as a dictionary; an empty one if it is not JSON."""
    try:
        header = json.loads(stored.item())
    except (AttributeError, TypeError, ValueError, RecursionError):
        return {}
    return header if isinstance(header, dict) else {}


def _require_version(path: str | Path, version: Any) -> None:
    if type(version) is int and version == SCHEMA_VERSION:
        return
    if type(version) is int and version > SCHEMA_VERSION:
        msg = f"{path} has schema {version}; this version reads up to {SCHEMA_VERSION}.\nHint: upgrade probpca."
    elif type(version) is int and version > 0:
        msg = (
            f"{path} must have schema {SCHEMA_VERSION}; got {version}, from an earlier version of probpca.\n"
            "Hint: fit again and write a new file; if it is a checkpoint, delete it first."
        )
    else:
        msg = f"{path} must have schema {SCHEMA_VERSION}; got {version!r}.\nHint: it is damaged; write it again."
    raise FileFormatError(msg)
