"""Mixtures of PPCA and of factor analysers."""
