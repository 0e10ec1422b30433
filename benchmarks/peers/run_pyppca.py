"""pyppca: EM with a posterior in which scores and missing cells are independent; it takes no tolerance.

It returns orthonormal axes, without their scale, and the means of the columns.
"""

import contextlib
import io

import numpy as np
from pyppca import ppca
from runner import run


def fit(x, q, effort):  # noqa: ARG001
    np.random.seed(0)  # noqa: NPY002
    steps = io.StringIO()
    with contextlib.redirect_stdout(steps):
        axes, _, mean, _, _ = ppca(x, q, True)
    return mean, axes, None, steps.getvalue().count("Objective")


run("pyppca", fit)
