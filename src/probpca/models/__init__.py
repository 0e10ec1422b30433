"""Models as immutable objects that hold validated parameters, and functions to save and load them."""

from probpca.models.belief import ParameterBelief
from probpca.models.gaussian import Gaussian, LinearGaussian, standard_normal
from probpca.models.layout import Layout
from probpca.models.mixture import Mixture
from probpca.models.rotation import Rotation, rotate
from probpca.models.serialization import load_model, save_model
from probpca.models.state_space import StateSpace

__all__ = [
    "Gaussian",
    "Layout",
    "LinearGaussian",
    "Mixture",
    "ParameterBelief",
    "Rotation",
    "StateSpace",
    "load_model",
    "rotate",
    "save_model",
    "standard_normal",
]
