"""ppca-rs: exact EM in Rust. Its model is taken as it is; its noise is a standard deviation.

The start is the one that it makes itself (mean 0, noise 1, normal loadings), only with a seed.
"""

import numpy as np
from ppca_rs import Dataset, PPCAModel, PPCATrainer
from runner import run


def fit(x, q, effort):
    d = x.shape[1]
    start = PPCAModel(1.0, np.random.default_rng(0).standard_normal((d, q)), np.zeros((d, 1)))
    model = PPCATrainer(Dataset(x)).train(start=start, state_size=q, n_iters=effort, quiet=True)
    return model.mean, model.transform, model.isotropic_noise**2, effort


run("ppca-rs", fit)
