"""
Components: level, slope and season of a series
===============================================

Monthly deaths from lung diseases in the United Kingdom, 1974 to 1979 (P. J. Diggle, Time Series: A Biostatistical
Introduction, 1990; R's data set ``ldeaths``). ``LinearDynamicalSystem`` finds that their logarithms have a level and a
season. Five months are hidden.
"""

import numpy as np
import pandas as pd

from probpca import ComponentsDisplay, LinearDynamicalSystem

deaths = """
3035 2552 2704 2554 2014 1655 1721 1524 1596 2074 2199 2512 2933 2889 2938 2497 1870 1726 1607 1545 1396 1787 2076 2837
2787 3891 3179 2011 1636 1580 1489 1300 1356 1653 2013 2823 3102 2294 2385 2444 1748 1554 1498 1361 1346 1564 1640 2293
2815 3137 2679 1969 1870 1633 1529 1366 1357 1570 1535 2491 3084 2605 2573 2143 1693 1504 1461 1354 1333 1492 1781 1915
"""
months = pd.date_range("1974-01-31", periods=72, freq="ME")
Y = pd.DataFrame({"log deaths": np.log(np.array(deaths.split(), dtype=float))}, index=months)
Y.iloc[40:45] = np.nan

system = LinearDynamicalSystem().fit(Y)
ComponentsDisplay.from_estimator(system, Y)
print(system.summary())

# %%
# The season is that of the index: twelve months. Trend and season were chosen by BIC; "no season" was a candidate.
