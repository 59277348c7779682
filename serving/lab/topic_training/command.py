"""`foreserve train-topics`: the written and the generated prompts to the weights of the classifier."""

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from safetensors import SafetensorError
from safetensors.numpy import save_file

from serving.lab.topic_training.generate import generate, mistyped, wrapped
from serving.lab.topic_training.train import accuracy, train
from serving.process.output_folder import make_place
from serving.topics.classifier import WEIGHTS
from serving.topics.labelled_prompts import LabelledPrompt, read_labelled
from serving.usage_error import UsageError

PROMPTS = Path(__file__).parent / "prompts"


def train_topics(out: Path | None, seed: int, held_out: str | None) -> int:
    """Train, and write the weights; with `held_out`, train without that file and say how many of its are right."""
    sources = written()
    if held_out is not None and held_out not in sources:
        raise UsageError(f"--hold-out is {held_out!r}; allowed is one of {', '.join(sources)}.")
    if out is not None or held_out is None:
        make_place("--out", out or WEIGHTS)
    kept = [prompt for name, prompts in sources.items() if name != held_out for prompt in prompts]
    weights = train(prepared(kept, seed), seed)
    if held_out is not None:
        share = accuracy(weights, sources[held_out])
        print(f"{100 * share:.1f} % of the {len(sources[held_out])} prompts in {held_out} are right.")
        if out is None:
            return 0
    try:
        save_file(dict(weights), out or WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise UsageError(f"Cannot write {out or WEIGHTS}: {error}.") from error
    print(f"Written: {out or WEIGHTS}", file=sys.stderr)
    return 0


def written() -> dict[str, list[LabelledPrompt]]:
    """Return the prompts that people wrote, by the name of their file."""
    return {path.stem: read_labelled(path) for path in sorted(PROMPTS.glob("*.tsv"))}


def prepared(prompts: Sequence[LabelledPrompt], seed: int) -> list[LabelledPrompt]:
    """Return what is trained on: the prompts, some of them as hurried people would type them, and generated ones."""
    rng = Random(f"typed/{seed}")
    typed = [LabelledPrompt(p.topic, mistyped(wrapped(p.prompt, rng), rng), p.line) for p in prompts]
    return [*typed, *(LabelledPrompt(topic, prompt, 0) for topic, prompt in generate(seed))]
