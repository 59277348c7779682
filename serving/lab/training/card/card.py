"""The card beside the weights: what the model is, how it was trained, what it can do and what it can't."""

import json
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from serving.lab.locality_of_routes import top_quarter
from serving.lab.training.card.curve import draw
from serving.lab.training.card.runs import training_of
from serving.lab.training.evaluate import (
    DOCUMENTS,
    OFTEN,
    PROMPTS,
    VOCABULARY_DOCUMENTS,
    JudgedAnswer,
    TopicResult,
    answers,
    entropy,
    known_words,
    measure_topics,
    readable_share,
)
from serving.lab.training.export import TEMPERATURE, TOP_P, from_hf, load_model
from serving.lab.training.judging import agents, arithmetic, long_context, ordinary
from serving.lab.training.judging.agents import AgentResult
from serving.lab.training.judging.arithmetic import SumResult
from serving.lab.training.judging.long_context import LongResult
from serving.lab.training.judging.ordinary import OrdinaryReply
from serving.lab.training.judging.replies import LONGEST
from serving.lab.training.progress import LoggedRun, logged_runs
from serving.lab.training.shape import ModelShape
from serving.topics.names import TOPICS

EXPERTS = "experts_by_topic.json"
SHOWN = 2  # answers of each topic in the card


@dataclass(frozen=True, slots=True)
class Facts:
    """What the card tells."""

    runs: list[LoggedRun]
    weights: int
    topics: dict[str, TopicResult]
    answers: list[JudgedAnswer]
    readable: float
    sums: list[SumResult]
    agents: AgentResult
    ordinary: list[OrdinaryReply]
    long: list[LongResult]

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the last run, whose shape and words the model has."""
        return self.runs[-1].settings


def describe(folder: Path) -> Facts:
    """Measure the model in `folder`, and write its card, its loss curve and its experts' use there."""
    facts = measure(folder)
    (folder / "README.md").write_text(card(facts), encoding="utf-8")
    draw([run.points for run in facts.runs], folder / "loss.png")
    used = {topic: [[round(x, 5) for x in layer] for layer in r.experts.tolist()] for topic, r in facts.topics.items()}
    (folder / EXPERTS).write_text(json.dumps(used) + "\n", encoding="utf-8")
    return facts


def measure(folder: Path) -> Facts:
    """Everything that the card tells, from the files in `folder` and the corpus."""
    runs = logged_runs(folder)
    settings = runs[-1].settings
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    hf = load_model(folder)
    model = from_hf(hf, ModelShape(**settings["shape"]))
    said = answers(hf, tokenizer)
    readable = readable_share(
        [answer.text for answer in said], known_words(settings["seed"], settings.get("asked", 0.0))
    )
    weights = sum(weights.numel() for weights in model.parameters())
    return Facts(
        runs,
        weights,
        measure_topics(model, tokenizer),
        said,
        readable,
        arithmetic.measure(hf, tokenizer),
        agents.measure(hf, tokenizer),
        ordinary.ask(hf, tokenizer, folder),
        long_context.measure(model, tokenizer),
    )


def card(facts: Facts) -> str:
    """Return the card's text."""
    parts = [_model, _training, _losses, _long, _experts, _ordinary, _sums, _agents, _answers]
    return "\n".join([*(part(facts) for part in parts), MEASURED, REPEAT])


def _model(facts: Facts) -> str:
    shape = ModelShape(**facts.settings["shape"])
    return f"""# foreserve-moe

A chat model of {facts.weights / 1e6:.1f} million weights that makes the text when `foreserve` emulates an accelerator
and no GPU is at hand. It is a real mixture of experts in Qwen3-MoE's format, so that what is emulated is also what
runs. Its sentences are plain and mostly readable; **don't believe them**: it is far too small to know or to reason.

| | |
|---|---|
| architecture | `Qwen3MoeForCausalLM`: {shape.layers} layers, hidden size {shape.hidden}, tied embeddings |
| experts | {shape.experts} a layer, {shape.active} of them for each token, intermediate size {shape.expert_hidden} |
| attention | {shape.heads} heads and {shape.kv_heads} KV head of {shape.head_size}, positions to {shape.context:,} |
| vocabulary | {shape.vocabulary}, byte-level BPE, single digits |
| weights | {facts.weights:,}, stored as BF16 |
"""


def _training(facts: Facts) -> str:
    return training_of(facts.runs)


def _losses(facts: Facts) -> str:
    rows = [f"| {t} | {r.loss:.3f} | {r.answer_loss:.3f} | {r.tokens:,} |" for t, r in facts.topics.items()]
    tokens = sum(r.tokens for r in facts.topics.values())
    every, told = (_mean(facts, name) for name in ("loss", "answer_loss"))
    table = "\n".join([*rows, f"| **all** | **{every:.3f}** | **{told:.3f}** | {tokens:,} |"])
    return f"""## Loss on held-out dialogues

Nats a token, on {DOCUMENTS} dialogues of each topic that are not in the training data.

| topic | all tokens | assistant's tokens | tokens |
|---|---|---|---|
{table}
"""


def _mean(facts: Facts, name: str) -> float:
    return float(sum(getattr(r, name) for r in facts.topics.values()) / len(facts.topics))


