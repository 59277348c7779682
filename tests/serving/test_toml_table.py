"""Does a table of a file know where each of its keys stands?"""

import pickle
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.toml_table import TomlTable, line_of
from serving.usage_error import UsageError

names = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
PATH = Path("it.toml")


def table(text: str) -> TomlTable:
    return TomlTable(tomllib.loads(text), PATH, text)


@given(st.lists(names, unique=True, min_size=1), st.data())
def test_a_key_is_on_the_line_on_which_it_is_written(keys: list[str], data: st.DataObject) -> None:
    blank = data.draw(st.lists(st.integers(0, 3), min_size=len(keys), max_size=len(keys)))
    lines: list[str] = []
    at = {}
    for key, above in zip(keys, blank, strict=True):
        lines += ["# no key"] * above
        quoted = data.draw(st.sampled_from([f"{key} = 1", f"{key}=1", f'"{key}" = 1', f"[{key}]\nx = 1"]))
        if any(line.startswith("[") for line in lines) and not quoted.startswith("["):
            continue  # It would be a key of the table above it.
        at[key] = len("\n".join(lines).splitlines()) + 1
        lines.append(quoted)
    text = "\n".join(lines)
    assert set(tomllib.loads(text)) == set(at)
    assert {key: line_of((key,), text) for key in at} == at


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (("second",), "it.toml, line 2: It is wrong."),
        (("third", "second"), "it.toml, line 2: It is wrong."),
        (("second", "first"), "it.toml, line 2: It is wrong."),
        (("third",), "it.toml: It is wrong."),
        ((), "it.toml: It is wrong."),
    ],
)
def test_an_error_is_told_with_the_line_of_its_first_key_that_is_there(keys: tuple[str, ...], said: str) -> None:
    located = table("first = 1\nsecond = 2\n").located(UsageError("It is wrong.", *keys))
    assert str(located) == said and located.keys == keys
    copy = pickle.loads(pickle.dumps(located))
    assert (str(copy), copy.keys) == (said, keys)


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "a = " + "[" * 5000, "a = 1e", "a = '\udc80'"])
def test_what_cannot_be_read_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "it.toml").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UsageError, match=r"it\.toml is not TOML: "):
        TomlTable.load(tmp_path / "it.toml")


def test_a_file_may_begin_with_a_byte_order_mark_as_editors_on_windows_write_it(tmp_path: Path) -> None:
    path = tmp_path / "it.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\n\r\nb = 2\r\n")
    assert TomlTable.load(path).values == {"a": 1, "b": 2}


def test_a_whole_number_is_what_is_written() -> None:
    assert table(f"seed = {2**53 + 1}").whole("seed") == 2**53 + 1
    with pytest.raises(UsageError, match=r"line 1: `seed` is 10+: it must be a whole number"):
        table(f"seed = {10**400}").whole("seed")


def test_a_key_that_was_never_asked_for_is_refused() -> None:
    found = table("first = 1\nsecond = 2\n")
    found.get("first")
    with pytest.raises(UsageError, match="line 2: there is no key `second`; allowed are first"):
        found.end()


def test_a_list_of_several_lines_has_no_sections_in_it() -> None:
    steps = "steps = [\n  [1, 60],  # [a]\n  ['[', 60],\n]"
    text = f"[arrivals]\nkind = 'steps'\n{steps}\ncvv = 3\n[[more]]\nb = [[1]]\nc = 1\n"
    assert line_of(("arrivals", "cvv"), text) == 7
    assert line_of(("more", 0, "c"), text) == 10


def test_a_name_that_no_file_can_have_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match="line 1: `file` is"):
        table(f"file = '{'a' * 300}'").file("file")
