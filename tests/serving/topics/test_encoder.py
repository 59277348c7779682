"""Does numpy compute what torch computes from the same weights?"""

import numpy as np
import torch

from serving.lab.topic_training.encoder import Encoder as TorchEncoder
from serving.lab.topic_training.encoder import model_folder, pooled
from serving.lab.topic_training.pack import packed
from serving.topics.encoder import LINEAR, WIDTH, Encoder
from serving.topics.names import NAMES
from serving.topics.prompt_reader import PromptReader

PROMPTS = ["hi", "Is a verbal agreement binding in Germany?", "x " * 200, ""]
RANK = 4


def test_the_vectors_are_those_of_the_encoder_that_was_trained() -> None:
    """But for what 8 bits a word and half a precision of the matrices leave away."""
    torch.manual_seed(1)
    reader, trained = PromptReader(), TorchEncoder(model_folder())
    learnt = {"head.weight": torch.zeros(len(NAMES), WIDTH), "head.bias": torch.zeros(len(NAMES))}
    for name in LINEAR:
        rows, columns = trained.layers[-1].linear[name][0].shape
        learnt |= {f"{name}.left": torch.randn(rows, RANK) / 50, f"{name}.right": torch.randn(RANK, columns) / 50}
    prompts = [reader.read(prompt) for prompt in PROMPTS]
    ours = Encoder(packed(trained, learnt)).vectors(prompts)

    lengths = [len(prompt) for prompt in prompts]
    below = trained.states(prompts, len(trained.layers) - 1)
    theirs = pooled(trained.layers[-1].changed(learnt)(below, lengths), lengths).numpy()
    assert ours.dtype == np.float32 and ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() < 0.05 * np.abs(theirs).std()
    np.testing.assert_allclose(np.square(ours).mean(1), 1, rtol=1e-5)
