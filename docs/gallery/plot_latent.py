"""
Where rows are, and how well that is known
==========================================

Births per woman in 219 countries, 1960 to 2011, as two latent variables. Countries with a complete record are all known
equally well: the small ellipse at the lower left is the region of each. Hollow points lack years, and have
regions of their own; of nine countries nothing was recorded, and all that is known of them is the prior.
"""

from probpca import PPCA, LatentDisplay
from probpca.datasets import load_fertility

table = load_fertility()
ppca = PPCA(n_components=2, random_state=0).fit(table.values)
named = ["Kuwait", "China", "Niger", "India", "Germany"]
display = LatentDisplay.from_estimator(ppca, table.values, labels=table.countries, annotate=named)

# %%
# Many of the incomplete records have only recent years. Long ellipses say what these leave open: where fertility was
# low lately, it may have been low always, or it may have fallen from a high level.
#
# Classes get colours and marks of their own. Pictures of digits have no missing cells, and yet their region is wide: to
# two components most of a picture is noise, which blurs where it lies.

from sklearn.datasets import load_digits

digits = load_digits(n_class=5)
ppca = PPCA(n_components=2).fit(digits.data)
display = LatentDisplay.from_estimator(ppca, digits.data, groups=digits.target)
