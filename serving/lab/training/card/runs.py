"""What a model's card tells of its training: the runs that made it, one after the other."""

from itertools import pairwise
from typing import Any

from serving.lab.training.losses import DISTINCT, IDLE, IDLENESS, ROUTER_Z
from serving.lab.training.progress import LoggedRun
from serving.topics.names import TOPICS


def training_of(runs: list[LoggedRun]) -> str:
    """Return how the runs, each from the weights of the one before, trained a model."""
    s = runs[0].settings
    return f"""## Training

{_taken(runs[0])}
The corpus is generated, and the same on every machine: dialogues in {len(TOPICS)} topics ({", ".join(TOPICS)})
and about daily life, questions that nobody here can answer, sums, chats with tools, answers as JSON. Its facts, words
and sentences were written for it, with the help of a language model; no other text is in it. {_asked(s)}

Muon for the matrices inside the layers (rate {s["matrix_rate"]:g}), AdamW for embedding, routers and norms (rate
{s["other_rate"]:g}); up in {s["warm_up"]} steps, level, and linearly to zero in the last {s["fall"]:,}. Tokens
that the assistant doesn't write weigh a quarter in the loss. Segments of up to {s["segment"]} tokens, of which
{s["alone"]:.0%} are one document; of the last {s["long"]:,} steps one in {s["long_every"]} has conversations of up to
{s["long_tokens"]:,} tokens in half of its parts, in which what was told first is asked for last, so that long
contexts are learnt (how well: below) and short ones are not forgotten. No token is dropped.
Auxiliary losses of the routers: balance over many batches together {s["balance"]:g} (none within a
batch, a segment or a topic); the sameness of topics {s["same"]:g}, as long as a topic's use is
less than {DISTINCT:g} bits apart from that of all (in so short a run that doesn't come by itself); {IDLENESS:g} on
what an expert lacks of {IDLE:.0%} of an even share; z-loss {ROUTER_Z:g}.
{"".join(_went_on(*each) for each in pairwise(runs))}
![loss](loss.png)
"""


def _taken(run: LoggedRun) -> str:
    last, s = run.points[-1], run.settings
    return f"""{last["tokens"]:,} tokens of `serving/lab/corpus` (seed {s["seed"]}), in {last["step"]:,} steps of
{s["parts"] * s["part_tokens"]:,} tokens, in {last["seconds"] / 60:.0f} minutes of {s["threads"]} cores of a
machine that others used as well ({last["tokens"] / last["seconds"]:,.0f} tokens a second), products with the output
and with attention's matrices in {"BF16" if s["narrow"] else "single precision"}."""


def _asked(settings: dict[str, Any]) -> str:
    return f"""Of its documents {settings.get("asked", 0.0):.0%} are questions on
anything at all, whose answers take up their words, or say who would know (`corpus/asked.py`)."""


def _went_on(before: LoggedRun, run: LoggedRun) -> str:
    """Tell of a run that began with another's weights."""
    s = run.settings
    return f"""
Then, from those weights (SHA-256 {s["began"][:16]}...{_widened(before, run)}) on, {_taken(run)}
{_asked(s)} Of the segments {s["alone"]:.0%} are one document. The sameness of topics weighs {s["same"]:g};
the learning rates rise to {min(s["steps"] / s["fall"], 1.0):.0%} of those above at most, and fall linearly to
zero{_stopped(run)}.{_kept(run)}
"""


def _widened(before: LoggedRun, run: LoggedRun) -> str:
    sizes = [each.settings["shape"]["head_size"] for each in (before, run)]
    return f", its heads widened from {sizes[0]} to {sizes[1]}" if sizes[0] != sizes[1] else ""


def _kept(run: LoggedRun) -> str:
    kept = run.settings.get("kept", 1.0)
    return f" The weights are {kept:.0%} of the way from those that it began with to its last ones." if kept < 1 else ""


def _stopped(run: LoggedRun) -> str:
    steps = run.settings["steps"]
    return f" in {steps:,} steps, of which these are the first" if run.points[-1]["step"] < steps else ""
