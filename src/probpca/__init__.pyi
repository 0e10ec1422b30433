from . import datasets, inference, learning, models, sources
from .displays.backtest_display import BacktestDisplay
from .displays.biplot_display import BiplotDisplay
from .displays.clusters_display import ClustersDisplay
from .displays.components_display import ComponentsDisplay
from .displays.convergence_display import ConvergenceDisplay
from .displays.factor_correlations_display import FactorCorrelationsDisplay
from .displays.forecast_display import ForecastDisplay
from .displays.imputation_display import ImputationDisplay
from .displays.latent_display import LatentDisplay
from .displays.loadings_display import LoadingsDisplay
from .displays.loadings_heatmap_display import LoadingsHeatmapDisplay
from .displays.missingness_display import MissingnessDisplay
from .displays.outliers_display import OutlierDisplay
from .displays.scree_display import ScreeDisplay
from .displays.selection_display import SelectionDisplay
from .displays.used_cells_display import UsedCellsDisplay
from .errors import (
    ClusterError,
    DataError,
    FileFormatError,
    NotEnoughMemoryError,
    ProbpcaError,
    ShapeError,
    SourceError,
)
from .estimators import (
    PPCA,
    BayesianPCA,
    FactorAnalysis,
    LinearDynamicalSystem,
    MixturePPCA,
    PPCAImputer,
    select_n_components,
)
from .learning.factor.factorability import factorability
from .pages.explorer import explorer
from .pages.report import report
from .pages.series_report import anomalies_page, series_report

__version__: str

__all__ = [
    "PPCA",
    "BacktestDisplay",
    "BayesianPCA",
    "BiplotDisplay",
    "ClusterError",
    "ClustersDisplay",
    "ComponentsDisplay",
    "ConvergenceDisplay",
    "DataError",
    "FactorAnalysis",
    "FactorCorrelationsDisplay",
    "FileFormatError",
    "ForecastDisplay",
    "ImputationDisplay",
    "LatentDisplay",
    "LinearDynamicalSystem",
    "LoadingsDisplay",
    "LoadingsHeatmapDisplay",
    "MissingnessDisplay",
    "MixturePPCA",
    "NotEnoughMemoryError",
    "OutlierDisplay",
    "PPCAImputer",
    "ProbpcaError",
    "ScreeDisplay",
    "SelectionDisplay",
    "ShapeError",
    "SourceError",
    "UsedCellsDisplay",
    "anomalies_page",
    "datasets",
    "explorer",
    "factorability",
    "inference",
    "learning",
    "models",
    "report",
    "select_n_components",
    "series_report",
    "sources",
]
