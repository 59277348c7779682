"""Live texts: what the sequences of a batch say, as vLLM has made it, and the token model's keys and values of it."""

from device_model.step import IntArray
from serving.device.routed_pricing import TracedDevice
from serving.device.token_buffer import KnownText, TokenBuffer
from serving.drafting.attention import KeyValues
from serving.drafting.drafter import DraftContext, drafter
from serving.types import Batch

# Of a prompt, drafts see so many tokens, its last ones: to read a longer one would take longer than a step.
PROMPT_TOKENS = 1024


class LiveTexts:
    """The `Texts` of a live server: those in its token buffer. What is read of a sequence is kept while it runs."""

    def __init__(self, trace: TracedDevice, tokens: TokenBuffer) -> None:
        self._tokens = tokens
        self._drafter = drafter(trace.token_model, trace.draft)
        self._read: dict[str, KeyValues] = {}

    def contexts(self, batch: Batch, context: IntArray, which: list[int]) -> list[DraftContext | None]:
        """Return what sequences say, as far as that has come; None for one whose next token has not."""
        self._read = {id: self._read[id] for id in batch.ids if id in self._read}
        return [self._context(batch.ids[i], batch.released[i]) for i in which]

    def _context(self, id: str, released: int) -> DraftContext | None:
        text = self._tokens.text(id)
        if text is None or not 0 < released - text.first <= len(text.said):
            return None
        ids, at = _ids(text), len(text.prompt[-PROMPT_TOKENS:]) + released - text.first - 1
        had = self._read.get(id, self._drafter.empty())
        done = had.keys.shape[1]
        kv = self._read[id] = self._drafter.read(ids[done:at], had) if done <= at else self._drafter.read(ids[:at])
        return DraftContext(kv, ids[at], ids[at + 1 :])


def _ids(text: KnownText) -> list[int]:
    return [*text.prompt[-PROMPT_TOKENS:], *text.said]
