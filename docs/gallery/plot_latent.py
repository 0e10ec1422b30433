"""
Score plot: component scores with uncertainty
=============================================

Births per woman in 219 countries, 1960 to 2011, as two component scores. All complete records are known equally well:
the small ellipse at the lower left is the 95% region of each. Hollow points lack years and have regions of their own;
nine countries have no data at all, and their region is that of the prior.
"""

from probpca import PPCA, LatentDisplay
from probpca.datasets import load_fertility

table = load_fertility()
ppca = PPCA(n_components=2, random_state=0).fit(table.values)
named = ["Kuwait", "China", "Niger", "India", "Germany"]
display = LatentDisplay.from_estimator(ppca, table.values, labels=table.countries, annotate=named)

# %%
# Many incomplete records have only recent years. Long ellipses show what these leave open: fertility that is low now
# may always have been low, or may have fallen from a high level.
#
# Classes get their own colours and markers. Images of digits have no missing cells, and yet their region is wide: two
# components describe little of an image, and the rest is noise.

from sklearn.datasets import load_digits

digits = load_digits(n_class=5)
ppca = PPCA(n_components=2).fit(digits.data)
display = LatentDisplay.from_estimator(ppca, digits.data, groups=digits.target)
