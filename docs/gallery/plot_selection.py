"""
How many components: what the criteria say
==========================================

Each criterion asks something else. BIC and the evidence ask which model made the rows; cross-validation, which one
predicts cells that it has not seen; parallel analysis, which components stand out of what chance would bring. Where
they disagree the rows are not as the model has them, and the purpose decides.

The table: ten measurements of cell nuclei, their means in 569 biopsies, from scikit-learn.
"""

from sklearn.datasets import load_breast_cancer

from probpca import SelectionDisplay, select_n_components

X = load_breast_cancer().data[:, :10]
selection = select_n_components(X, standardize=True, random_state=0)
display = SelectionDisplay.from_selection(selection)

# %%
# The same in words:
print(selection)
