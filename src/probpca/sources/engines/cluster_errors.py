"""Errors about rows in a Dask or Spark cluster."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from probpca.errors import ClusterError, ProbpcaError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def refuse(engine: str) -> NoReturn:
    """Raise ``SourceError`` because rows in a cluster cannot be read in this process."""
    msg = (
        f"rows in {engine} cannot be read block by block in this process.\n"
        f"Hint: use solver='auto', which does not need it; in place of out=, write the result with {engine}."
    )
    raise SourceError(msg)


@contextmanager
def losses_named(loss: Callable[[Exception], str]) -> Iterator[None]:
    """Raise ``ClusterError`` for errors in which ``loss`` recognises what a cluster has lost; others pass unchanged.

    ``loss`` returns what was lost and a hint how to replace it, or an empty text.
    """
    try:
        yield
    except ProbpcaError:
        raise
    except Exception as error:
        if not (words := loss(error)):
            raise
        msg = (
            f"{words}, and call fit again. With checkpoint=, a fit of PPCA to rows with missing cells continues from "
            "its last step; other fits start from the beginning."
        )
        raise ClusterError(msg) from error


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and the errors that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def first_line(error: BaseException) -> str:
    """Type of an error and the first line of its message."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


@contextmanager
def partition_named(number: int) -> Iterator[None]:
    """Name the partition, counted from 0, in errors about its rows."""
    try:
        yield
    except ProbpcaError as error:
        msg = f"partition {number}: {error}"
        raise type(error)(msg) from error
