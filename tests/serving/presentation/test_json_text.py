"""Is what is written JSON, whatever the figures are, and the same as Python's own where that is?"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from serving.presentation.json_text import json_text

FINITE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves, lambda of: st.lists(of) | st.dictionaries(st.text(), of), max_leaves=10)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@given(nested(FINITE), st.integers(1, 2))
def test_it_is_pythons_own_where_all_is_finite(value: Any, indent: int) -> None:
    assert json_text(value, indent) == json.dumps(value, indent=indent)


@given(nested(FINITE | st.floats()))
def test_what_is_no_number_is_null(value: Any) -> None:
    json.loads(json_text(value), parse_constant=refuse)
    assert json.loads(json_text([float("nan"), float("inf"), (1.5,)])) == [None, None, [1.5]]
