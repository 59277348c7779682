"""Bodies over which vLLM's validators stumble are wrong bodies, and no error of the server's."""

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

from serving.api.guards.validation_guard import guard_validation

CHOSEN = {"type": "function", "function": {"name": "f"}}
STUMBLED = [
    {"tools": [{"type": "function", "function": {}}], "tool_choice": CHOSEN},
    {"tools": [{"type": "function"}], "tool_choice": CHOSEN},
    {"tools": ["f"], "tool_choice": CHOSEN},
    {"tools": [None], "tool_choice": CHOSEN},
]


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()

    @app.post("/chat")
    def chat(request: ChatCompletionRequest) -> dict[str, Any]:
        return {"tools": len(request.tools or [])}

    guard_validation(app)
    return TestClient(app)


@pytest.mark.parametrize("fields", STUMBLED)
def test_they_are_refused_with_a_sentence(client: TestClient, fields: dict[str, Any]) -> None:
    answer = client.post("/chat", json={"messages": [{"role": "user", "content": "Hi"}], **fields})
    assert answer.status_code == 422, "which vLLM's application makes 400"
    assert "another type" in answer.text


def test_others_are_judged_as_before(client: TestClient) -> None:
    hello = {"messages": [{"role": "user", "content": "Hi"}]}
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert client.post("/chat", json={**hello, "tools": tools, "tool_choice": CHOSEN}).json() == {"tools": 1}
    assert client.post("/chat", json=hello | {"max_tokens": "many"}).json()["detail"][0]["loc"][-1] == "max_tokens"
