"""Uncertainty of fitted parameters: asymptotic standard errors, bootstrap, and draws for multiple imputation."""
