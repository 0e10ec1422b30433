"""statsmodels' PCA with missing="fill-em": fills the cells by PCA again and again (no noise in the model).

Taken are the mean of the filled table and the axes.
"""

from runner import run
from statsmodels.multivariate.pca import PCA


def fit(x, q, effort):
    method = "eig" if x.shape[0] > x.shape[1] else "svd"  # the faster one
    settings = {"standardize": False, "normalize": False, "method": method, "tol_em": 1e-12}
    model = PCA(x, ncomp=q, missing="fill-em", max_em_iter=effort, **settings)
    return model._adjusted_data.mean(axis=0), model.eigenvecs[:, :q], None, effort  # noqa: SLF001


run("statsmodels", fit)
