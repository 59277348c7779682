"""Is a file of prompts read as its lines say, and refused in words that help?"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.topics.labelled_prompts import LabelledPrompt, read_labelled
from serving.topics.names import NAMES
from serving.usage_error import UsageError


def read(tmp_path, data):
    path = tmp_path / "mine.tsv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_labelled(path)


def test_lines_keep_their_order_and_number(tmp_path):
    assert read(tmp_path, "cs\twhat is a pointer\n\nmath\t2+2?\n") == [
        LabelledPrompt("cs", "what is a pointer", 1),
        LabelledPrompt("math", "2+2?", 3),
    ]


def test_only_the_first_tab_divides(tmp_path):
    assert read(tmp_path, "cs\tif x:\treturn\ty")[0].prompt == "if x:\treturn\ty"


def test_windows_line_ends_and_byte_order_marks_are_no_part_of_anything(tmp_path):
    assert read(tmp_path, b"\xef\xbb\xbflogic\tall A are B\r\nother\thi\r\n") == [
        LabelledPrompt("logic", "all A are B", 1),
        LabelledPrompt("other", "hi", 2),
    ]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.text(min_size=1).map(str.strip).filter(bool)), min_size=1))
def test_what_is_written_is_read(tmp_path_factory, rows):
    rows = [(topic, prompt.replace("\n", " ").replace("\r", " ").strip() or "x") for topic, prompt in rows]
    text = "\n".join(f"{topic}\t{prompt}" for topic, prompt in rows)
    found = read(tmp_path_factory.mktemp("rows"), text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
    assert [prompt.topic for prompt in found] == [topic for topic, _ in rows]


@pytest.mark.parametrize(
    "data, said",
    [
        ("", "mine.tsv has no prompts"),
        (" \n\n", "mine.tsv has no prompts"),
        ("cs\tok\nno tab here", "mine.tsv, line 2: there is no tab"),
        ("cs\tok\n\nmaths\t1+1", "mine.tsv, line 3: there is no topic 'maths' (did you mean `math`?); allowed are"),
        ("cs\tok\nother\t  ", "mine.tsv, line 2: the prompt is empty"),
        (b"cs\tok\ncs\tcaf\xe9", "mine.tsv, line 2: this is not UTF-8"),
        (b"\xef\xbb\xbfcs\tok\n\xe9", "mine.tsv, line 2: this is not UTF-8"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line(tmp_path, data, said):
    with pytest.raises(UsageError) as error:
        read(tmp_path, data)
    assert said in str(error.value)


def test_a_missing_file_is_named():
    with pytest.raises(UsageError, match=r"Cannot read nowhere/mine.tsv: No such file"):
        read_labelled(Path("nowhere/mine.tsv"))
