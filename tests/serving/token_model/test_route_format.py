"""Of which token models is it known how they route?"""

import json
from pathlib import Path

import pytest

from serving.scenario.scenario import BUNDLED, BUNDLED_MODEL
from serving.token_model.route_format import format_of, is_routed
from serving.usage_error import UsageError


def test_bundled_models_tell() -> None:
    assert is_routed(str(BUNDLED_MODEL)) and is_routed(str(BUNDLED / "foreserve-tiny"))
    assert format_of(str(BUNDLED_MODEL)).routers.top_k > 1


def test_of_another_family_it_is_not_known_and_that_is_said(tmp_path: Path) -> None:
    config = json.loads((BUNDLED_MODEL / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "phi3"}))
    assert not is_routed(str(tmp_path))
    with pytest.raises(UsageError, match=r"isn't known how it routes.* model_type is 'phi3'; allowed are"):
        format_of(str(tmp_path))
