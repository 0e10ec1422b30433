"""Rows in Dask: the same answers, wherever they are computed and whoever dies meanwhile."""

import os
import signal
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from interruptions import disturbed
from probpca import PPCA, DataError, FactorAnalysis, ShapeError, SourceError
from probpca.blocks import Block, observe
from probpca.inference import outliers
from probpca.inference.likelihood import log_likelihood
from probpca.inference.posteriors import posterior_mean
from probpca.learning.em.e_step import expect
from probpca.models import LinearGaussian
from probpca.sources import open_source
from probpca.sources.engines.dask import open_dask
from probpca.sources.engines.local import resolve_jobs
from probpca.sources.open import is_dask
from probpca.statistics import ColumnSummary, Moments, Root, Stack

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:distributed", "ignore::ResourceWarning")

N, D, Q = 3000, 7, 2
RNG = np.random.default_rng(11)
LOADINGS = RNG.standard_normal((D, Q))
# Whole numbers: float32 and integers hold the same values.
ROWS = np.round(8 * (RNG.standard_normal((N, Q)) @ LOADINGS.T + 0.4 * RNG.standard_normal((N, D)) + 1))
HOLEY = np.where(RNG.random((N, D)) < 0.2, np.nan, ROWS)
MODEL = LinearGaussian(ROWS.mean(axis=0), 8 * LOADINGS, 10.0)
NAMES = list("abcdefg")


