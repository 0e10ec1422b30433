"""Names and numbers that displays and pages read from a table."""

import numpy as np
import pandas as pd

from probpca.displays.inputs import labels_of, numbers_of


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
