"""
Convergence of a fit
====================

Plain EM on a table with missing cells. On the left is the log-likelihood; on the right its distance from that of a
better fit, on a logarithmic axis. After a few steps EM has gained nearly everything, and then becomes slow.
"""

import matplotlib.pyplot as plt

from probpca import PPCA, ConvergenceDisplay
from probpca.datasets import load_fertility

X = load_fertility().values
quick = PPCA(n_components=3, tol=1e-6, random_state=0).fit(X)
plain = PPCA(n_components=3, solver="em", tol=0.05, random_state=0).fit(X)
display = ConvergenceDisplay.from_estimator(plain, reference=quick.log_likelihood_)

# %%
# The default solver, an accelerated EM with parameter expansion, gains far more in each step. Here both are drawn into
# the same axes.

figure, axes = plt.subplots(1, 2, figsize=(6.8, 3.2), layout="constrained")
for fit, colour, name in ((plain, "#8d99ae", "plain EM"), (quick, "#33415c", "default")):
    shown = ConvergenceDisplay.from_estimator(fit, reference=quick.log_likelihood_ + 1e-7, ax=axes)
    for line in (shown.line_, shown.gap_line_):
        line.set(color=colour, label=name)
axes[1].legend(frameon=False)
