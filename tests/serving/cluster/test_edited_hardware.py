"""A server whose device model dies while its hardware file is being edited serves again once the file is right."""

import time
from pathlib import Path

import openai
import pytest

from device_model.specs.spec_file import SPECS
from serving.process.server_process import server
from tests.patience import until
from tests.serving.cluster.test_recovery import TOKENS, ask, processes, put_up, states_of

# Real seconds in which the device model is tried more than once.
BROKEN_S = 4.0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_device_model_is_tried_until_its_file_can_be_read(tmp_path: Path) -> None:
    whole = (SPECS / "hardware" / "elmoe3d-4gb.toml").read_text()
    own = tmp_path / "my.toml"
    own.write_text(whole)
    with server("--hardware", str(own), "--speed", "4", "--token-model", "foreserve-tiny", quiet=True) as child:
        client = openai.OpenAI(base_url=f"{child.http_url}/v1", api_key="none", timeout=120)
        before = ask(client, 1, [])
        assert len(before) == TOKENS
        put_up(child)
        own.write_text("[half a")
        processes(child, "DeviceModelActor")[0].kill()
        until(lambda: states_of(child)["device model"] != "up")
        time.sleep(BROKEN_S)
        own.write_text(whole)
        assert ask(client, 1, []) == before
        put_up(child)
