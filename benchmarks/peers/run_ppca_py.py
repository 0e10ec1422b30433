"""ppca-py: EM in C++. Its model is taken as it is; without the final rotation, components are loadings.

It refuses to give a model before it has converged, and does not count iterations: effort is 1 / tolerance.
"""

from ppca import PPCA
from runner import run


def fit(x, q, effort):
    settings = {"rtol": 1 / effort, "max_iter": 10**9, "min_iter": 1, "random_state": 0}
    model = PPCA(q, rotate_to_orthogonal=False, **settings).fit(x)
    return model.mean_, model.components_.T, model.noise_variance_, None


run("ppca-py", fit)
