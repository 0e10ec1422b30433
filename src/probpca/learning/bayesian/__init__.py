"""Bayesian PCA by variational inference."""
