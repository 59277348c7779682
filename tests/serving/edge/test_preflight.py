"""Is what a scenario names beside its devices what it can be, before anything is started?"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from serving.edge.preflight import answers_of
from serving.recordings.answers import AnswerLimits
from serving.recordings.recording import FILE, RecordedAnswer, read, tokenizer_of, write
from serving.scenario.scenario import BUNDLED_MODEL, RECORDED_TEXT, Scenario
from serving.token_model.route_format import format_of
from serving.types import Request
from serving.usage_error import UsageError

FORM = format_of(str(BUNDLED_MODEL))


def scenario(path: Path, routes: np.ndarray) -> Scenario:
    """Return one with traced residency, and a recording of one answer with these routes."""
    write(path / FILE, [RecordedAnswer("law", [5] * len(routes), True, routes)], tokenizer_of(BUNDLED_MODEL))
    return Scenario(text=RECORDED_TEXT, recording=str(path / FILE), residency="trace")


def test_recorded_routes_reach_devices_in_the_format_that_they_read(tmp_path: Path) -> None:
    layers, experts, top_k = FORM.routers
    routes = np.arange(6 * layers * top_k).reshape(6, layers, top_k) % experts
    asked = scenario(tmp_path, routes)
    found = read(tmp_path / FILE, BUNDLED_MODEL)
    arrays = {name: getattr(found, name) for name in ("tokens", "ends", "topic_of", "finished")}
    header = np.load(tmp_path / FILE)["header"]
    for kind in (np.uint8, np.int64):
        np.savez(tmp_path / FILE, header=header, routes=routes.astype(kind), **arrays)
        answers = answers_of(asked)
        assert answers is not None
        chunks = answers.answer(Request("r", 0.0, 1, 6), AnswerLimits()).page(0, 6)
        assert np.array_equal(np.concatenate([FORM.read(chunk.routes or b"") for chunk in chunks]), routes), kind


@pytest.mark.parametrize("wrong", [{"layers": 5}, {"top_k": 3}, {"experts": 99}])
def test_recorded_routes_of_another_model_are_refused(tmp_path: Path, wrong: dict[str, int]) -> None:
    layers, experts, top_k = FORM.routers._replace(**wrong)
    asked = scenario(tmp_path, np.full((6, layers, top_k), experts - 1))
    with pytest.raises(UsageError, match=r"are of another model than .*, whose routers choose 4 of 64 experts"):
        answers_of(asked)
    assert answers_of(replace(asked, residency="analytic")) is not None
