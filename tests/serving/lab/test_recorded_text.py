"""Does `foreserve record` keep what the token model says when it samples as it does by default?"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from serving.lab.recorded_text import of_file
from serving.recordings.recording import read
from serving.scenario.scenario import BUNDLED
from serving.usage_error import UsageError

PROMPTS = ["What is a contract?", "Say something about the sea.", "How do I sort a list?"]


def recorded(token_model: Path, folder: Path, seed: int) -> list[int]:
    """Have a model's answers recorded; return their tokens, one answer behind the other."""
    prompts, out = folder / "prompts.txt", folder / f"{seed}.npz"
    prompts.write_text("\n".join(PROMPTS))
    options = ["--token-model", str(token_model), "--prompts-file", str(prompts), "--tokens", "12", "--seed", str(seed)]
    subprocess.run([sys.executable, "-m", "serving.cli", "record", *options, "--out", str(out)], check=True)
    return read(out, token_model).tokens.tolist()


def test_a_wrong_line_of_a_file_is_told_by_the_number_that_an_editor_shows(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_bytes(b'\xef\xbb\xbf{"prompt": "a\xe2\x80\xa8b"}\r\n\r\n{"prompt": "c", "topic": "sea"}\r\n')
    with pytest.raises(UsageError, match="line 3: there is no topic 'sea'"):
        of_file(prompts)
    prompts.write_text(prompts.read_text().replace("sea", "legal"))
    assert of_file(prompts) == [("", "a\u2028b"), ("legal", "c")]


def test_line_ends_of_windows_are_no_part_of_a_prompt(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_bytes(b"What is a contract?\r\n\r\nHow do I sort a list?\r\n")
    assert of_file(prompts) == [("", "What is a contract?"), ("", "How do I sort a list?")]


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


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_prompt_that_has_no_room_is_named_and_one_beyond_the_usual_room_is_answered(tmp_path: Path) -> None:
    token_model, prompts = BUNDLED / "foreserve-tiny", tmp_path / "prompts.txt"
    most = json.loads((token_model / "config.json").read_text())["max_position_embeddings"]
    prompts.write_text("Why?\n" + "word " * (most + 1))
    command = [sys.executable, "-m", "serving.cli", "record", "--token-model", str(token_model)]
    command += ["--prompts-file", str(prompts), "--tokens", "5", "--out", str(tmp_path / "out.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Prompt 2 has" in done.stderr and f"takes {most}, with the answer" in done.stderr
    prompts.write_text("word " * 2100)
    subprocess.run(command, check=True)
    assert len(read(tmp_path / "out.npz", token_model).tokens) == 5
