"""Every field of a model file has a type, a shape and a range; a file that does not keep to them says which field."""

import re

import numpy as np
import pytest

from forged_models import FITS, fitted, packed, unpacked, with_field, written
from probpca import FileFormatError
from probpca.models import load_model
from probpca.models.schema import KINDS, check_record, each, entries, names, number, one_of, row, whole

NAN = float("nan")
WHOLE = r"below 2\*\*63 if it is whole"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The class and the bytes of the file of every estimator, by name."""
    path = tmp_path_factory.mktemp("files") / "model.npz"
    estimators = {name: fitted(name) for name in FITS}
    return {name: (type(estimator), written(estimator, path)) for name, estimator in estimators.items()}


def refusal(kind, content, path, load=None):
    """What the error says that reading these bytes raises; it begins with the name of the file."""
    path.write_bytes(content)
    with pytest.raises(FileFormatError) as caught:
        (load or kind.from_file)(path)
    said = str(caught.value)
    assert said.startswith(f"{path} ")
    assert "; got " in said or "but they do not agree" in said
    assert "Hint: " in said
    return said


@pytest.mark.parametrize(
    ("field", "value", "needed"),
    [
        ("fitted.n_features_in_", NAN, "a whole number from 1 on; got nan"),
        ("fitted.n_features_in_", "x", "a whole number from 1 on; got 'x'"),
        ("fitted.n_features_in_", True, "a whole number from 1 on; got True"),
        ("fitted.n_samples_", -1, rf"a finite number from 2.22507e-308 on, {WHOLE}; got -1"),
        ("fitted.n_observed_", "x", rf"a finite number from 2.22507e-308 on, {WHOLE}; got 'x'"),
        ("fitted.n_iter_", 1.5, "a whole number from 0 on; got 1.5"),
        ("fitted.log_likelihood_", float("inf"), rf"a finite number, {WHOLE}, or NaN; got inf"),
        ("fitted.log_likelihood_", 10**30, rf"a finite number, {WHOLE}, or NaN; got 10000"),
        ("fitted.status", "DONE", "one of EXACT, CONVERGED, .*; got 'DONE'"),
        ("fitted.draw_seed_", 2**63, "a whole number from 0 to 9223372036854775807 or null; got 9223372036854775808"),
        ("fitted.notes_", [1], r"a list, each text; got \[1\]"),
        ("fitted", 5, "an object; got 5"),
        ("feature_names", 5, "a list of d distinct names, or null; got 5"),
        ("feature_names", ["a", "a", "b", "c", "d"], "a list of d distinct names, or null; got"),
        ("feature_names", ["a", 2, "b", "c", "d"], "a list of d distinct names, or null; got"),
        ("parameters", [], "an object of numbers, .*; got"),
        ("kind", "Tree", "one of LinearGaussian, .*; got 'Tree'"),
    ],
)
def test_an_entry_of_the_header_that_is_wrong_is_named(files, tmp_path, field, value, needed):
    kind, content = files["PPCA, missing cells"]
    header, arrays = unpacked(content)
    said = refusal(kind, packed(with_field(header, field.split("."), value), arrays), tmp_path / "model.npz")
    assert re.search(f"{field} must be {needed}", said)


def test_names_must_be_as_many_as_features(files, tmp_path):
    kind, content = files["PPCA, missing cells"]
    header, arrays = unpacked(content)
    said = refusal(kind, packed({**header, "feature_names": ["a"]}, arrays), tmp_path / "model.npz")
    assert "feature_names must have 5 entries; got 1" in said


def test_the_number_of_features_must_be_that_of_the_model(files, tmp_path):
    kind, content = files["PPCA, missing cells"]
    header, arrays = unpacked(content)
    forged = packed(with_field(header, ("fitted", "n_features_in_"), 3), arrays)
    assert "loadings must have shape (3, q); got (5, 2)" in refusal(kind, forged, tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("name", "value", "needed"),
    [
        ("tol", -1, "'tol' parameter of PPCA must be a float in the range"),
        ("max_iter", "many", "'max_iter' parameter of PPCA must be an int in the range"),
        ("solver", 5, "'solver' parameter of PPCA must be a str among"),
        ("random_state", 2**32, "'random_state' parameter of PPCA must be an int in the range"),
        ("n_jobs", 0, "'n_jobs' parameter of PPCA must be an int in the range"),
        ("taste", 5, "the parameters must be bias_correction, .*; got .*, taste"),
    ],
)
def test_a_parameter_that_a_fit_would_refuse_is_refused(files, tmp_path, name, value, needed):
    kind, content = files["PPCA"]
    header, arrays = unpacked(content)
    header["parameters"][name] = value
    path = tmp_path / "model.npz"
    path.write_bytes(packed(header, arrays))
    with pytest.raises(FileFormatError, match=rf"model.npz holds no valid model: .*{needed}"):
        kind.from_file(path)


@pytest.mark.parametrize(
    ("name", "change", "needed"),
    [
        ("mean", lambda a: a.astype(complex), "hold float64 numbers; got complex128"),
        ("mean", lambda a: a.astype("datetime64[s]"), r"hold float64 numbers; got datetime64\[s\]"),
        ("mean", lambda a: a[:-1], r"have shape \(5\); got \(4,\)"),
        ("noise_variance", lambda a: 0 * a + 5e-324, "be at least 2.2.*e-308 and finite; got numbers from 4.9.*e-324"),
        ("information_", lambda a: a[:, :3], r"have shape \(6, 5\) or \(6, 1\); got \(6, 3\)"),
        ("information_", lambda a: a * np.nan, "be finite; got numbers from nan"),
        ("information_", lambda a: -a, "be packed matrices, each zero or positive definite; got other numbers"),
        ("empty_features_", lambda _: np.array([99]), "be from 0 to 4; got numbers from 99 to 99"),
        ("empty_features_", lambda _: np.array([3, 1]), "be increasing; got other numbers"),
        ("calibration_", lambda _: np.array([-1.0, 1.0, 0.0]), "be at least 0; got numbers from -1"),
        ("calibration_", lambda _: np.array([1.0, 5e-324, 0.0]), "be scale, degrees and share of a calibration"),
        ("calibration_", lambda _: np.array([1.0, 1.0, 2.0]), "be scale, degrees and share of a calibration"),
        ("draws_loadings", lambda a: a[:1], r"have shape \(2, 5, 2\); got \(1, 5, 2\)"),
    ],
)
@pytest.mark.parametrize("load", [None, load_model], ids=["from_file", "load_model"])
def test_an_array_that_is_wrong_is_named(files, tmp_path, name, change, needed, load):
    kind, content = files["PPCA, missing cells"]
    header, arrays = unpacked(content)
    said = refusal(kind, packed(header, {**arrays, name: change(arrays[name])}), tmp_path / "model.npz", load)
    assert re.search(f"{name} must {needed}", said)


@pytest.mark.parametrize(
    ("case", "name", "change", "law"),
    [
        ("PPCA, standardize", "scale_", lambda a: a * np.arange(1, 6), "noise_variance must be a multiple of"),
        ("PPCA, empty column", "empty_features_", lambda a: a[:0], "information_ must be zero for empty_features_"),
        ("BayesianPCA", "empty_features_", lambda _: np.array([1]), "covariance must be zero for empty_features_"),
        ("PPCAImputer", "kept", lambda a: np.arange(len(a)), "kept and empty must contain every column once"),
        ("PPCAImputer", "upper", lambda a: np.full_like(a, -100.0), "lower must not exceed upper"),
        ("PPCA", "mean", lambda a: a + 1e200, "mean must lie within 1e+150 standard deviations of the noise"),
        ("PPCA", "noise_variance", lambda a: a + 1e308, "noise_variance must have a finite sum"),
        ("PPCA, missing cells", "draws_mean", lambda a: a - 1e200, "draws_mean must lie within 1e+150 standard"),
        ("PPCA, standardize", "scale_", lambda a: a + 1e308, "noise_variance must be a multiple of"),
        ("LinearDynamicalSystem", "initial_mean", lambda a: a + 1e200, "initial_mean and last_mean, times loadings"),
        ("LinearDynamicalSystem", "last_mean", lambda a: a - 1e308, "initial_mean and last_mean, times loadings"),
        ("LinearDynamicalSystem", "empty_features_", lambda _: np.array([1]), "must be the features whose counts are"),
        ("LinearDynamicalSystem", "counts", lambda a: a + 1, "must describe the same sequences"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(files, tmp_path, case, name, change, law):
    kind, content = files[case]
    header, arrays = unpacked(content)
    assert law in refusal(kind, packed(header, {**arrays, name: change(arrays[name])}), tmp_path / "model.npz")


def test_an_array_without_its_partner_is_refused(files, tmp_path):
    kind, content = files["LinearDynamicalSystem, inputs"]
    header, arrays = unpacked(content)
    for name in ("input_loadings", "last_inputs"):
        forged = packed(header, {key: value for key, value in arrays.items() if key != name})
        assert "last_inputs" in refusal(kind, forged, tmp_path / "model.npz")


def test_every_array_of_every_table_is_in_some_file(files):
    """A row of a table that no file needs would never be tested; rows of PPCA are those of PPCAImputer too."""
    seen = {}
    for _, content in files.values():
        header, arrays = unpacked(content)
        check_record(header, arrays)
        seen.setdefault(header["kind"], set()).update(arrays)
    for kind, found in seen.items():
        rest = {name for name in KINDS[kind].arrays if not name.startswith("parameter_")} - found
        assert rest <= (seen["PPCA"] if kind == "PPCAImputer" else set()), kind


@pytest.mark.parametrize(
    ("value", "good", "bad"),
    [
        (whole(1, 3), [1, 3], [0, 4, 1.0, True, "1", None, NAN, 10**400]),
        (number(0), [0, 0.5, 1e308, 2**63 - 1], [-1, NAN, float("inf"), 2**63, 10**400, False, "0", None]),
        (number(nan=True), [NAN, -1], [float("inf"), None, "nan", 10**400]),
        (each(whole()), [[], [1, 2]], [[1, "a"], {}, None, "ab"]),
        (row(whole(), number()), [[1, 0.5]], [[1], [1, 2, 3], [0.5, 1], {}]),
        (entries(a=whole()), [{"a": 1}], [{}, {"a": "x"}, {"a": 1, "b": 2}, [1]]),
        (one_of(whole(), entries()), [1, {}], [None, "x"]),
        (names("d"), [None, ["a", "b"]], [["a", "a"], ["a", 1], "ab", []]),
    ],
    ids=lambda value: getattr(value, "words", ""),
)
def test_a_value_is_allowed_if_and_only_if_its_words_say_so(value, good, bad):
    assert all(map(value.allows, good))
    assert not any(map(value.allows, bad))
