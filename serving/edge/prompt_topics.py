"""The topic of a prompt that comes as tokens: for requests whose clients do not say, where a policy wants to know."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from serving.topics.service import TopicService

log = logging.getLogger("foreserve")

# From either end of a prompt: more than what the classifier reads of it, in a vocabulary that has shorter pieces.
ENDS = 128


class PromptTopics:
    """Asks the classifier, in its own thread."""

    def __init__(self, service: TopicService, decode: Callable[[list[int]], str]) -> None:
        """`decode` makes text of a token model's tokens."""
        self._service, self._decode = service, decode

    async def of(self, tokens: Sequence[int]) -> str:
        """The topic of a prompt; "" if it can't be said, which is no reason to turn a request away."""
        cut = list(tokens) if len(tokens) <= 2 * ENDS else [*tokens[:ENDS], *tokens[-ENDS:]]
        try:
            return (await self._service.classify(self._decode(cut))).name
        except Exception as error:
            log.error("A prompt's topic could not be told (%s); it is served without.", error)
            return ""

    async def close(self) -> None:
        """Ask no more."""
        await self._service.close()


def open_topics(tokenizer: Any) -> PromptTopics:
    """The classifier, for prompts of a tokenizer (`PreTrainedTokenizer`), in the running loop. Raises SpecError."""
    from serving.topics.classifier import Classifier

    return PromptTopics(
        TopicService(Classifier.load()), lambda tokens: str(tokenizer.decode(tokens, skip_special_tokens=True))
    )
