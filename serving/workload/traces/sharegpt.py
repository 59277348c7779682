"""ShareGPT: a JSON list (or a line each) of conversations, whose messages are `from` human or gpt with a `value`, or
have OpenAI's `role` and `content`. Only their lengths are used, and they have no times."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from serving.workload.table import WorkloadError
from serving.workload.traces.rows import NO_TIME, TraceRow, bad, json_rows, unreadable

BYTES_PER_TOKEN = 4  # About what English has, and what three bytes a character make of Chinese.
PIECE = 1 << 20
BLANKS = " \t\r\n"
USERS, ASSISTANTS = ("human", "user"), ("gpt", "assistant", "chatgpt", "bing", "bard")
Count = Callable[[str], int]


def read(path: Path, tokenizer: Path | None = None) -> Iterator[TraceRow]:
    """Yield the conversations in which a user is answered at all; what is said before an answer is one prompt."""
    count = _counter(tokenizer)
    for line, item in json_rows(path) if path.suffix == ".jsonl" else _items(path):
        if turns := tuple(_turns(_messages(item, path, line), count)):
            yield TraceRow(line, NO_TIME, turns)


def estimate(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def _counter(tokenizer: Path | None) -> Count:
    if tokenizer is None:
        return estimate
    from tokenizers import Tokenizer

    try:
        encode = Tokenizer.from_file(str(tokenizer)).encode
    except Exception as error:  # The library raises nothing more special.
        raise WorkloadError(f"{tokenizer} is no tokenizer.json of Hugging Face ({error}).") from error
    # Half of a pair of surrogates, as cut emojis leave, is no text to it.
    return lambda text: len(encode(text.encode(errors="replace").decode(), add_special_tokens=False).ids)


def _turns(messages: list[tuple[str, str]], count: Count) -> Iterator[tuple[int, int]]:
    said, heard = 0, False
    for role, content in messages:
        if role in ASSISTANTS:
            if heard:
                yield max(1, said), max(1, count(content))
            said, heard = 0, False
        else:
            said, heard = said + count(content), heard or role in USERS


def _messages(item: dict[str, Any], path: Path, line: int) -> list[tuple[str, str]]:
    found = item.get("conversations", item.get("messages", item.get("items")))
    try:
        pairs = [(each.get("from", each.get("role")), each.get("value", each.get("content"))) for each in found or ()]
        if found is None or not all(isinstance(part, str) for pair in pairs for part in pair):
            raise TypeError
    except (TypeError, AttributeError):
        sentence = "`conversations` must be a list of messages, each with `from` (human or gpt) and `value`."
        raise bad(path, line, sentence) from None
    return [(str(role), str(content)) for role, content in pairs]


def _items(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSON list, each with its line; the file is never held as a whole."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = _Text(file)
            text.skip(BLANKS)
            is_list = text.next == "["
            text.skip(f"{BLANKS}[")
            while text.next not in ("", "]"):
                line = text.line
                try:
                    item = text.value()
                except (ValueError, RecursionError) as error:
                    why = error.msg if isinstance(error, json.JSONDecodeError) else error
                    raise bad(path, line, f"this is no list of conversations in JSON ({why}).") from error
                if not isinstance(item, dict):
                    raise bad(path, line, "this must be a conversation, a JSON object.")
                yield line, item
                text.skip(f"{BLANKS},")
            if is_list:
                _end(text, path)
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error


def _end(text: "_Text", path: Path) -> None:
    """Raise WorkloadError unless the list ends here, and the file with it."""
    if not text.next:
        raise bad(path, text.line, "the file ends here, and its list of conversations does not.")
    text.skip(f"{BLANKS}]")
    if text.next:
        raise bad(path, text.line, "more follows behind the list of conversations; allowed is one list.")


class _Text:
    """A text that is read piece by piece, and the line that it is at."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._held, self._at = file, "", 0
        self._decode = json.JSONDecoder().raw_decode
        self.line = 1

    @property
    def next(self) -> str:
        """The next letter; none at the end."""
        return self._held[self._at : self._at + 1]

    def skip(self, letters: str) -> None:
        """Go on behind these letters."""
        while (self.next and self.next in letters) or (not self.next and self._read()):
            if self.next and self.next in letters:
                self._go_to(self._at + 1)

    def value(self) -> Any:
        """Return the JSON value that begins here; raise JSONDecodeError if there is none."""
        while True:
            try:
                value, end = self._decode(self._held, self._at)
            except json.JSONDecodeError:
                if not self._read():
                    raise
            else:
                self._go_to(end)
                return value

    def _go_to(self, place: int) -> None:
        self.line += self._held.count("\n", self._at, place)
        self._at = place

    def _read(self) -> bool:
        piece = self._file.read(PIECE)
        self._held, self._at = self._held[self._at :] + piece, 0
        return bool(piece)
