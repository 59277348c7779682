"""Does a request of our own fit into the context, however short that is?"""

import pytest

from serving.token_source.chunks import PROBED, probe


@pytest.mark.parametrize(("context", "prompt"), [(4096, PROBED), (48, PROBED), (40, 24), (16, 1), (2, 1)])
def test_a_probe_is_no_longer_than_the_context(context: int, prompt: int) -> None:
    request = probe("a", 16, context)
    assert len(request.prompt_token_ids) == prompt and request.sampling_params.max_tokens == 16
