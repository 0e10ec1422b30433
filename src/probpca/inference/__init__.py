"""Pure functions of a model and rows."""

from probpca.inference.coding import (
    decode,
    encode,
    explained_variance,
    explained_variance_ratio,
    project,
    reconstruct,
)
from probpca.inference.conditioning import Predictive, condition, joint, marginal
from probpca.inference.dual import dual_log_likelihood
from probpca.inference.free_energy import free_energy
from probpca.inference.imputation import Imputed, impute
from probpca.inference.likelihood import log_likelihood
from probpca.inference.outliers import Outliers, outliers
from probpca.inference.pooling import Pooled, pool
from probpca.inference.posterior import posterior, posterior_covariance
from probpca.inference.sampling import explore, sample, sample_latent

__all__ = [
    "Imputed",
    "Outliers",
    "Pooled",
    "Predictive",
    "condition",
    "decode",
    "dual_log_likelihood",
    "encode",
    "explained_variance",
    "explained_variance_ratio",
    "explore",
    "free_energy",
    "impute",
    "joint",
    "log_likelihood",
    "marginal",
    "outliers",
    "pool",
    "posterior",
    "posterior_covariance",
    "project",
    "reconstruct",
    "sample",
    "sample_latent",
]
