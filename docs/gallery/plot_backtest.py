"""
Backtest: forecasts of the past beside what came
================================================

Births per woman in India, Brazil and Kenya (World Bank, CC BY 4.0). From each of four years in the past the next six
years are forecast, by a system that has seen the years before alone. The lowest panel compares the errors with those of
repeating the last value (naive) and of a straight line from the first to the last value (drift).
"""

from probpca import BacktestDisplay, LinearDynamicalSystem
from probpca.datasets import load_fertility

births = load_fertility().to_frame().T[["India", "Brazil", "Kenya"]]
births.index = births.index.astype(int)

found = LinearDynamicalSystem().backtest(births, horizon=6)
display = BacktestDisplay.from_backtest(found)
print(found)

# %%
# The forecasts continue the decline, so that their errors are a fraction of those of the naive forecast.
