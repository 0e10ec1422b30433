"""Filtering, smoothing and forecasting with a linear state-space model."""
