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
    "probpca.models": ["Gaussian", "LinearGaussian", "load_model", "save_model"],
    "probpca.inference": [
        "Outliers",
        "Predictive",
        "condition",
        "decode",
        "dual_log_likelihood",
        "encode",
        "explained_variance",
        "explore",
        "free_energy",
        "joint",
        "log_likelihood",
        "marginal",
        "outliers",
        "posterior",
        "project",
        "reconstruct",
        "sample",
        "sample_latent",
    ],
    "probpca.sources": ["open_source"],
    "probpca.learning": ["FitResult", "Settings", "Status", "fit_ppca", "principal_coordinates", "value_and_gradient"],
    "probpca.estimators": ["PPCA"],
    "probpca.data": ["load_fertility"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME_OF), "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from probpca.data import load_fertility as load_fertility
    from probpca.errors import (
        DataError as DataError,
    )
    from probpca.errors import (
        FileFormatError as FileFormatError,
    )
    from probpca.errors import (
        ProbpcaError as ProbpcaError,
    )
    from probpca.errors import (
        ShapeError as ShapeError,
    )
    from probpca.errors import (
        SourceError as SourceError,
    )
    from probpca.estimators import PPCA as PPCA
    from probpca.inference import (
        Outliers as Outliers,
    )
    from probpca.inference import (
        Predictive as Predictive,
    )
    from probpca.inference import (
        condition as condition,
    )
    from probpca.inference import (
        decode as decode,
    )
    from probpca.inference import (
        dual_log_likelihood as dual_log_likelihood,
    )
    from probpca.inference import (
        encode as encode,
    )
    from probpca.inference import (
        explained_variance as explained_variance,
    )
    from probpca.inference import (
        explore as explore,
    )
    from probpca.inference import (
        free_energy as free_energy,
    )
    from probpca.inference import (
        joint as joint,
    )
    from probpca.inference import (
        log_likelihood as log_likelihood,
    )
    from probpca.inference import (
        marginal as marginal,
    )
    from probpca.inference import (
        outliers as outliers,
    )
    from probpca.inference import (
        posterior as posterior,
    )
    from probpca.inference import (
        project as project,
    )
    from probpca.inference import (
        reconstruct as reconstruct,
    )
    from probpca.inference import (
        sample as sample,
    )
    from probpca.inference import (
        sample_latent as sample_latent,
    )
    from probpca.learning import (
        FitResult as FitResult,
    )
    from probpca.learning import (
        Settings as Settings,
    )
    from probpca.learning import (
        Status as Status,
    )
    from probpca.learning import (
        fit_ppca as fit_ppca,
    )
    from probpca.learning import (
        principal_coordinates as principal_coordinates,
    )
    from probpca.learning import (
        value_and_gradient as value_and_gradient,
    )
    from probpca.models import (
        Gaussian as Gaussian,
    )
    from probpca.models import (
        LinearGaussian as LinearGaussian,
    )
    from probpca.models import (
        load_model as load_model,
    )
    from probpca.models import (
        save_model as save_model,
    )
    from probpca.sources import open_source as open_source


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: ``import probpca`` alone stays quick."""
    if name not in _HOME_OF:
        msg = f"module 'probpca' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return __all__
