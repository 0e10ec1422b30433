"""
Outlier map: which rows are unusual, and why
============================================

A row can be unusual in two ways: far from the centre along the components (to the right), or different from anything
the components can describe (at the top). The most unusual rows are named. P-values are calibrated with the rows
themselves. Dashed lines are limits that a row exceeds by chance with probability 0.001; here the countries differ so
much that the limits lie beyond the figure, and the note warns that outliers may hide each other. Countries with missing
years are drawn where a complete row with the same p-value would be.
"""

from probpca import PPCA, OutlierDisplay
from probpca.datasets import load_fertility

table = load_fertility()
ppca = PPCA(n_components=3, random_state=0).fit(table.values)
display = OutlierDisplay.from_estimator(ppca, table.values, labels=table.countries, feature_names=table.years)

# %%
# Why is Kuwait unusual? Each bar compares a year with its prediction from the other years. There were far fewer births
# around 1991, the year of the Gulf War.

display = display.plot(row="Kuwait", measure="cell_scores", in_order=True)

# %%
# If rows follow each other, as in process monitoring, draw a control chart.

display = display.plot(kind="chart", most=5)
