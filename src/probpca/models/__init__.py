"""Frozen parameter objects, validated once."""

from probpca.models.files import load_model, save_model
from probpca.models.gaussian import Gaussian, standard_normal
from probpca.models.linear_gaussian import LinearGaussian

__all__ = ["Gaussian", "LinearGaussian", "load_model", "save_model", "standard_normal"]
