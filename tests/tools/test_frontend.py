"""Does `tools/frontend.sh` keep the `vllm-rs` of the vLLM that is installed, and fetch another one anew?"""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools/frontend.sh"


@pytest.mark.parametrize(("there", "is_kept"), [("0.32.0", True), ("0.31.0", False), ("", False)])
def test_a_program_of_another_version_is_not_kept(tmp_path: Path, there: str, is_kept: bool) -> None:
    # A Python whose vLLM is 0.32.0, and whose pip can fetch nothing.
    programs = {"python": 'case "$*" in *vllm_version*) echo 0.32.0;; *) exit 1;; esac'}
    if there:
        programs["vllm-rs"] = f"echo vllm-rs {there}"
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    ended = subprocess.run(["bash", str(SCRIPT), str(tmp_path)], capture_output=True, text=True)
    assert (ended.returncode == 0) is is_kept and ("Fetching" in ended.stdout) is not is_kept
