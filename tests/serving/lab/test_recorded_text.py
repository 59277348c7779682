"""Does `foreserve record` keep what the token model says when it samples as it does by default?"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from serving.recordings.recording import read
from serving.scenario.scenario import BUNDLED

PROMPTS = ["What is a contract?", "Say something about the sea.", "How do I sort a list?"]


def recorded(token_model: Path, folder: Path, seed: int) -> list[int]:
    """Have a model's answers recorded; return their tokens, one answer behind the other."""
    prompts, out = folder / "prompts.txt", folder / f"{seed}.npz"
    prompts.write_text("\n".join(PROMPTS))
    options = ["--token-model", str(token_model), "--prompts-file", str(prompts), "--tokens", "12", "--seed", str(seed)]
    subprocess.run([sys.executable, "-m", "serving.cli", "record", *options, "--out", str(out)], check=True)
    return read(out, token_model).tokens.tolist()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("sampling", "alike"), [({"temperature": 0.0}, True), ({"temperature": 1.0}, False)])
def test_answers_are_sampled_as_the_models_generation_config_says(
    tmp_path: Path, sampling: dict[str, float], alike: bool
) -> None:
    token_model = tmp_path / "model"
    shutil.copytree(BUNDLED / "foreserve-tiny", token_model)
    config = token_model / "generation_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | sampling))
    assert (recorded(token_model, tmp_path, 0) == recorded(token_model, tmp_path, 1)) is alike
