"""Principal components of real data, with honest uncertainty.

Rows are explained as x = W z + mu + noise: a few latent variables z, seen through loadings W. ``PPCA``
fits that model by exact maximum likelihood behind scikit-learn's verbs; ``LinearGaussian`` is the
model itself, and the functions here are what can be asked of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "probpca.errors": ["DataError", "FileFormatError", "ProbpcaError", "ShapeError", "SourceError"],
    "probpca.models": ["Gaussian", "LinearGaussian", "ParameterBelief", "StateSpace", "load_model", "save_model"],
    "probpca.inference": [
        "FilteredStates",
        "Forecast",
        "Imputed",
        "Innovations",
        "Outliers",
        "Pooled",
        "Predictive",
        "Smoothed",
        "condition",
        "decode",
        "dual_log_likelihood",
        "encode",
        "explained_variance",
        "explained_variance_ratio",
        "explore",
        "filter_states",
        "forecast",
        "free_energy",
        "impute",
        "impute_series",
        "innovations",
        "joint",
        "log_likelihood",
        "marginal",
        "outliers",
        "pool",
        "posterior",
        "project",
        "reconstruct",
        "sample",
        "sample_latent",
        "sample_series",
        "sample_trajectories",
        "series_log_likelihood",
        "smooth",
    ],
    "probpca.sources": ["open_source"],
    "probpca.learning": [
        "Criterion",
        "Estimate",
        "FitResult",
        "Gradient",
        "ParameterUncertainty",
        "PrincipalCoordinates",
        "Selection",
        "SeriesResult",
        "Settings",
        "Status",
        "Structure",
        "fit_ppca",
        "fit_series",
        "fit_variational",
        "principal_coordinates",
        "value_and_gradient",
    ],
    "probpca.estimators": ["PPCA", "BayesianPCA", "LinearDynamicalSystem", "PPCAImputer", "select_n_components"],
    "probpca.displays.selection_display": ["SelectionDisplay"],
    "probpca.displays.loadings_display": ["LoadingsDisplay"],
    "probpca.displays.biplot_display": ["BiplotDisplay"],
    "probpca.displays.convergence_display": ["ConvergenceDisplay"],
    "probpca.displays.forecast_display": ["ForecastDisplay"],
    "probpca.displays.imputation_display": ["ImputationDisplay"],
    "probpca.displays.latent_display": ["LatentDisplay"],
    "probpca.displays.missingness_display": ["MissingnessDisplay"],
    "probpca.displays.outliers_display": ["OutlierDisplay"],
    "probpca.displays.scree_display": ["ScreeDisplay"],
    "probpca.pages.report": ["report"],
    "probpca.pages.explorer": ["explorer"],
    "probpca.datasets": ["load_fertility"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME_OF), "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from probpca.datasets import (
        load_fertility as load_fertility,
    )
    from probpca.displays.biplot_display import (
        BiplotDisplay as BiplotDisplay,
    )
    from probpca.displays.convergence_display import (
        ConvergenceDisplay as ConvergenceDisplay,
    )
    from probpca.displays.forecast_display import (
        ForecastDisplay as ForecastDisplay,
    )
    from probpca.displays.imputation_display import (
        ImputationDisplay as ImputationDisplay,
    )
    from probpca.displays.latent_display import (
        LatentDisplay as LatentDisplay,
    )
    from probpca.displays.loadings_display import (
        LoadingsDisplay as LoadingsDisplay,
    )
    from probpca.displays.missingness_display import (
        MissingnessDisplay as MissingnessDisplay,
    )
    from probpca.displays.outliers_display import (
        OutlierDisplay as OutlierDisplay,
    )
    from probpca.displays.scree_display import (
        ScreeDisplay as ScreeDisplay,
    )
    from probpca.displays.selection_display import (
        SelectionDisplay as SelectionDisplay,
    )
    from probpca.errors import (
        DataError as DataError,
        FileFormatError as FileFormatError,
        ProbpcaError as ProbpcaError,
        ShapeError as ShapeError,
        SourceError as SourceError,
    )
    from probpca.estimators import (
        PPCA as PPCA,
        BayesianPCA as BayesianPCA,
        LinearDynamicalSystem as LinearDynamicalSystem,
        PPCAImputer as PPCAImputer,
        select_n_components as select_n_components,
    )
    from probpca.inference import (
        FilteredStates as FilteredStates,
        Forecast as Forecast,
        Imputed as Imputed,
        Innovations as Innovations,
        Outliers as Outliers,
        Pooled as Pooled,
        Predictive as Predictive,
        Smoothed as Smoothed,
        condition as condition,
        decode as decode,
        dual_log_likelihood as dual_log_likelihood,
        encode as encode,
        explained_variance as explained_variance,
        explained_variance_ratio as explained_variance_ratio,
        explore as explore,
        filter_states as filter_states,
        forecast as forecast,
        free_energy as free_energy,
        impute as impute,
        impute_series as impute_series,
        innovations as innovations,
        joint as joint,
        log_likelihood as log_likelihood,
        marginal as marginal,
        outliers as outliers,
        pool as pool,
        posterior as posterior,
        project as project,
        reconstruct as reconstruct,
        sample as sample,
        sample_latent as sample_latent,
        sample_series as sample_series,
        sample_trajectories as sample_trajectories,
        series_log_likelihood as series_log_likelihood,
        smooth as smooth,
    )
    from probpca.learning import (
        Criterion as Criterion,
        Estimate as Estimate,
        FitResult as FitResult,
        Gradient as Gradient,
        ParameterUncertainty as ParameterUncertainty,
        PrincipalCoordinates as PrincipalCoordinates,
        Selection as Selection,
        SeriesResult as SeriesResult,
        Settings as Settings,
        Status as Status,
        Structure as Structure,
        fit_ppca as fit_ppca,
        fit_series as fit_series,
        fit_variational as fit_variational,
        principal_coordinates as principal_coordinates,
        value_and_gradient as value_and_gradient,
    )
    from probpca.models import (
        Gaussian as Gaussian,
        LinearGaussian as LinearGaussian,
        ParameterBelief as ParameterBelief,
        StateSpace as StateSpace,
        load_model as load_model,
        save_model as save_model,
    )
    from probpca.pages.explorer import (
        explorer as explorer,
    )
    from probpca.pages.report import (
        report as report,
    )
    from probpca.sources import (
        open_source as open_source,
    )


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: ``import probpca`` alone stays quick."""
    if name not in _HOME_OF:
        msg = f"module 'probpca' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return __all__
