"""Principal components of real data, with honest uncertainty.

Rows are modelled as x = W z + mu + noise: a few latent variables z, seen through loadings W. The estimators here
follow scikit-learn's conventions. Models, and the functions that answer questions about them, live in
``probpca.models``, ``probpca.inference`` and ``probpca.learning``; data sets in ``probpca.datasets``.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
