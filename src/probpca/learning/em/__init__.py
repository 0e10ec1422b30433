"""Expectation-maximisation: E-step, M-step, gradient and incremental form."""
