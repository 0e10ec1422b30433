"""Functions that answer questions about rows under a given model: posteriors, likelihoods, imputation and outliers."""

from probpca.inference.calibration import Calibration
from probpca.inference.conditioning import Predictive, condition, joint, marginal
from probpca.inference.imputation import Imputed, Pooled, impute, pool
from probpca.inference.latent_axes import bartlett_scores
from probpca.inference.likelihood import dual_log_likelihood, log_likelihood
from probpca.inference.mixture import (
    MixturePosterior,
    impute_mixture,
    mixture_log_likelihood,
    mixture_posterior,
    responsibilities,
    sample_mixture,
)
from probpca.inference.mixture_outlier_scores import MixtureOutliers, mixture_outliers
from probpca.inference.outlier_scores import Outliers, calibrate, outliers
from probpca.inference.posteriors import free_energy, posterior, posterior_covariance
from probpca.inference.projection import (
    decode,
    encode,
    explained_variance,
    explained_variance_ratio,
    project,
    reconstruct,
)
from probpca.inference.sampling import explore, sample, sample_latent
from probpca.inference.time_series.backtest import Backtest, naive_forecasts
from probpca.inference.time_series.decomposition import SeriesComponents, decompose
from probpca.inference.time_series.kalman import (
    FilteredStates,
    Smoothed,
    filter_states,
    sample_trajectories,
    series_log_likelihood,
    smooth,
)
from probpca.inference.time_series.prediction import (
    Forecast,
    Innovations,
    forecast,
    impute_series,
    innovations,
    sample_series,
)
from probpca.inference.time_series.row_filter import KnownState, RowFilter, Update

__all__ = [
    "Backtest",
    "Calibration",
    "FilteredStates",
    "Forecast",
    "Imputed",
    "Innovations",
    "KnownState",
    "MixtureOutliers",
    "MixturePosterior",
    "Outliers",
    "Pooled",
    "Predictive",
    "RowFilter",
    "SeriesComponents",
    "Smoothed",
    "Update",
    "bartlett_scores",
    "calibrate",
    "condition",
    "decode",
    "decompose",
    "dual_log_likelihood",
    "encode",
    "explained_variance",
    "explained_variance_ratio",
    "explore",
    "filter_states",
    "forecast",
    "free_energy",
    "impute",
    "impute_mixture",
    "impute_series",
    "innovations",
    "joint",
    "log_likelihood",
    "marginal",
    "mixture_log_likelihood",
    "mixture_outliers",
    "mixture_posterior",
    "naive_forecasts",
    "outliers",
    "pool",
    "posterior",
    "posterior_covariance",
    "project",
    "reconstruct",
    "responsibilities",
    "sample",
    "sample_latent",
    "sample_mixture",
    "sample_series",
    "sample_trajectories",
    "series_log_likelihood",
    "smooth",
]
