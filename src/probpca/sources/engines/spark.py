"""Rows in a Spark DataFrame, processed by the executors that hold them."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, final
from weakref import finalize

import numpy as np

from probpca.blocks import Block
from probpca.cached_property import cached_property
from probpca.errors import DataError, ProbpcaError, ShapeError
from probpca.sources.engines.cluster_errors import causes, first_line, losses_named, partition_named, refuse
from probpca.sources.engines.local import merged, one_blas_thread, quietly, resolve_jobs
from probpca.sources.source import Info, Source
from probpca.statistics import Sum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from probpca.sources.source import M


def as_list(schema: Any) -> Any:
    """Spark expression for the numbers of a row, from columns, a vector or an array, as an array of doubles."""
    sql = import_module("pyspark.sql.functions")
    numbers = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    cells = [sql.col(f"`{name}`") for name in kinds]
    if list(kinds.values()) == ["vector"]:
        return import_module("pyspark.ml.functions").vector_to_array(*cells)
    if len(cells) == 1 and _item(*kinds.values()) in numbers:
        return cells[0].cast("array<double>")
    for name, kind in kinds.items():
        if kind.split("(")[0] not in numbers:
            msg = f"every column must be numeric; column {name!r} has type {kind}.\nHint: encode or drop it."
            raise DataError(msg)
    return sql.array(*(cell.cast("double") for cell in cells))


def read_block(d: int, batch: Any) -> Block:
    """Convert a batch of Arrow lists to a block; nulls become NaN."""
    lists = batch.column(0)
    lengths = np.asarray(lists.drop_null().value_lengths())
    if (lengths != d).any():
        msg = (
            f"every vector must have {d} entries, like the first; got {lengths[lengths != d][0]}.\n"
            "Hint: drop the others, or pad them with NaN, which means missing."
        )
        raise ShapeError(msg)
    rows = np.full((len(lists), d), np.nan)
    rows[np.asarray(lists.is_valid())] = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, d)
    return Block(rows)


_OWN_ERRORS = (ProbpcaError, MemoryError)
"""Errors of functions on executors that are raised again on the driver."""


def _item(kind: str) -> str | None:
    """Element type of an array type; None for other types."""
    return kind[6:-1].partition("(")[0] if kind.startswith("array<") else None


@final
@dataclass(frozen=True, eq=False)
class SparkEngine:
    """Engine that runs functions on Spark executors and collects one summary per partition."""

    frame: Any  # one column of pickled blocks
    example: Any  # two rows, to find the shape and type of the result of a function

    def keep(self, prepare: Callable[[Any], Any]) -> SparkEngine:
        """Prepare the blocks when they are first read and cache them; Spark recomputes those that are lost."""
        with losses_named(partial(_loss, self.frame)):
            frame = self._cached.mapInArrow(partial(_packed, partial(_each, prepare)), "block binary")
        return SparkEngine(frame, prepare(self.example))

    def fold(self, summarise: Callable[[Any], M]) -> M | None:
        """Summarise each partition on its executor and merge the summaries in order; None if there are no rows."""
        with losses_named(partial(_loss, self.frame)):
            found = self._cached.mapInArrow(partial(_summary, summarise), "part long, summary binary").collect()
            return merged(_unpacked(row.summary) for row in sorted(found))

    def map(self, function: Callable[[Any], Any]) -> Any:
        """Apply a row-wise function lazily; the result is a DataFrame with a column for each number of a row."""
        names = [name for name, _ in _flat(quietly(function, self.example))]
        with losses_named(partial(_loss, self.frame)):
            return self.frame.mapInArrow(partial(_answers, function), ", ".join(f"`{name}` double" for name in names))

    def answers(self, function: Callable[[Any], Any]) -> Iterator[Any]:
        """Raise ``SourceError``: the rows are not in this process."""
        del function
        refuse("Spark")

    def hold(self) -> list[Any]:
        """Raise ``SourceError``: the rows are not in this process."""
        refuse("Spark")

    def has_missing(self) -> bool:
        """Whether any cell is missing. Reads all rows to find out."""
        found = self.fold(_missing)
        return found is not None and bool(found.value)

    @cached_property
    def _cached(self) -> Any:
        frame = self.frame.cache()
        finalize(self, _release, frame).atexit = False
        return frame


def open_spark(rows: Any, n_jobs: int | None = None) -> Source:
    """Make a source of a Spark DataFrame of numeric columns, or of one column of vectors or arrays."""
    with losses_named(partial(_loss, rows)):
        lists = rows.select(as_list(rows.schema).alias("x"))
        columns = tuple(rows.columns) if len(rows.columns) > 1 else None
        d = len(columns) if columns else max((len(row.x) for row in lists.where("x is not null").take(1)), default=0)
        frame = lists.mapInArrow(partial(_packed, partial(_read, d)), "block binary")
    engine = SparkEngine(frame, Block(np.zeros((2, d))))
    info = Info(n_features=d, columns=columns, n_jobs=resolve_jobs(n_jobs))
    return Source(info, engine, glance=engine.has_missing)


def _loss(frame: Any, error: Exception) -> str:
    """Say what the cluster of a DataFrame has lost, and how to replace it; empty if the error is another one."""
    if isinstance(error, MemoryError):
        return (
            f"a Spark task ran out of memory ({first_line(error)}).\n"
            "Hint: use more partitions or executors with more memory"
        )
    # A job ends with this text before the session of a call to stop() in another thread counts as stopped.
    stopped = _is_stopped(frame) or "SparkContext was shut down" in str(error)
    if stopped or any(isinstance(cause, ConnectionError) for cause in causes(error)):
        return (
            f"the Spark session was stopped, or the connection to it was lost ({first_line(error)}).\n"
            "Hint: start a new session, load the rows there"
        )
    if type(error).__name__ not in ("Py4JJavaError", "SparkException"):  # the latter is that of Spark Connect
        return ""
    reason = next((line[2:] for line in str(error).splitlines() if line.startswith(": ")), first_line(error))
    return (
        f"Spark gave up a job ({reason}).\n"
        "Hint: the logs of the executors say why; if it was lack of memory, use more partitions or executors with more "
        "memory"
    )


def _is_stopped(frame: Any) -> bool:
    context = getattr(frame.sparkSession, "_sc", None)
    return bool(frame.sparkSession.is_stopped) if context is None else context._jsc is None  # noqa: SLF001


def _missing(block: Block) -> Sum:
    return Sum(np.asarray(not block.is_complete))


def _read(d: int, batches: Iterable[Any]) -> Iterator[Block]:
    for batch in batches:
        with partition_named(_partition()):
            block = read_block(d, batch)
        yield block


def _partition() -> int:
    return int(import_module("pyspark").TaskContext.get().partitionId())


def _packed(read: Callable[[Iterable[Any]], Iterator[Any]], batches: Iterable[Any]) -> Iterator[Any]:
    try:
        for block in read(batches):
            yield _record(block=[pickle.dumps(block, 5)])
    except _OWN_ERRORS as error:  # raised on the driver: Spark would retry, and then wrap it in an error of its own
        yield _record(block=[pickle.dumps(error)])


def _unpacked(record: Any) -> Any:
    """Unpickle a block or a summary; an error that was raised on the executor is raised again here."""
    found = pickle.loads(record)  # noqa: S301  written by this module
    if isinstance(found, _OWN_ERRORS):
        raise found
    return found


def _each(function: Callable[[Any], Any], batches: Iterable[Any]) -> Iterator[Any]:
    with one_blas_thread():  # tasks run in parallel already
        for batch in batches:
            for cell in batch.column(0):
                yield quietly(function, _unpacked(cell.as_buffer()))


def _summary(summarise: Callable[[Any], Any], batches: Iterable[Any]) -> Iterator[Any]:
    try:
        total = merged(_each(summarise, batches))
    except _OWN_ERRORS as error:
        total = error
    if total is not None:
        yield _record(part=[_partition()], summary=[pickle.dumps(total)])


def _answers(function: Callable[[Any], Any], batches: Iterable[Any]) -> Iterator[Any]:
    return (_record(**{name: np.asarray(c, np.float64) for name, c in _flat(a)}) for a in _each(function, batches))


def _record(**columns: Any) -> Any:
    return import_module("pyarrow").RecordBatch.from_pydict(columns)


def _flat(answer: Any, name: str = "value") -> list[tuple[str, Any]]:
    if isinstance(answer, tuple):
        fields: Any = zip(answer._fields, answer, strict=True)  # type: ignore[attr-defined]
        return [column for field, part in fields if not isinstance(part, str | None) for column in _flat(part, field)]
    table = answer.reshape(len(answer), int(np.prod(answer.shape[1:])))
    return [(name if answer.ndim == 1 else f"{name}_{i}", column) for i, column in enumerate(table.T)]


def _release(frame: Any) -> None:
    with suppress(Exception):  # the session may have ended
        frame.unpersist()
