"""
Number of components: what the rules say
========================================

Each rule answers another question. BIC and the evidence ask which model generated the rows; cross-validation asks which
one predicts hidden cells best; parallel analysis asks which components stand out from chance. If they disagree, the
purpose decides.

The table: ten measurements of cell nuclei in 569 biopsies, from scikit-learn.
"""

from sklearn.datasets import load_breast_cancer

from probpca import SelectionDisplay, select_n_components

X = load_breast_cancer().data[:, :10]
selection = select_n_components(X, standardize=True, random_state=0)
display = SelectionDisplay.from_selection(selection)

# %%
# The same in words:
print(selection)
