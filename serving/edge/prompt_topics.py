"""Classifies tokenized prompts whose clients name no topic, where a policy needs one."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from serving.admission_request import AdmissionRequest

# Most servers classify nothing, and are to load no classifier.
if TYPE_CHECKING:
    from serving.topics.service import TopicService

log = logging.getLogger("foreserve")

# From either end of a prompt: more than what the classifier reads of it, in a vocabulary that has shorter pieces.
ENDS = 128


class PromptTopics:
    """Asks the classifier, which runs in a thread of its own."""

    def __init__(self, service: "TopicService", decode: Callable[[list[int]], str]) -> None:
        """`decode` turns the token model's ids into text."""
        self._service, self._decode = service, decode

    async def of(self, tokens: Sequence[int]) -> str:
        """Return the topic of a prompt; "" if classification fails, which refuses no request."""
        cut = list(tokens) if len(tokens) <= 2 * ENDS else [*tokens[:ENDS], *tokens[-ENDS:]]
        try:
            return (await self._service.classify(self._decode(cut))).name
        except Exception as error:
            log.error("The topic of a prompt could not be found (%s): the request is served without one.", error)
            return ""

    async def close(self) -> None:
        """Stop asking."""
        await self._service.close()


async def find_topic(
    topics: PromptTopics | None, tokens: Sequence[int], admitted: AdmissionRequest, now: Callable[[], float]
) -> tuple[float, float] | None:
    """Have what is admitted say what its prompt is about, once for all its choices; return from when until when that
    was asked for, if it was: nobody is asked where its client has named it, or there are no `topics`."""
    if admitted.topic or topics is None:
        return None
    asked_s = now()
    admitted.topic = await topics.of(tokens)
    return asked_s, now()


def open_topics(tokenizer: Any) -> PromptTopics:
    """Start the classifier for prompts of a tokenizer (`PreTrainedTokenizer`) in the running loop."""
    from serving.topics.classifier import Classifier
    from serving.topics.service import TopicService

    return PromptTopics(
        TopicService(Classifier.load()), lambda tokens: str(tokenizer.decode(tokens, skip_special_tokens=True))
    )
