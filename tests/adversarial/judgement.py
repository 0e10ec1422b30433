"""What counts as right: a comparison within a bound, an error with a name, an input that stays as it was."""

import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sklearn
from scipy import sparse

from probpca.errors import ProbpcaError

SKLEARN = str(Path(sklearn.__file__).parent)
NEED = (
    *("must", "need", "cannot", "not a", "should", "fewer", "only", "lacks", "holds"),
    *(
        "differ",
        "required",
        "xpected",
        "contains",
        "Hint",
        "no ",
        "at least",
        "could not convert",
        "not supported",
        "are identical",
    ),
)
"""Words of which an error has one that says what was needed, or what came instead."""


class Verdict(NamedTuple):
    """What came of one case."""

    kind: str  # "right", "named error", "wrong", or "unjudged" where nobody can say
    words: tuple[str, ...] = ()


class Judge:
    """Collects what was wrong with the answers about one case."""

    def __init__(self):
        self.complaints = []

    def close(self, what, got, want, bound):
        """Compare an answer with that of an oracle; the bound is one of absolute errors, of the same shape."""
        got, want = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
        if got.shape != want.shape:
            self.complaints.append(f"{what}: shape {got.shape}, not {want.shape}")
            return
        with np.errstate(invalid="ignore"):
            fine = (got == want) | (np.abs(got - want) <= bound) | (np.isnan(got) & np.isnan(want))
        if not fine.all():
            place = np.unravel_index(np.argmin(fine), fine.shape)
            allowed = np.broadcast_to(bound, fine.shape)[place]
            self.complaints.append(
                f"{what}: {got[place]:.17g} at {tuple(map(int, place))}, not {want[place]:.17g} "
                f"(off by {abs(got[place] - want[place]):.3g}, bound {allowed:.3g})"
            )

    def holds(self, law, what):
        """Complain unless a law holds."""
        if not law:
            self.complaints.append(what)

    @property
    def verdict(self):
        return Verdict("wrong", tuple(self.complaints)) if self.complaints else Verdict("right")


def named(error):
    """Whether an error says by its class and its words what was needed."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    from_sklearn = isinstance(error, ValueError | TypeError) and last.startswith(SKLEARN)
    words = str(error)
    return (isinstance(error, ProbpcaError) or from_sklearn) and any(need in words for need in NEED)


def judged_error(error, *, allowed=True):
    """The verdict on an exception."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    words = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})".replace("\n", " ")
    if not named(error):
        return Verdict("wrong", (f"an error without a name: {words}",))
    if not allowed:
        return Verdict("wrong", (f"refused without need: {words}",))
    return Verdict("named error", (words,))


@contextmanager
def quiet(judge):
    """Collect warnings; arithmetic may not warn."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, RuntimeWarning):
            name = Path(warning.filename).name
            judge.complaints.append(f"RuntimeWarning: {warning.message} ({name}:{warning.lineno})")


def fingerprint(given):
    """The bytes of an input, to see whether it was changed."""
    if sparse.issparse(given):
        return given.data.tobytes(), given.indices.tobytes(), given.indptr.tobytes()
    if isinstance(given, np.ma.MaskedArray):
        return given.data.tobytes(), given.mask.tobytes()
    if isinstance(given, np.ndarray) and given.dtype != object:
        return np.ascontiguousarray(given).tobytes()
    frame = given.to_pandas() if hasattr(given, "to_pandas") else given
    return frame.to_numpy(dtype=float, na_value=np.nan).tobytes() if hasattr(frame, "to_numpy") else repr(given)
