"""
Doubtful cells: what a robust fit did not use
=============================================

A fit with ``robust="cells"`` predicts each cell from all others, and gives little weight to those that disagree. Beside
the missing cells, the map shows the doubtful ones, and the rows that were not used at all.
"""

import numpy as np

from probpca import PPCA, UsedCellsDisplay

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 12)) + 0.3 * rng.standard_normal((200, 12))
X[rng.random(X.shape) < 0.1] = np.nan
X[80:120, 4] += 5.0  # a sensor that drifted
X[rng.random(X.shape) < 0.02] *= 10.0  # slipped decimal points
X[190:] = 3.0 * rng.standard_normal((10, 12))  # rows of something else
model = PPCA(n_components=2, robust="cells", random_state=0).fit(X)
display = UsedCellsDisplay.from_estimator(model, X, order="given")

# %%
# The drift of column 4 and the slipped decimal points stand out, and the last rows are grey: they were not used.
