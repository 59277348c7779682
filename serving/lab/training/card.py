"""The card beside the weights: what the model is, how it was trained, what it can do and what it can't."""

import json
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from serving.lab.locality_of_routes import top_quarter
from serving.lab.training.curve import draw
from serving.lab.training.evaluate import (
    DOCUMENTS,
    LONGEST,
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
from serving.lab.training.export import from_hf, load_model
from serving.lab.training.losses import ROUTER_Z, SEGMENT_BALANCE
from serving.lab.training.progress import LOG
from serving.lab.training.shape import ModelShape
from serving.topics.names import TOPICS

EXPERTS = "experts_by_topic.json"
SHOWN = 2  # answers of each topic in the card


@dataclass(frozen=True, slots=True)
class Facts:
    """What the card tells."""

    settings: dict[str, Any]
    points: list[dict[str, Any]]
    weights: int
    topics: dict[str, TopicResult]
    answers: list[JudgedAnswer]
    readable: float


def describe(folder: Path) -> Facts:
    """Measure the model in `folder`, and write its card, its loss curve and its experts' use there."""
    facts = measure(folder)
    (folder / "README.md").write_text(card(facts), encoding="utf-8")
    draw(facts.points, folder / "loss.png")
    used = {topic: [[round(x, 5) for x in layer] for layer in r.experts.tolist()] for topic, r in facts.topics.items()}
    (folder / EXPERTS).write_text(json.dumps(used) + "\n", encoding="utf-8")
    return facts


def measure(folder: Path) -> Facts:
    """Everything that the card tells, from the files in `folder` and the corpus."""
    lines = (folder / LOG).read_text(encoding="utf-8").splitlines()
    settings, *points = map(json.loads, lines)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    hf = load_model(folder)
    model = from_hf(hf, ModelShape(**settings["shape"]))
    said = answers(hf, tokenizer)
    readable = readable_share([answer.text for answer in said], known_words(settings["seed"]))
    weights = sum(weights.numel() for weights in model.parameters())
    return Facts(settings, points, weights, measure_topics(model, tokenizer), said, readable)


def card(facts: Facts) -> str:
    """Return the card's text."""
    return "\n".join([_model(facts), _data(facts), _losses(facts), _experts(facts), _answers(facts), MEASURED, REPEAT])


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


def _data(facts: Facts) -> str:
    last, s = facts.points[-1], facts.settings
    return f"""## Training

{last["tokens"]:,} tokens of `serving/lab/corpus` (seed {s["seed"]}), in {last["step"]:,} steps of
{s["parts"] * s["part_tokens"]:,} tokens, in {last["seconds"] / 60:.0f} minutes on {s["threads"]} CPU threads
({last["tokens"] / last["seconds"]:,.0f} tokens a second). The corpus is generated: dialogues in {len(TOPICS)} topics
({", ".join(TOPICS)}) and about daily life, and a tenth of the documents are docstrings and licences that lie on the
machine. Nothing of it was made by another model.

Muon for the matrices inside the layers (rate {s["matrix_rate"]:g}), AdamW for embedding, routers and norms (rate
{s["other_rate"]:g}); {s["warm_up"]:.0%} warm-up, level until {s["hold"]:.0%} of the run, then linearly to zero. Tokens
of user and system turns weigh a quarter in the loss. Segments of up to {s["segment"]} tokens, of which
{s["alone"]:.0%} are one document; in the last {1 - s["long_from"]:.0%} of the run half of all tokens are in segments
of {s["part_tokens"]}. Longer contexts than that work, but were never trained. Auxiliary losses of the routers: balance
over the batch {s["balance"]:g}{_loosened(s)}, balance within a segment {SEGMENT_BALANCE:g}, z-loss {ROUTER_Z:g}.
{s.get("note", "")}
![loss](loss.png)
"""


def _loosened(settings: dict[str, Any]) -> str:
    if settings["loose_from"] >= 1:
        return ""
    return f" ({settings['loose_balance']:g} in the last {1 - settings['loose_from']:.0%}, so that experts specialise)"


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
number, if it occurs at least {OFTEN} times in the first {VOCABULARY_DOCUMENTS:,} documents of the training data, or if
it is in the system's dictionary, where there is one.

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

trains it afresh, measures it and writes this card; `foreserve train-bundled --card` only measures. A limit in minutes
gives as many steps as the machine manages; with `foreserve train-bundled --steps N`, the same seed gives the same
weights on the same machine. On another, the docstrings and licences, a tenth of the documents, are others.
"""
