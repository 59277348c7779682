"""Loads drawn by lot, in virtual time: python -m tests.soak.modes --loads 60

The default mode is to take no more than 2 % longer than the better fixed mode. Who takes longer is told at the end, the
worst first; a load is played alone by `--seed` with its number.
"""

import argparse
import math
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from device_model.load import own_draft
from serving.scenario.scenario import Scenario
from serving.simulation.play import play
from serving.workload import load_workload

FIXED = ("fixed-ar", "fixed-sd")
SYSTEMS = ("elmoe3d", "pim", "logicpim", "nmp")
MODELS = ("qwen3-30b-a3b", "glm-4.7-flash", "deepseek-v2-lite", "gpt-oss-20b")
USERS, PROMPT, ANSWER, MOST_THINK_S = (2, 64), (64, 10_000), (32, 720), 3.0
# Every user asks so often on average: a load that has begun to end is no load.
ROUNDS, LEAST_REQUESTS = 8, 60
MOST_LOST = 0.02


class Load(NamedTuple):
    """Users in a closed loop, and what serves them; tokens are means, from half of it to one and a half."""

    scenario: Scenario
    users: int
    prompt: int
    answer: int
    think_s: float

    def __str__(self) -> str:
        where = f"{self.scenario.system}, {self.scenario.hardware}, {self.scenario.model}, {self.scenario.draft}"
        return f"{self.users} users, {self.prompt} tokens in, {self.answer} out, {self.think_s:.1f} s between ({where})"

    def seconds(self, mode: str) -> float:
        """Play it in a mode; return the emulated seconds per token."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "load.toml"
            file.write_text(
                f"requests = {max(LEAST_REQUESTS, ROUNDS * self.users)}\n"
                f'[arrivals]\nkind = "closed"\nusers = {self.users}\n'
                f'think_s = {{ kind = "constant", value = {self.think_s:.3f} }}\n'
                + "".join(
                    f'[{name}]\nkind = "uniform"\nmin = {mean // 2}\nmax = {mean + mean // 2}\n'
                    for name, mean in (("prompt", self.prompt), ("output", self.answer))
                )
            )
            outcomes, steps = play(load_workload(file), replace(self.scenario, mode=mode))
        return max(step.start_s + step.latency_s for step in steps) / sum(len(each.tokens_s) for each in outcomes)

    def lost(self) -> float:
        """Return the share of time by which the default mode is behind the better fixed one; less than 0 if ahead."""
        return self.seconds("tau") / min(self.seconds(mode) for mode in FIXED) - 1


def drawn(number: int) -> Load:
    """Draw the load of a number: sizes evenly by their logarithm."""
    draw = random.Random(number)

    def size(least: int, most: int) -> int:
        return round(math.exp(draw.uniform(math.log(least), math.log(most))))

    system = draw.choice(SYSTEMS)
    draft = draw.choice(("elastic", "quant")) if system == "elmoe3d" else own_draft(system) or "auto"
    hardware, model = draw.choice(("elmoe3d-4gb", "elmoe3d-8gb")), draw.choice(MODELS)
    scenario = Scenario(system=system, hardware=hardware, model=model, draft=draft, max_num_seqs=64)
    return Load(scenario, size(*USERS), size(*PROMPT), size(*ANSWER), draw.uniform(0.0, MOST_THINK_S))


def main() -> None:
    """Play loads; tell how many lose more than `MOST_LOST`, and which."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first load")
    options = parser.parse_args()
    found = []
    for number in range(options.seed, options.seed + options.loads):
        begun_s, load = time.monotonic(), drawn(number)
        found.append((load.lost(), number))
        print(f"{number}: {found[-1][0]:+.1%}, {load}, {time.monotonic() - begun_s:.0f} s", flush=True)
    worse = sorted((each for each in found if each[0] > MOST_LOST), reverse=True)
    print(f"{len(worse)} of {len(found)} loads lose more than {MOST_LOST:.0%} to the better fixed mode.")
    for lost, number in worse:
        print(f"{lost:.1%}: load {number}, {drawn(number)}")


if __name__ == "__main__":
    main()
