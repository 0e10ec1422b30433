"""vbpca-py with algorithm="ppca": EM without priors. Its model is taken as it is; it stops only by iterations."""

from runner import run
from vbpca_py import VBPCA


def fit(x, q, effort):
    stops = {"minangle": 0.0, "rmsstop": None, "angle_every": effort, "return_diagnostics": False}
    model = VBPCA(q, algorithm="ppca", maxiters=effort, random_state=0, **stops).fit(x)
    return model.mean_, model.components_.T, model.noise_variance_, model.n_iter_


run("vbpca-py", fit)
