"""vbpca-py with algorithm="vb": Bayesian PCA. What it believes about parameters is written for the common judge."""

import sys
import time

import numpy as np
from scipy import sparse
from vbpca_py._pca_full import pca_full

source, target, q, effort = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
x = np.load(source).T  # features first
seen = ~np.isnan(x)
if seen.mean() < 0.2:  # its sparse form is the faster one then
    x = sparse.csr_matrix((x[seen], np.nonzero(seen)), shape=x.shape)
options = {
    "minangle": 0.0,
    "rmsstop": None,
    "angle_every": effort,
    "niter_broadprior": min(100, effort // 2),  # its default where there is room for it
    "return_diagnostics": False,
    "cost_diagnostics": "endpoint",
    "random_state": 0,
}
start = time.perf_counter()
found = pca_full(x, q, algorithm="vb", maxiters=effort, **options)
elapsed = time.perf_counter() - start
np.savez(
    target,
    seconds=elapsed,
    mean=found["Mu"].ravel(),
    mean_variance=np.asarray(found["Muv"]).ravel(),
    loadings=found["A"],
    covariance=np.asarray(found["Av"]),
    noise_variance=found["V"],
)
