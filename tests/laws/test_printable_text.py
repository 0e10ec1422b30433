"""Text of strangers loses what a terminal obeys, and nothing else."""

import json
import unicodedata

from hypothesis import given, strategies as st

from probpca.printable_text import printable, printable_json, printable_line

ESCAPES = st.sampled_from("\x00\x07\x1b\x7f\x9b\u061c\u200f\u2028\u202e\u2066\ufeff\ud800\U000e0041\r\t")
TEXTS = st.text(st.one_of(ESCAPES, st.characters(exclude_categories=["Cs"])), max_size=40)


@given(TEXTS)
def test_no_control_character_is_left_but_line_breaks(text):
    kinds = {unicodedata.category(letter) for letter in printable(text) if letter not in "\n\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert len(printable(text)) == len(text)
    assert printable(printable(text)) == printable(text)
    assert "\n" not in printable_line(text)


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_ordinary_text_stays_as_it_is(text):
    assert printable(f"{text}\n{text}") == f"{text}\n{text}"


def test_words_keep_their_joiners():
    for word in ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "👩\u200d🔬"):
        assert printable(word) == printable_line(word) == word


@given(TEXTS)
def test_json_means_the_same_and_has_no_control_character(text):
    found = printable_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(found) == {text: [text]}
    assert printable(found) == found
