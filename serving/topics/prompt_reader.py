"""Prompt reader: a prompt as the tokens of the encoder; a long one loses its middle, where pasted text lies.

People say what they want before the text that they paste, or after it. So of a prompt of more than `HEAD` + `TAIL`
tokens, the first and the last are kept; and only as many letters as those may have are split into tokens at all, so
that a book costs no more than a page.
"""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

TOKENIZER = Path(__file__).parent / "tokenizer.json"
HEAD, TAIL = 40, 24
# A token has about 4 letters of English; code and other scripts have fewer. This many are enough for any of them.
LETTERS = 12


class PromptReader:
    """MiniLM's own tokenizer (WordPiece, without capitals)."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # The two tokens that the tokenizer puts around an empty text.
        self._first, self._last = self._tokenizer.encode("").ids

    def read(self, prompt: str) -> Sequence[int]:
        """Return at most `HEAD` + `TAIL` tokens of the prompt, between the tokens of its begin and end."""
        ids = self._tokenizer.encode(shortened(prompt), add_special_tokens=False).ids
        kept = ids if len(ids) <= HEAD + TAIL else [*ids[:HEAD], *ids[-TAIL:]]
        return [self._first, *kept, self._last]


def shortened(prompt: str) -> str:
    """Return the prompt without its middle, if no token of that would be kept; the result is valid Unicode."""
    if len(prompt) > LETTERS * (HEAD + TAIL):
        prompt = f"{prompt[: LETTERS * HEAD]} {prompt[-LETTERS * TAIL :]}"
    # Half of a surrogate pair may come through JSON, and no tokenizer takes it.
    return prompt.encode("utf-8", "replace").decode("utf-8")
