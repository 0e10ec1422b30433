"""Names and numbers that displays and pages read from a table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from probpca import ShapeError
from probpca.displays.inputs import categories_of, groups_of, labels_of, numbers_of, table_of


def test_only_whole_numbers_that_differ_are_numbers():
    def both(index):
        frame = pd.DataFrame(np.zeros((2, 1)), index=index)
        return numbers_of(frame, None, 2).tolist(), labels_of(frame, None, 2)

    assert both([7, -3]) == ([7, -3], [None, None])
    assert both([7, 7]) == ([0, 1], ["7", "7"])
    assert both([0.5, 2]) == ([0, 1], ["0.5", "2.0"])
    assert both([2**53 + 1, 0]) == ([0, 1], [str(2**53 + 1), "0"])
    assert both(pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])) == ([0, 1], ["a, 1", "b, 2"])
    assert both(["a", None]) == ([0, 1], ["a", None])


# Groups


def test_categories_are_in_order_and_every_row_has_the_one_it_came_with():
    found = categories_of(["b", "a", None, "b", float("nan"), "C"])
    assert found.names == ("a", "b", "C", "missing")
    assert found.codes.tolist() == [1, 0, 3, 1, 3, 2]
    assert found.n_proper == 3
    assert categories_of([10, 9.0, 2]).names == ("2", "9", "10")
    assert categories_of(["10", "9", "2"]).names == ("2", "9", "10")
    assert categories_of([True, False]).names == ("False", "True")


def test_an_ordered_categorical_keeps_its_order():
    ordered = pd.Categorical(["low", "high"], categories=["low", "high"])
    assert categories_of(ordered).names == categories_of(pd.Series(ordered)).names == ("low", "high")
    assert groups_of(pd.DataFrame({"size": ordered}), 2)[0].by.names == ("low", "high")
    enum = pl.DataFrame({"size": pl.Series(["low", "high"], dtype=pl.Enum(["low", "high"]))})
    assert groups_of(enum, 2)[0].by.names == ("low", "high")


def test_the_rarest_of_many_categories_become_one():
    values = [f"c{k:02d}" for k in range(20) for _ in range(20 - k)]
    found = categories_of(values)
    assert found.names == (*(f"c{k:02d}" for k in range(11)), "other (9 categories)")
    counts = np.bincount(found.codes)
    assert counts.tolist() == [*range(20, 9, -1), sum(range(1, 10))]
    assert len(categories_of(values[: -sum(range(1, 9))]).names) == 12


@pytest.mark.parametrize("made", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_groups_come_in_many_kinds_of_table(made):
    kind, size = groups_of(made({"kind": ["x", "y", "x"] * 5, "size": np.linspace(0, 1, 15)}), 15)
    assert (kind.name, kind.by.names, kind.by.codes.tolist()) == ("kind", ("x", "y"), [0, 1, 0] * 5)
    assert size.name == "size"
    assert_array_equal(size.by, np.linspace(0, 1, 15))


def test_one_sequence_is_one_group_and_few_numbers_are_categories():
    assert [group.name for group in groups_of(pd.Series([1, 2], name="batch"), 2)] == ["batch"]
    assert [group.name for group in groups_of(["a", "b"], 2)] == ["group"]
    assert groups_of(None, 2) == []
    assert groups_of(np.arange(12) % 3, 12)[0].by.names == ("0", "1", "2")
    numbers = groups_of([*range(20), np.inf, None], 22)[0].by
    assert_array_equal(numbers, [*range(20), np.nan, np.nan])
    with pytest.raises(ShapeError, match="groups must have 3 values, one for each row; 'group' has 2"):
        groups_of(["a", "b"], 3)


def test_an_array_of_numbers_is_neither_copied_nor_changed(rng):
    x = rng.standard_normal((6, 3))
    cells = table_of(x)
    assert np.shares_memory(cells, x)
    assert not cells.flags.writeable
    assert x.flags.writeable
    assert table_of(x.astype(np.float32)).dtype == np.float64
