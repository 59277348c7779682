"""How good a trained model is: its loss on held-out text, how it answers, and which experts its topics use."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from transformers import PreTrainedTokenizerFast, Qwen3MoeForCausalLM

from serving.lab.corpus.corpus import DialogueTurn, dialogue, documents, prompts
from serving.lab.training.batches import TokenBatch, batch_of, encode
from serving.lab.training.judging.replies import greedy
from serving.lab.training.losses import cross_entropy
from serving.lab.training.model import TrainedModel
from serving.topics.names import OTHER, TOPICS

PROMPTS = 10  # of each topic, answered greedily
DOCUMENTS = 150  # held-out dialogues of each topic that the loss and the experts' use are measured on
VOCABULARY_DOCUMENTS = 50_000  # of training, whose words are known words
OFTEN = 3  # times that a word must occur in them
SEED = 1


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """What the model said, greedily, to a held-out prompt; `ended` if it came to an end by itself."""

    topic: str
    prompt: str
    text: str
    ended: bool


@dataclass(frozen=True, slots=True)
class TopicResult:
    """Of one topic: the loss in nats a token, over all tokens and over the assistant's alone, and the experts' use."""

    tokens: int
    loss: float
    answer_loss: float
    experts: torch.Tensor  # [layers, experts], the share of routed tokens; each layer sums to one


def held_out(topic: str, tokenizer: PreTrainedTokenizerFast, count: int = DOCUMENTS) -> TokenBatch:
    """Held-out dialogues of a topic: those of odd seeds."""
    backend = tokenizer.backend_tokenizer
    return batch_of([encode(backend, dialogue(topic, 2 * seed + 1)) for seed in range(count)])


def measure_topic(model: TrainedModel, batch: TokenBatch) -> TopicResult:
    """Losses and use of the experts on a batch."""
    with torch.no_grad():
        hidden, routings = model(batch.ids, batch.lengths)
        every, answers = (batch.weights > 0).float(), (batch.weights == 1).float()
        loss, told = (float(cross_entropy(hidden, model.embedding, batch.targets, w)) for w in (every, answers))
    experts = model.shape.experts
    used = [routing.chosen.flatten().bincount(minlength=experts) / routing.chosen.numel() for routing in routings]
    return TopicResult(len(batch.ids), loss, told, torch.stack(used))


def measure_topics(model: TrainedModel, tokenizer: PreTrainedTokenizerFast) -> dict[str, TopicResult]:
    """Every topic's result."""
    return {topic: measure_topic(model, held_out(topic, tokenizer)) for topic in (*TOPICS, OTHER)}


def entropy(used: torch.Tensor) -> torch.Tensor:
    """Of each layer, how evenly the experts are used, in bits."""
    return -(used * used.clamp_min(1e-12).log2()).sum(-1)


def answer(hf: Qwen3MoeForCausalLM, tokenizer: PreTrainedTokenizerFast, topic: str, prompt: str) -> JudgedAnswer:
    """Return the model's greedy answer, to be judged."""
    return JudgedAnswer(topic, prompt, *greedy(hf, tokenizer, [DialogueTurn("user", prompt)]))


def answers(hf: Qwen3MoeForCausalLM, tokenizer: PreTrainedTokenizerFast) -> list[JudgedAnswer]:
    """Greedy answers to held-out prompts of each topic."""
    asked = [(topic, prompt) for topic in TOPICS for prompt in prompts(topic, PROMPTS, SEED)]
    return [answer(hf, tokenizer, topic, prompt) for topic, prompt in asked]


def words_of(text: str) -> Iterator[str]:
    """Its words in lower case: runs of letters with inner apostrophes, and runs of digits."""
    return (match.group().lower() for match in re.finditer(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\d+", text))


def known_words(seed: int, asked: float = 0.0) -> set[str]:
    """Words that occur often enough in what the model was trained on, by its seed and its share of `asked`."""
    stream = islice(documents(seed, "train", asked), VOCABULARY_DOCUMENTS)
    count = Counter(word for document in stream for turn in document.turns for word in words_of(turn.content))
    return {word for word, times in count.items() if times >= OFTEN}


def readable_share(texts: list[str], known: set[str]) -> float:
    """Of all words in `texts`, how many are numbers or known words."""
    words = [word for text in texts for word in words_of(text)]
    return sum(word.isdigit() or word in known for word in words) / max(len(words), 1)