def _long(facts: Facts) -> str:
    rows = [
        f"| {r.start:,} to {r.start + long_context.BLOCK - 1:,} | {r.loss:.3f} | {r.right} of {r.asked} |"
        for r in facts.long
    ]
    table = "\n".join(rows)
    return f"""## Long contexts

{long_context.COUNT} conversations of {long_context.LEAST:,} to {long_context.MOST:,} tokens that are not in the
training data: nats a token of the assistant's, and of how many facts that the user told first (a name, a city, a
hobby) and asks for there the whole answer is the likeliest. What is not recalled is
made up, however near it was told.

| tokens | loss | recalled |
|---|---|---|
{table}
"""


def _experts(facts: Facts) -> str:
    layers = facts.settings["shape"]["layers"]
    head = " | ".join(f"layer {i}" for i in range(layers))
    rows = []
    for topic, result in facts.topics.items():
        pairs = zip(top_quarter(result.experts.numpy()).tolist(), entropy(result.experts).tolist(), strict=True)
        rows.append(f"| {topic} | " + " | ".join(f"{share:.0%}, {bits:.1f} bits" for share, bits in pairs) + " |")
    table = "\n".join(rows)
    used = torch.stack([result.experts for result in facts.topics.values()]).mean(0)
    count = used.shape[-1]
    return f"""## Experts by topic

What the busiest quarter of the experts gets of a topic's routed tokens (evenly used experts: 25 %), and the entropy of
the use (evenly: {log2(count):.1f} bits), on the same dialogues. Over all topics together the busiest expert of a layer
gets {float(used.max()) * count:.1f} times an even share, the least used one {float(used.min()) * count:.2f} times;
{int((used == 0).sum())} experts are unused. `{EXPERTS}` has all shares, as `[topic][layer][expert]`.

| topic | {head} |
|---|{"---|" * layers}
{table}
"""


def _ordinary(facts: Facts) -> str:
    judged = [reply for reply in facts.ordinary if reply.readable is not None]
    verdict = "Nobody has judged these replies yet."
    if judged:
        readable, on_topic = (sum(bool(getattr(r, name)) for r in judged) for name in ("readable", "on_topic"))
        verdict = (
            f"Judged by reading: {readable} of {len(judged)} can be read, and {on_topic} are about what was asked "
            "(on topic is not yet right)."
        )
    shown = "\n".join(f"**{r.question}**{_verdict(r)}\n\n{_quoted(r.reply)}\n" for r in facts.ordinary)
    return f"""## Ordinary questions

{len(facts.ordinary)} questions that were written down before training (`corpus/judged_questions.json`) and that the
corpus doesn't hold, at the shipped defaults (temperature {TEMPERATURE:g}, top-p {TOP_P:g}; seed {ordinary.SEED}), all
of them shown.
{verdict}

{shown}"""


def _verdict(reply: OrdinaryReply) -> str:
    if reply.readable is None:
        return ""
    words = ("readable" if reply.readable else "not readable", "on topic" if reply.on_topic else "off topic")
    return f" · {', '.join(words)}"


def _sums(facts: Facts) -> str:
    rows = [f"| {r.kind} | {'never' if r.kept_back else 'yes'} | {r.right} of {r.asked} |" for r in facts.sums]
    table = "\n".join(rows)
    return f"""## Sums

Asked as "What is 34 + 57?" and answered greedily. One in {arithmetic.KEPT_BACK} of the larger sums is in no drill of
the training.

| sums | drilled | right |
|---|---|---|
{table}
"""


def _agents(facts: Facts) -> str:
    r = facts.agents
    return f"""## Tools and JSON

Of {r.asked} chats with up to three tools that training never saw, {r.right_tool} replies call the right tool, and
{r.right_call} are right in all arguments. Of {r.asked} answers that are to be JSON, {r.parsed} are, and {r.right_json}
are exactly what was asked for. All greedily, and no grammar guides them.
"""


def _answers(facts: Facts) -> str:
    ended = sum(answer.ended for answer in facts.answers)
    parts = [
        f"**{topic}** · {answer.prompt}\n\n{_quoted(answer.text)}\n"
        for topic in TOPICS
        for answer in [answer for answer in facts.answers if answer.topic == topic][:SHOWN]
    ]
    samples = "\n".join(parts)
    return f"""## Answers

Greedy answers to the first {SHOWN} of {PROMPTS} held-out prompts of each topic, not selected. Over all
{len(facts.answers)}, {facts.readable:.1%} of the words are readable, and {ended} answers end by themselves within
{LONGEST} tokens. A word is a run of letters, with inner apostrophes, or a run of digits; it is readable if it is a
number, or if it occurs at least {OFTEN} times in the first {VOCABULARY_DOCUMENTS:,} documents of the training data.

{samples}"""


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


MEASURED = """## Measured on it

How its routing hits a cache, by `foreserve locality`: [`locality/`](locality/locality.json). How many drafts of its
own it accepts, by `foreserve speculate`: [`speculation/`](speculation/report.md). What it chose for 48 requests of each
topic, for traced residency in virtual time: `routes.npz`, by `foreserve locality --prompts 48 --tokens 96 --record` it.
"""

REPEAT = """## Make it again

    make model

trains it afresh in one run, measures it and writes this card: the same weights, bit for bit, on a CPU of the same type,
and the same corpus on all, but not these ones: their runs were of different types of CPU, and read earlier states of
the corpus. `foreserve train-bundled --card` only measures.
"""
