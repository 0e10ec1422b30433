"""Tables go out as they came in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw

if TYPE_CHECKING:
    from probpca.typing import Array


def like(X: Any, values: Array) -> Any:
    """The values in a dataframe with the names and the index of ``X``, if that is a dataframe."""
    if nw.dependencies.is_pandas_dataframe(X):
        return type(X)(values, index=X.index, columns=X.columns)
    if nw.dependencies.is_into_dataframe(X):
        frame = nw.from_native(X, eager_only=True)
        return table_of(values, frame.columns, frame.implementation)
    return values


def table_of(values: Array, names: Any, backend: Any) -> Any:
    """The values in a dataframe without an index, made by the library that narwhals calls ``backend``."""
    columns = {name: values[:, j] for j, name in enumerate(names)}
    return nw.from_dict(columns, backend=backend).to_native()
