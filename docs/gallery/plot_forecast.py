"""
Forecast fan: a time series and its next steps
==============================================

Yearly means of the sunspot number, 1900 to 2008 (National Geophysical Data Center, NOAA; public domain, as distributed
with statsmodels). The model is fitted to square roots, because counts then have the same noise variance, 1/4, at every
level. A linear dynamical system with three states learns the cycle. Six years are hidden, and it imputes them.
"""

import numpy as np

from probpca import ForecastDisplay, LinearDynamicalSystem

sunspots = """
9.5 2.7 5.0 24.4 42.0 63.5 53.8 62.0 48.5 43.9 18.6 5.7 3.6 1.4 9.6 47.4 57.1 103.9 80.6 63.6 37.6 26.1 14.2 5.8 16.7
44.3 63.9 69.0 77.8 64.9 35.7 21.2 11.1 5.7 8.7 36.1 79.7 114.4 109.6 88.8 67.8 47.5 30.6 16.3 9.6 33.2 92.6 151.6 136.3
134.7 83.9 69.4 31.5 13.9 4.4 38.0 141.7 190.2 184.8 159.0 112.3 53.9 37.6 27.9 10.2 15.1 47.0 93.8 105.9 105.5 104.5
66.6 68.9 38.0 34.5 15.5 12.6 27.5 92.5 155.4 154.6 140.4 115.9 66.6 45.9 17.9 13.4 29.4 100.2 157.6 142.6 145.7 94.3
54.6 29.9 17.5 8.6 21.5 64.3 93.3 119.6 111.0 104.0 63.7 40.4 29.8 15.2 7.5 2.9
"""
years = np.arange(1900, 2009)
Y = np.sqrt(np.array(sunspots.split(), dtype=float))[:, None]
Y[(years >= 1950) & (years <= 1955)] = np.nan

system = LinearDynamicalSystem(n_components=3, noise=0.25, tol=0.01, random_state=0).fit(Y)
display = ForecastDisplay.from_estimator(
    system, Y, horizon=25, times=years, feature_names=["sunspots"], value_name="square root of the yearly mean"
)
print(system.summary())

# %%
# The fan is narrow while the phase of the cycle is known; two cycles later it is as wide as the series itself.