def some_parts_empty(rows):
    frame = dd.from_pandas(pd.DataFrame(rows, columns=NAMES).assign(part=np.arange(len(rows)) // 100), npartitions=30)
    return dd.concat([frame[frame.part < 0], frame, frame[frame.part < 0]]).drop(columns="part")


def nullable(rows):
    frame = pd.DataFrame(rows, columns=NAMES).astype("Int64")
    return dd.from_pandas(frame.assign(b=frame.b.astype("Float64"), c=frame.c.astype("int64[pyarrow]")), npartitions=3)


SOURCES = {
    "array": lambda rows: da.from_array(rows, chunks=(700, D)),
    "array cut by columns": lambda rows: da.from_array(rows, chunks=(700, 3)),
    "one chunk": lambda rows: da.from_array(rows, chunks=-1),
    "many chunks": lambda rows: da.from_array(rows, chunks=(50, D)),
    "float32": lambda rows: da.from_array(rows.astype(np.float32), chunks=(700, D)),
    "unknown lengths": lambda rows: da.from_array(rows, chunks=(700, D))[da.ones(len(rows), chunks=700) > 0],
    "dataframe": lambda rows: dd.from_pandas(pd.DataFrame(rows, columns=NAMES), npartitions=4),
    "dataframe of float32": lambda rows: dd.from_pandas(pd.DataFrame(rows.astype(np.float32)), npartitions=4),
    "nullable columns": nullable,
    "some parts empty": some_parts_empty,
    "delayed blocks": lambda rows: [dask.delayed(part) for part in np.array_split(rows, 5)],
    "delayed, some empty": lambda rows: [dask.delayed(rows[a:b]) for a, b in [(0, 0), (0, 9), (9, 9), (9, N), (N, N)]],
}


@pytest.fixture(params=SOURCES.values(), ids=SOURCES)
def collection(request):
    return request.param


@pytest.fixture
def source(collection):
    with dask.config.set(scheduler="threads"):
        yield open_dask(collection(ROWS))


@pytest.fixture(params=["threads", "cluster"])
def engine(request):
    if request.param == "threads":
        with dask.config.set(scheduler="threads"):
            yield
    else:
        yield request.getfixturevalue("client")


def assert_same_model(found, wanted, tol):
    assert_allclose(found.loadings_, wanted.loadings_, atol=tol * np.abs(wanted.loadings_).max())
    assert_allclose(found.mean_, wanted.mean_, rtol=tol)
    assert_allclose(found.noise_variance_, wanted.noise_variance_, rtol=tol)
    assert_allclose(found.log_likelihood_, wanted.log_likelihood_, rtol=tol)
    assert (found.scale_ is None) == (wanted.scale_ is None)
    if wanted.scale_ is not None:
        assert_allclose(found.scale_, wanted.scale_, rtol=tol)


def same_fit(rows, source, **settings):
    """The fit to Dask rows, after comparing it to those of batches and of the array."""
    settings = {"n_components": Q, "random_state": 0, "tol": 1e-9, **settings}
    found = PPCA(**settings).fit(source)
    # The same way there, up to what a line search makes of the rounding of other cuts near a flat maximum; that of
    # rows in memory has another start, where cells are missing.
    searched = settings.get("solver") == "gradient" and np.isnan(rows).any()
    assert_same_model(found, PPCA(**settings).fit(open_source(np.array_split(rows, 3))), 1e-7 if searched else 1e-9)
    local = PPCA(**settings).fit(rows)
    assert_same_model(found, local, 1e-7 if np.isnan(rows).any() else 1e-9)
    return local, found


def test_a_fold_equals_the_summary_of_one_block(source):
    moments, whole = source.fold(Moments.of), Moments.of(Block(ROWS))
    assert (moments.weight, moments.count) == (N, N)
    assert_allclose(moments.mean, whole.mean, rtol=1e-7 if source.single_precision else 1e-12)
    assert_allclose(moments.scatter, whole.scatter, rtol=1e-6 if source.single_precision else 1e-11)
    assert_allclose(source.fold(ColumnSummary.of).squares, np.diag(whole.scatter), rtol=1e-6)
    factor = source.fold(Root.of).factor
    assert_allclose(factor.T @ factor, whole.scatter, atol=1e-9 * whole.scatter.max())


def moments_with(centre, block):
    return Moments.of(replace(block, values=block.values - centre[: block.n_features]))


@pytest.mark.parametrize("size", [D, 2**18])
def test_a_function_may_be_large(source, size):
    """Small functions go with every task, large ones once."""
    moments = source.fold(partial(moments_with, np.ones(size)))
    assert_allclose(moments.mean, ROWS.mean(axis=0) - 1, rtol=1e-6)


def test_a_fold_keeps_the_order_of_the_rows(source):
    stack = source.fold(Stack.of)
    assert_array_equal(np.hstack([stack.panel(columns, np.float64).copy() for columns in stack.panels()]), ROWS)


def test_a_fold_is_the_same_to_the_last_bit_each_time(source):
    first = source.fold(partial(expect, MODEL))
    for name in first.__slots__:
        assert_array_equal(getattr(source.fold(partial(expect, MODEL)), name), getattr(first, name))


def test_prepared_blocks_are_kept(source, tmp_path):
    def prepare(block):
        with (tmp_path / "calls").open("a") as file:
            file.write("x")
        return Block(block.values + 1.0)

    kept = source.keep(prepare)
    calls = (tmp_path / "calls").read_text()
    for _ in range(3):
        assert_allclose(kept.fold(Moments.of).mean, ROWS.mean(axis=0) + 1, rtol=1e-6)
    assert (tmp_path / "calls").read_text() == calls
    assert_array_equal(kept.keep(prepare).map(lambda block: block.values).compute(), ROWS + 2)


def test_what_was_prepared_can_be_mapped(source):
    observed = source.keep(partial(observe, centre=np.zeros(D), keep_empty=True))
    assert observed.starts_incomplete()  # it is not known otherwise
    counts = observed.map(lambda rows: np.concatenate([group.observed for group in rows.groups] or [np.zeros(0)]))
    assert_array_equal(counts.compute(), np.full(N, D))


def test_a_map_is_a_dask_array_in_the_order_of_the_rows(source):
    scores = source.map(partial(log_likelihood, MODEL))
    assert isinstance(scores, da.Array)
    assert scores.ndim == 1
    assert_allclose(scores.compute(), log_likelihood(MODEL, ROWS), rtol=1e-9)
    latent = source.map(partial(posterior_mean, MODEL))
    assert latent.shape[1] == Q
    assert_allclose(latent.compute(), posterior_mean(MODEL, ROWS), atol=1e-6 if source.single_precision else 1e-9)


def test_a_map_of_several_arrays_is_as_many_dask_arrays(source):
    found, wanted = source.map(partial(outliers, MODEL)), outliers(MODEL, ROWS)
    assert type(found) is type(wanted)
    assert found.note == wanted.note  # the same for all rows
    arrays = [k for k, part in enumerate(wanted) if isinstance(part, np.ndarray)]
    assert len(arrays) == len(wanted) - 2  # all but the note and the names
    for mine, right in zip(dask.compute(*(found[k] for k in arrays)), (wanted[k] for k in arrays), strict=True):
        assert mine.dtype == right.dtype
        assert_allclose(mine, right, rtol=1e-9, atol=1e-9)


def test_p_values_are_calibrated_by_a_sample_whatever_the_chunks():
    x = np.random.default_rng(0).standard_t(6, (6000, 1)) * np.random.default_rng(1).standard_normal((6000, D))
    fits = [PPCA(Q).fit(da.from_array(x, chunks=(rows, D))) for rows in (500, 1700)]
    first, second = (fit.calibration_ for fit in fits)
    assert not first.obstacle
    assert_allclose([first.scale, first.degrees], [second.scale, second.degrees], rtol=1e-6)
    found, wanted = fits[0].outliers(da.from_array(x), training=True), fits[0].outliers(x, training=True)
    assert found.note == wanted.note
    assert_allclose(found.p_value.compute(), wanted.p_value, rtol=1e-9)


def test_p_values_are_calibrated_with_the_rows_that_a_table_in_memory_would_use():
    x = np.random.default_rng(0).standard_t(6, (6000, 1)) * np.random.default_rng(1).standard_normal((6000, D))
    mine, local = (PPCA(Q).fit(rows).calibration_ for rows in (da.from_array(x, chunks=(1700, D)), x))
    assert_allclose([mine.scale, mine.degrees], [local.scale, local.degrees], rtol=1e-9)


def test_lengths_are_known_where_dask_knows_them(source):
    known = source.n_rows is not None
    assert source.n_rows in (N, None)
    assert source.n_stored == (N * D if known else None)
    assert source.map(partial(log_likelihood, MODEL)).shape == pytest.approx((N if known else np.nan,), nan_ok=True)
    by_part = source.map(lambda block: np.array([block.is_complete]))  # not an answer for each row
    assert np.isnan(by_part.shape[0])
    assert by_part.compute().tolist() == [True] * len(source.engine.parts)
    assert source.scaled(np.full(D, 2.0)).map(partial(log_likelihood, MODEL)).compute().shape == (N,)


def test_a_source_says_what_it_is(source, collection, request):
    assert is_dask(collection(ROWS))
    assert source.n_features == D
    assert source.repeatable
    assert not source.in_memory
    assert not source.starts_incomplete()
    assert source.single_precision == ("float32" in request.node.callspec.id)
    assert source.columns in (None, tuple(NAMES), tuple(map(str, range(D))))


def test_rows_in_a_cluster_are_not_read_here():
    source = open_dask(da.from_array(ROWS, chunks=(700, D)))
    for read in (source.hold, partial(source.answers, Moments.of), partial(source.scaled(np.ones(D)).answers, np.mean)):
        with pytest.raises(SourceError, match="rows in Dask cannot be read block by block"):
            read()


def test_what_dask_does_not_hold_is_left_to_others():
    for rows in (ROWS, [ROWS], [], iter([ROWS]), pd.DataFrame(ROWS), "rows.npy", None):
        assert not is_dask(rows)


@pytest.mark.parametrize("rows", [ROWS, HOLEY], ids=["complete", "missing"])
def test_a_fit_equals_that_of_the_array(collection, rows):
    with dask.config.set(scheduler="threads"):
        source = open_dask(collection(rows))
        same_fit(rows.astype(np.float32) if source.single_precision else rows, source)


@pytest.mark.parametrize("rows", [ROWS, HOLEY], ids=["complete", "missing"])
@pytest.mark.parametrize("solver", ["auto", "px_em", "gradient"])
@pytest.mark.usefixtures("engine")
def test_any_solver_and_any_engine_lead_there(rows, solver):
    same_fit(rows, open_dask(da.from_array(rows, chunks=(500, 3))), solver=solver)


def to_the_last_digit(rows):
    """A fit that goes on for as many steps as it may: what gains in nats can tell ends it at half of the digits."""
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        return PPCA(Q, random_state=0, tol=0, max_iter=40).fit(rows)


@pytest.mark.parametrize("chunk", [50, 700, N])
@pytest.mark.usefixtures("engine")
def test_the_maximum_is_that_of_rows_in_memory_where_cells_are_missing(chunk):
    found, wanted = to_the_last_digit(open_dask(da.from_array(HOLEY, chunks=(chunk, D)))), to_the_last_digit(HOLEY)
    scale = np.abs(wanted.get_covariance()).max()
    assert_allclose(found.get_covariance(), wanted.get_covariance(), rtol=1e-9, atol=1e-9 * scale)
    assert_allclose(found.mean_, wanted.mean_, rtol=1e-9)
    assert_allclose(found.noise_variance_, wanted.noise_variance_, rtol=1e-9)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("rows", [ROWS, HOLEY], ids=["complete", "missing"])
@pytest.mark.usefixtures("engine")
def test_factor_analysis_equals_that_of_the_array(rows):
    settings = {"n_components": Q, "rotation": "varimax", "random_state": 0, "tol": 1e-9}
    found = FactorAnalysis(**settings).fit(da.from_array(rows, chunks=(700, D)))
    batches = FactorAnalysis(**settings).fit(open_source(np.array_split(rows, 3)))
    complete = not np.isnan(rows).any()
    assert_same_model(found, batches, 1e-10 if complete else 1e-6)  # steps are extrapolated, with their rounding
    local = FactorAnalysis(**settings).fit(rows)
    assert_same_model(found, local, 1e-10 if complete else 1e-4)  # rows in memory have another start
    scores = found.transform(da.from_array(rows, chunks=(500, D))).compute()
    assert_allclose(scores, found.transform(rows), rtol=1e-10, atol=1e-10)


def test_units_of_columns_do_not_matter_to_a_standardized_fit():
    for rows in (ROWS, HOLEY):
        same_fit(rows, open_dask(da.from_array(rows, chunks=(500, 3))), standardize=True)


@pytest.mark.usefixtures("engine")
def test_gaps_may_start_after_the_first_part():
    rows = np.vstack([ROWS, HOLEY])
    same_fit(rows, open_dask(da.from_array(rows, chunks=(1000, D))))


@pytest.mark.usefixtures("engine")
def test_integers_are_numbers():
    same_fit(ROWS, open_dask(da.from_array(ROWS.astype(np.int32), chunks=(900, D))))


@pytest.mark.usefixtures("engine")
def test_questions_about_rows_are_answered_by_the_workers():
    source = open_dask(da.from_array(HOLEY, chunks=(500, D)))
    local, found = same_fit(HOLEY, source)
    for method in ("transform", "score_samples", "reconstruct", "impute"):
        answer = getattr(found, method)(source)
        assert isinstance(answer, da.Array)
        right = getattr(local, method)(HOLEY)
        assert answer.shape == right.shape
        assert_allclose(answer.compute(), right, rtol=1e-6, atol=1e-6)
    std = found.impute(source, return_std=True)[1]
    assert_allclose(std.compute(), local.impute(HOLEY, return_std=True)[1], rtol=1e-6)


def test_jobs_are_the_threads_of_the_workers(client):
    rows = da.from_array(ROWS, chunks=(500, D))
    assert open_dask(rows).n_jobs == sum(client.nthreads().values()) == 2
    assert open_dask(rows, n_jobs=5).n_jobs == 5


def test_without_a_cluster_jobs_are_the_threads_of_this_process(monkeypatch):
    monkeypatch.setattr("distributed.default_client", lambda: (_ for _ in ()).throw(ValueError))
    assert open_dask(da.ones((9, 3))).n_jobs == resolve_jobs(None)


@pytest.mark.usefixtures("engine")
def test_workers_run_blas_in_one_thread():
    def threads(_):
        from threadpoolctl import threadpool_info  # noqa: PLC0415

        return np.array([lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"])

    assert (open_dask(da.from_array(ROWS, chunks=(500, D))).map(threads).compute() == 1).all()


def test_columns_of_both_precisions_are_read_in_the_higher_one():
    rows = ROWS / 3
    frame = pd.DataFrame(rows, columns=NAMES).astype({"a": np.float32})
    source = open_dask(dd.from_pandas(frame, npartitions=2))
    assert not source.single_precision
    assert_allclose(source.fold(Moments.of).mean[1:], rows.mean(axis=0)[1:], rtol=1e-12)


def test_a_column_that_holds_no_numbers_is_named():
    frame = dd.from_pandas(pd.DataFrame(ROWS, columns=NAMES).assign(e="text"), npartitions=2)
    with pytest.raises(DataError, match="column 'e' has dtype"):
        open_dask(frame)


TEXTS = ["0.5", "1_000", "1,5", "word"]


def spoiled(cell):
    """Rows as objects with one cell of another kind, in row 2 and column 3 of the second partition."""
    rows = ROWS[1000:2000].astype(object)
    rows[2, 3] = cell
    return rows


def announced(rows):
    """A Dask array of what Dask takes for floats, whatever it is."""
    return da.from_delayed(dask.delayed(rows), rows.shape, float)


def frames(rows):
    """The first partition of numbers, and a second one of whatever the rows are."""
    return [dask.delayed(pd.DataFrame(part, columns=NAMES)) for part in (ROWS[:1000], rows)]


LIARS = {
    "array": lambda rows: da.concatenate([da.from_array(ROWS[:1000], chunks=-1), announced(rows)]),
    "array cut by columns": lambda rows: da.block(
        [
            [da.from_array(ROWS[:1000, :2]), da.from_array(ROWS[:1000, 2:])],
            [announced(rows[:, :2]), announced(rows[:, 2:])],
        ]
    ),
    "dataframe": lambda rows: dd.from_delayed(
        frames(rows), meta=pd.DataFrame(ROWS[:0], columns=NAMES), verify_meta=False
    ),
    "delayed matrices": lambda rows: [dask.delayed(ROWS[:1000]), dask.delayed(rows)],
    "delayed dataframes": frames,
}
PLACES = [
    "row 2, column 3",
    "begins at column 2: .*row 2, column 1",
    "column 'd'.*row 2",
    "row 2, column 3",
    "column 'd'.*row 2",
]


@pytest.mark.parametrize("cell", [*TEXTS, b"1", 1j, np.datetime64("2026-01-31"), date(2026, 1, 31)], ids=str)
@pytest.mark.parametrize(("liar", "place"), list(zip(LIARS.values(), PLACES, strict=True)), ids=LIARS)
def test_a_cell_that_is_no_number_is_named_with_its_column_and_partition(liar, place, cell):
    words = rf"partition 1\b.*{place}(?s:.*)Hint"
    with dask.config.set(scheduler="threads"), pytest.raises(DataError, match=words):
        PPCA(Q).fit(liar(spoiled(cell)))


@pytest.mark.parametrize("liar", LIARS.values(), ids=LIARS)
@pytest.mark.parametrize("kind", [str, "datetime64[D]", complex])
@pytest.mark.usefixtures("engine")
def test_a_partition_without_numbers_is_named(liar, kind):
    with pytest.raises(DataError, match=r"partition 1\b(?s:.*)Hint"):
        PPCA(Q).fit(liar(ROWS[1000:2000].astype(int).astype(kind)))


def test_the_first_of_delayed_blocks_is_checked_too():
    with pytest.raises(DataError, match=r"partition 0: (?s:.*)'1_000'"):
        PPCA(Q).fit([dask.delayed(spoiled("1_000")), dask.delayed(ROWS)])


WORDS = {
    "array": "partition 1: cells must be numbers, because Dask announces float64; got an array of bool",
    "array cut by columns": "partition 1, in the chunk that begins at column [02]: cells .* got an array of bool",
    "dataframe": "partition 1: cells must be .* Dask announces float64; got column 'a' of bool",
}


@pytest.mark.parametrize(("liar", "words"), [(LIARS[name], words) for name, words in WORDS.items()], ids=WORDS)
@pytest.mark.usefixtures("engine")
def test_truth_values_where_numbers_were_announced_are_named(liar, words):
    with pytest.raises(DataError, match=rf"{words}.*truth values(?s:.*)Hint: .*astype"):
        PPCA(Q).fit(liar(ROWS[1000:2000] > 0))


@pytest.mark.parametrize("kind", ["boolean", "bool[pyarrow]"])
def test_one_column_of_truth_values_is_named_too(kind):
    parts = [pd.DataFrame(rows, columns=NAMES) for rows in (ROWS, ROWS[:9])]
    parts[1] = parts[1].assign(e=ROWS[:9, 4] > 0).astype({"e": kind})[NAMES[::-1]]
    frame = dd.from_delayed(list(map(dask.delayed, parts)), meta=parts[0][:0], verify_meta=False)
    with pytest.raises(DataError, match=r"partition 1: .*column 'e' of bool"):
        PPCA(Q).fit(frame)


@pytest.mark.parametrize("form", ["array", "array cut by columns", "dataframe", "delayed blocks", "some columns"])
def test_truth_values_that_are_announced_are_zeros_and_ones(form):
    truth = ROWS > 0
    if form == "some columns":
        table = dd.from_pandas(pd.DataFrame(ROWS, columns=NAMES).assign(b=truth[:, 1]), npartitions=3)
        wanted = ROWS.copy()
        wanted[:, 1] = truth[:, 1]
    else:
        table, wanted = SOURCES[form](truth), truth.astype(float)
    found = open_dask(table).fold(Moments.of)
    assert_allclose(found.mean, wanted.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("liar", LIARS.values(), ids=LIARS)
def test_objects_that_are_numbers_are_read_as_in_memory(liar):
    rows = ROWS[1000:2000].astype(object)
    rows[5], rows[6, 2], rows[7, 2] = np.arange(D) > 2, None, Fraction(1, 2)  # truth values are 0 and 1
    wanted = open_source(np.vstack([ROWS[:1000], rows])).fold(ColumnSummary.of)
    with dask.config.set(scheduler="threads"):
        found = open_dask(liar(rows)).fold(ColumnSummary.of)
    assert_array_equal(found.observed, wanted.observed)
    assert_allclose(found.mean, wanted.mean, rtol=1e-12)
    assert_allclose(found.squares, wanted.squares, rtol=1e-12)


def test_delayed_dataframes_are_joined_by_the_names_of_their_columns():
    turned = pd.DataFrame(ROWS[1000:], columns=NAMES)[NAMES[::-1]]
    source = open_dask([dask.delayed(pd.DataFrame(ROWS[:1000], columns=NAMES)), dask.delayed(turned)])
    assert source.columns == tuple(NAMES)
    assert_allclose(source.fold(Moments.of).mean, ROWS.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (lambda: da.ones(5), ShapeError, r"matrix \(n, d\)"),
        (lambda: da.ones((5, 2, 2)), ShapeError, r"matrix \(n, d\)"),
        (lambda: da.ones((5, 2), dtype=complex), DataError, "complex128"),
        (lambda: dd.from_pandas(pd.Series([1.0, 2.0]), npartitions=1), SourceError, "got Series"),
        (lambda: dask.delayed(ROWS), SourceError, "list of delayed"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(rows, error, words):
    with pytest.raises(error, match=words):
        open_dask(rows())


@pytest.mark.usefixtures("engine")
def test_blocks_of_different_widths_are_refused():
    source = open_dask([dask.delayed(ROWS), dask.delayed(ROWS[:, :3])])
    with pytest.raises(ShapeError, match="every block must have 7 columns, like the first; got 3"):
        source.fold(Moments.of)


@pytest.mark.usefixtures("engine")
def test_infinity_is_found_by_the_workers():
    rows = ROWS.copy()
    rows[1700, 2] = np.inf
    with pytest.raises(DataError, match="infinity"):
        PPCA(Q).fit(open_dask(da.from_array(rows, chunks=(500, D))))


def killing_once(flag):
    """A function that kills its process when it is called for the first time."""

    def kill():
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


@pytest.mark.parametrize("rows", [ROWS, HOLEY], ids=["complete", "missing"])
def test_the_death_of_a_worker_changes_nothing(client, tmp_path, rows):
    settings = {"n_components": Q, "random_state": 0, "tol": 1e-8}
    array = da.from_array(rows, chunks=(250, D))
    calm = PPCA(**settings).fit(open_dask(array))
    before = client.run(os.getpid)
    deadly = killing_once(tmp_path / "killed")
    found = PPCA(**settings).fit(disturbed(open_dask(array), deadly, fold=1 if rows is ROWS else 3))
    client.wait_for_workers(2, timeout=60)
    assert (tmp_path / "killed").exists()
    assert set(client.run(os.getpid).values()) != set(before.values())
    assert_allclose(found.loadings_, calm.loadings_, rtol=1e-12, atol=1e-12 * np.abs(calm.loadings_).max())
    assert_allclose(found.noise_variance_, calm.noise_variance_, rtol=1e-12)
    assert found.trace_ == pytest.approx(calm.trace_, rel=1e-12)


@pytest.mark.parametrize("missing", [False, True])
def test_a_standardized_fit_of_single_precision_is_that_of_the_same_numbers(missing):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((90, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((90, 5))
    x = (x + 1e6).astype(np.float32)
    if missing:
        x[rng.random(x.shape) < 0.1] = np.nan
    single, double = (
        PPCA(2, standardize=True, random_state=0).fit(da.from_array(rows, chunks=(30, 5)))
        for rows in (x, x.astype(np.float64))
    )
    assert_allclose(single.get_covariance(), double.get_covariance(), rtol=1e-9)
