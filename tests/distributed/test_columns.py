"""Columns that live in a cluster are known by their names."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from probpca import PPCA, ShapeError, SourceError

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

NAMES = list("abcde")
ROWS = np.random.default_rng(3).standard_normal((400, 5)) @ np.diag([5.0, 3, 1, 1, 1])
FRAME = pd.DataFrame(ROWS, columns=NAMES)


def test_columns_in_another_order_give_the_same_answers():
    fitted = PPCA(2).fit(dd.from_pandas(FRAME, npartitions=3))
    turned = dd.from_pandas(FRAME[NAMES[::-1]], npartitions=2)
    assert_allclose(fitted.transform(turned).compute(), fitted.transform(FRAME), rtol=1e-9)


def test_columns_of_other_names_are_refused():
    fitted = PPCA(2).fit(FRAME)
    with pytest.raises(ShapeError, match="'c' is missing"):
        fitted.transform(dd.from_pandas(FRAME.rename(columns={"c": "sea"}), npartitions=2))


def test_cells_that_delayed_blocks_do_not_store_cannot_be_missing():
    blocks = [dask.delayed(sparse.csr_array(ROWS[:200])), dask.delayed(sparse.csr_array(ROWS[200:]))]
    with pytest.raises(SourceError, match=r"zeros in blocks that Dask holds(.|\n)*Hint"):
        PPCA(2, missing="unstored").fit(blocks)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::UserWarning:pyspark")
def test_spark_finds_its_columns_too(spark):
    fitted = PPCA(2).fit(FRAME)
    found = fitted.transform(spark.createDataFrame(FRAME[NAMES[::-1]])).toPandas()
    assert_allclose(found.to_numpy(), fitted.transform(FRAME), rtol=1e-9)
