"""Tables show every cell in its place, and names cannot break out of them."""

from html.parser import HTMLParser

import narwhals.stable.v2 as nw
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from probpca.result_tables import Names, ResultTable, Section, frame_of, intervals, numbers, words

HOSTILE = "<script>alert('x')</script> & \"b\"\n\x1b[31mred"


class Cells(HTMLParser):
    """The text of every cell of an HTML table, and the names of all tags."""

    def __init__(self, html):
        super().__init__()
        self.cells, self.tags, self.rows = [], set(), []
        self.feed(html)

    def handle_starttag(self, tag, _):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data):
        if self.rows and self.lasttag in ("th", "td"):
            self.rows[-1].append(data)


def table(**options):
    columns = words("name", ["a", HOSTILE], **options), numbers("value", [0.5, 1234.25])
    return ResultTable((Section(f"heading {HOSTILE}", columns, (f"remark {HOSTILE}",)),))


def test_html_holds_every_cell_and_no_tag_of_a_name():
    found = Cells(table()._repr_html_())
    assert found.tags == {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert found.rows == [["name", "value"], ["a", "0.5"], [HOSTILE, "1,234.2"]]


def test_text_has_one_line_for_each_row_and_no_control_characters():
    lines = str(table()).splitlines()
    assert len(lines) == 5
    assert lines[2].split() == ["a", "0.5"]
    assert all(line.isprintable() for line in lines)
    assert len({len(line) for line in lines[1:4]}) == 1  # numbers end in one column


@pytest.mark.parametrize("width", [40, 60, 88])
def test_columns_beyond_the_width_are_counted(width):
    columns = [words("row", ["first", "second"]), *(numbers(f"column {j}", [j, 2.5]) for j in range(20))]
    *lines, last = ResultTable((Section("", tuple(columns)),)).text(width).splitlines()
    assert max(map(len, lines)) <= width
    assert last == f"... and {20 - lines[0].count('column')} more columns"


def test_a_text_at_the_end_of_a_line_takes_what_is_left():
    section = Section("", (words("row", ["first"]), words("why", ["because " * 30], longest=None)))
    assert len(ResultTable((section,)).text(60).splitlines()[1]) == 60


@pytest.mark.parametrize("values", [[0.00012345, 0.1], [123456.0, 1.0], [1e-9, 2e-9], [1e12, 0.0], [0.0, 0.0]])
def test_numbers_are_shown_to_about_four_digits_of_the_largest(values):
    shown = [float(cell.replace(",", "")) for cell in numbers("", values).cells]
    assert_array_equal(np.abs(np.subtract(shown, values)) <= 1e-3 * max(values), True)


def test_missing_numbers_are_empty_cells_and_infinite_ones_are_shown():
    assert list(numbers("", [np.nan, np.inf, 1.0]).cells) == ["", "inf", "1"]
    assert list(intervals("", [1.0], [-np.inf], [np.inf]).cells) == ["1 (-inf to inf)"]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_long_columns_hold_each_cell_once(backend):
    pytest.importorskip(backend)
    matrix = np.arange(6.0).reshape(3, 2)
    columns = Names(("a", "b")).long_columns("row", value=matrix)
    frame = frame_of(columns, backend)
    found = {name: np.asarray(frame[name]).tolist() for name in ("row", "feature", "value")}
    places = zip(found["row"], map("ab".index, found["feature"]), strict=True)
    assert [matrix[place] for place in places] == found["value"]


def test_a_library_that_is_not_installed_is_an_error_with_a_hint(monkeypatch):
    def absent(*_, **__):
        raise ModuleNotFoundError

    monkeypatch.setattr(nw, "from_dict", absent)
    with pytest.raises(ModuleNotFoundError, match=r"needs pandas, which is not installed.\nHint: to_frame\(backend"):
        frame_of({"a": [1.0]})


def test_columns_that_are_left_out_are_counted_together():
    columns = (words("row", ["first"]), *(numbers(f"column {j}", [1.5]) for j in range(9)))
    table = ResultTable((Section("", columns, n_hidden=4),))
    assert table.text(40).splitlines()[-1] == f"... and {4 + 9 - table.text(40).count('column ')} more columns"
    assert "... and 4 more columns" in table._repr_html_()
