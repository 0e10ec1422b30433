"""Only regular files are read, nothing is inflated, and no byte that was changed goes unnoticed."""

import io
import os
import socket
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from forged_models import packed, unpacked
from oracles import random_model
from probpca import PPCA, BayesianPCA, FileFormatError, LinearDynamicalSystem, PPCAImputer
from probpca.models import load_model, save_model

READERS = [load_model, *(kind.from_file for kind in (PPCA, BayesianPCA, PPCAImputer, LinearDynamicalSystem))]
MEGABYTE = 2**20
BOMB = 64 * MEGABYTE


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


@pytest.fixture
def content(rng, path):
    save_model(random_model(rng), path)
    return path.read_bytes()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def archived(members, compression=zipfile.ZIP_STORED):
    """The bytes of a zip archive of named members, which may bear the same name."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


# What is not a regular file


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


NOT_FILES = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "socket": make_socket,
    "device": lambda path: Path(path).symlink_to("/dev/zero"),
    "link to a pipe": lambda path: (os.mkfifo("pipe"), Path(path).symlink_to("pipe")),
}


@pytest.mark.parametrize("read", READERS, ids=lambda read: getattr(read, "__self__", read).__name__)
@pytest.mark.parametrize(("kind", "make"), NOT_FILES.items(), ids=NOT_FILES)
def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path, monkeypatch, read, kind, make):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    make("m.npz")
    with pytest.raises(FileFormatError, match=rf"m.npz(.|\n)*regular file; it is a {kind.split()[-1]}(.|\n)*Hint"):
        read("m.npz")


def test_a_pipe_that_takes_the_place_of_a_file_is_refused_at_once(path, content, monkeypatch):
    path.write_bytes(content)
    regular, pipe = path.stat(), path.with_name("pipe")
    os.mkfifo(pipe)
    monkeypatch.setattr(type(path), "stat", lambda *_, **__: regular)
    with pytest.raises(FileFormatError, match="it is a pipe"):
        load_model(pipe)


def test_a_link_to_a_file_is_read(path, content, tmp_path):
    path.write_bytes(content)
    (tmp_path / "link").symlink_to(path)
    assert load_model(tmp_path / "link").n_features == load_model(path).n_features


# Bombs


def bomb_of(content, name):
    """A small file with a member that would inflate to 64 MB."""
    other = [(member, data) for member, data in members(content) if member != name]
    return archived([*other, (name, npy(np.zeros(BOMB // 8)))], zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize("name", ["extra.npy", "mean.npy", "header.npy"])
@pytest.mark.parametrize("read", READERS[:2])
def test_a_small_file_cannot_fill_the_memory(path, content, name, read):
    path.write_bytes(bomb_of(content, name))
    assert path.stat().st_size < MEGABYTE
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=r"model.npz(.|\n)*compressed"):
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTE


def test_a_member_that_announces_a_large_array_is_refused(path, content):
    header = npy(np.zeros(3)).replace(b"(3,), }" + 10 * b" ", b"(3000000000,), } ")
    assert b"3000000000" in header
    path.write_bytes(archived([*[m for m in members(content) if m[0] != "mean.npy"], ("mean.npy", header)]))
    with pytest.raises(FileFormatError, match=r"mean.npy does not have the size that its shape \(3000000000,\) needs"):
        load_model(path)


def test_members_that_lie_over_each_other_are_refused(path, content):
    directory = content.index(b"PK\x01\x02")
    for field in (20, 24):  # sizes in the directory, as if a member went on through the others
        content = content[: directory + field] + (len(content)).to_bytes(4, "little") + content[directory + field + 4 :]
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="lie over each other"):
        load_model(path)


def test_two_members_of_one_name_are_refused(path, content):
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = archived([*members(content), ("mean.npy", npy(np.zeros(7)))])
    path.write_bytes(twice)
    with pytest.raises(FileFormatError, match="the same name"):
        load_model(path)


# Damage


def test_a_file_is_not_compressed(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}


def test_a_shorter_shape_in_the_header_of_a_member_is_noticed(path, content):
    place = content.index(b"(7, 3)")
    path.write_bytes(content[:place] + b"(6, 3)" + content[place + 6 :])
    with pytest.raises(FileFormatError, match="CRC"):
        load_model(path)


def test_numbers_in_the_byte_order_of_another_machine_are_read(path, content):
    header, arrays = unpacked(content)
    path.write_bytes(packed(header, {name: array.astype(">f8") for name, array in arrays.items()}))
    model = load_model(path)
    for name, array in arrays.items():
        assert getattr(model, name).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "", "null", "\0"]
)
def test_a_header_that_is_no_object_is_refused(path, content, text):
    path.write_bytes(packed(text, unpacked(content)[1]))
    with pytest.raises(FileFormatError, match=r"model.npz was not written by probpca"):
        load_model(path)
