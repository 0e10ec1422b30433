"""Uncertainty of fitted parameters: asymptotic, bootstrap and draws."""
