"""What was written is read back bit for bit; anything else is refused in plain words."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from oracles import random_model
from probpca import FileFormatError, ProbpcaError
from probpca.models import LinearGaussian, archive as files, load_model, save_model

FIELDS = ("mean", "loadings", "noise_variance")


@pytest.fixture(params=[0.3, "diagonal"], ids=["isotropic", "diagonal"])
def model(request, rng):
    return random_model(rng, noise=request.param)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def stored(model, **changes):
    """The arrays of a valid file, some of them changed or (None) left out."""
    arrays = {
        "header": header(format="probpca", schema=3, kind="LinearGaussian"),
        **{name: getattr(model, name) for name in FIELDS},
        **changes,
    }
    return {name: value for name, value in arrays.items() if value is not None}


def header(**entries):
    return np.array(json.dumps(entries))


@pytest.mark.parametrize("name", ["model.npz", "model", "mödel with spaces.ppca", "a.tar"])
@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
def test_a_model_comes_back_bit_for_bit(model, tmp_path, name, kind):
    path = kind(tmp_path / name)
    save_model(model, path)
    back = load_model(path)
    for field in FIELDS:
        assert getattr(back, field).tobytes() == getattr(model, field).tobytes()
        assert getattr(back, field).shape == getattr(model, field).shape
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("value", [1e-300, 1e-154, 0.1, np.nextafter(1, 2), 1e154])
def test_extreme_numbers_come_back_bit_for_bit(path, value):
    save_model(LinearGaussian([5e-324], [[-value]], value), path)
    assert load_model(path).noise_variance == value
    assert load_model(path).loadings.item() == -value
    assert load_model(path).mean.item() == 5e-324


@pytest.mark.parametrize(
    ("loading", "noise", "message"),
    [(1.0, 5e-324, "noise_variance must be at least 2.2.*e-308"), (1e200, 1.0, "loadings must be from -1e")],
)
def test_a_model_without_finite_answers_is_not_written(path, loading, noise, message):
    with pytest.raises(FileFormatError, match=rf"{path.name} cannot be written(.|\n)*{message}"):
        save_model(LinearGaussian([0.0], [[loading]], noise), path)
    assert not path.exists()


@pytest.mark.parametrize("share", np.linspace(0.0, 0.99, 10).round(2))
def test_a_file_cut_short_is_refused(model, path, share):
    save_model(model, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(FileFormatError, match=re.escape(str(path))):
        load_model(path)


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_are_refused(path, seed):
    path.write_bytes(np.random.default_rng(seed).bytes(2000))
    with pytest.raises(FileFormatError, match="cannot be read as a probpca file"):
        load_model(path)


@pytest.mark.parametrize("seed", range(20))
def test_a_file_with_flipped_bytes_is_refused_or_harmless(model, path, seed):
    save_model(model, path)
    rng, damaged = np.random.default_rng(seed), bytearray(path.read_bytes())
    for place in rng.integers(len(damaged), size=3):
        damaged[place] ^= 0xFF
    path.write_bytes(damaged)
    try:
        back = load_model(path)
    except FileFormatError:
        return
    for field in FIELDS:
        assert_array_equal(getattr(back, field), getattr(model, field))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.ones(3)}, "was not written by probpca"),
        ({"header": header(format="other")}, "was not written by probpca"),
        ({"header": np.array("no json")}, "was not written by probpca"),
        ({"header": header()}, "was not written by probpca"),
        ({"header": np.array("[1, 2]")}, "was not written by probpca"),
        ({"header": np.array("3")}, "was not written by probpca"),
        ({"header": np.array([{"format": "probpca"}], dtype=object)}, "cannot be read.*pickle"),
    ],
)
def test_a_foreign_archive_is_refused(path, arrays, message):
    np.savez(path, **arrays)
    with pytest.raises(FileFormatError, match=message):
        load_model(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean": None}, "holds no valid model: the arrays must include mean; got 'loadings'"),
        ({"loadings": None}, "holds no valid model: the arrays must include loadings; got 'mean'"),
        ({"mean": np.zeros(3)}, "holds no valid model: mean must have shape"),
        (
            {"noise_variance": np.array(-1.0)},
            "holds no valid model: noise_variance must be at least 2.22507e-308 and finite; got numbers from -1 to -1",
        ),
        (
            {"loadings": np.full((7, 3), np.nan)},
            "holds no valid model: loadings must be from -1e\\+154 to 1e\\+154; got numbers from nan to nan",
        ),
        ({"mean": np.array(["a"] * 7)}, "holds no valid model: mean must hold float64 numbers; got <U1"),
        ({"mean": np.array([None] * 7, dtype=object)}, "cannot be read.*pickle"),
        ({"header": header(format="probpca", schema=4)}, "has schema 4; this version reads up to 3.\nHint: upgrade"),
        (
            {"header": header(format="probpca", schema=1)},
            "must have schema 3; got 1, from an earlier.*\nHint: fit again",
        ),
        ({"header": header(format="probpca")}, "must have schema 3; got None"),
        ({"header": header(format="probpca", schema="one")}, "must have schema 3; got 'one'"),
        ({"header": header(format="probpca", schema=True)}, "must have schema 3; got True"),
        ({"header": header(format="probpca", schema=-5)}, "must have schema 3; got -5"),
        ({"header": header(format="probpca", schema=3)}, "kind must be one of LinearGaussian, .*; got None"),
        ({"header": header(format="probpca", schema=3, kind="Tree")}, "kind must be one of .*; got 'Tree'"),
        ({"header": header(format="probpca", schema=3, kind=["PPCA"])}, "kind must be one of"),
        ({"extra": np.ones(3)}, "the arrays must not include 'extra'"),
    ],
)
def test_a_file_with_something_wrong_says_what(model, path, changes, message):
    np.savez(path, **stored(model, **changes))
    with pytest.raises(FileFormatError, match=message):
        load_model(path)


def test_an_unchanged_record_is_a_valid_file(model, path):
    np.savez(path, **stored(model))
    assert_array_equal(load_model(path).loadings, model.loadings)


class Trap:
    """Unpickling it would run code."""

    def __reduce__(self):
        return (pytest.fail, ("code from the file was run",))


@pytest.mark.parametrize("name", ["header", "mean"])
def test_reading_a_file_never_runs_code(model, path, name):
    np.savez(path, **stored(model, **{name: np.array([Trap()], dtype=object)}))
    with pytest.raises(FileFormatError):
        load_model(path)


def test_a_bare_array_or_a_pickle_is_refused(path):
    for write in (lambda file: np.save(file, np.ones(3)), lambda file: np.save(file, np.array([Trap()]))):
        with path.open("wb") as file:
            write(file)
        with pytest.raises(FileFormatError):
            load_model(path)


def test_a_missing_file_is_missing(path):
    with pytest.raises(FileNotFoundError):
        load_model(path)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match="cannot be read"):
        load_model(tmp_path)


def test_writing_into_a_missing_directory_is_an_error_and_makes_nothing(model, tmp_path):
    with pytest.raises(FileNotFoundError):
        save_model(model, tmp_path / "nowhere" / "model.npz")
    assert not list(tmp_path.iterdir())


def test_writing_without_permission_is_an_error_and_leaves_the_old_file(model, path, monkeypatch):
    save_model(model, path)
    before = path.read_bytes()

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", str(path.parent))

    monkeypatch.setattr(files.Path, "open", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        save_model(model, path)
    monkeypatch.undo()
    assert path.read_bytes() == before


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("moment", ["writing", "replacing"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(model, path, monkeypatch, failure, moment):
    save_model(model, path)
    before = path.read_bytes()

    def fail(first, *_, **__):
        if moment == "writing":
            first.write(b"half of it")
        raise failure

    if moment == "writing":
        monkeypatch.setattr(np, "savez", fail)
    else:
        monkeypatch.setattr(files.Path, "replace", fail)
    with pytest.raises(type(failure)):
        save_model(random_model(np.random.default_rng(1)), path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_writing_again_replaces(model, path):
    save_model(random_model(np.random.default_rng(1), d=3, q=1), path)
    save_model(model, path)
    assert_array_equal(load_model(path).loadings, model.loadings)


def test_a_format_error_is_one_of_ours():
    assert issubclass(FileFormatError, ProbpcaError)
