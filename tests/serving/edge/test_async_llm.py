"""Does vLLM's front end, on emulated devices, take what clients may send it?"""

import asyncio
from types import SimpleNamespace
from typing import Any

from serving.edge.async_llm import EmulatedLLM


def test_only_ids_that_are_strings_are_aborted_here_or_passed_on() -> None:
    elsewhere, here = list[str](), list[str]()
    llm: Any = SimpleNamespace(
        output_processor=SimpleNamespace(external_req_ids={"mine"}),
        engine_core=SimpleNamespace(abort_elsewhere=elsewhere.extend),
        abort_here=lambda ids, internal: here.extend(ids),
    )
    named: Any = [1, "mine", ["mine"], {}, None, "another's"]
    asyncio.run(EmulatedLLM.abort(llm, named))
    assert (here, elsewhere) == (["mine", "another's"], ["another's"])
    asyncio.run(EmulatedLLM.abort(llm, "mine"))
    assert (here[2:], elsewhere[1:]) == (["mine"], [])
