"""
Which rows are strange, and why
===============================

A row may be strange in two ways: far out along the components (to the right), or unlike anything that components can
make (above). The least probable rows are named. P-values are calibrated by the rows themselves: countries differ so
much that none is beyond the limits, which chance exceeds with probability 0.001, and the note says what else that may
mean. Of countries with missing years fewer things are known; they are drawn where a complete one would be that is as
improbable.
"""

from probpca import PPCA, OutlierDisplay
from probpca.datasets import load_fertility

table = load_fertility()
ppca = PPCA(n_components=3, random_state=0).fit(table.values)
display = OutlierDisplay.from_estimator(ppca, table.values, labels=table.countries, feature_names=table.years)

# %%
# What is strange about Kuwait? Each bar compares a year with what the other years let expect. There were far fewer
# births around 1991, the year of the Gulf War, than three components can tell.

display = display.plot(row="Kuwait", measure="cell_scores", in_order=True)

# %%
# Rows that come one after the other, as in a process that is watched, make a control chart.

display = display.plot(kind="chart", most=5)
