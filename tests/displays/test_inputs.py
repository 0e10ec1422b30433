"""Names and numbers that displays and pages read from a table."""

import numpy as np
import pandas as pd
from numpy.testing import assert_array_equal

from probpca.displays.inputs import groups_of, labels_of, numbers_of


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


def test_groups_are_categories_or_numbers_on_a_scale():
    name, kinds = groups_of(pd.Series(["b", None, "a", "b"], name="kind"), 4)[0]
    assert (name, kinds.names, kinds.codes.tolist()) == ("kind", ("a", "b", "missing"), [1, 2, 0, 1])
    assert groups_of([2, 10, 2, 1], 4)[0][1].names == ("1", "2", "10")
    assert_array_equal(groups_of(np.arange(30) / 7, 30)[0][1], np.arange(30) / 7)
    ordered = pd.Categorical(["low", "high"], categories=["low", "high"])
    assert groups_of(ordered, 2)[0][1].names == groups_of(pd.Series(ordered), 2)[0][1].names == ("low", "high")
    many = groups_of(["often"] * 9 + [f"once {i}" for i in range(9)], 18, 4)[0][1]
    assert many.names[-1] == "other: 7 categories"
    assert np.bincount(many.codes).tolist()[-1] == 7
    assert groups_of(None, 4) == []
