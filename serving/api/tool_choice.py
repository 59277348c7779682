"""Tool choice of a bundled token model, which was never taught to call tools: told by rule when it does.

Left to choose ("auto"), it calls a tool for what a user has said, and answers in text once a tool has told its result:
the turns that an agent's loop has. Arguments are guided by the tools' schemas, as with "required".
"""

from typing import Any

AUTO, REQUIRED = "auto", "required"


def choose_tool(request: Any) -> None:
    """Have a chat request of vLLM's call a tool, if it may and its last message is the user's."""
    if request.tools and request.tool_choice == AUTO and request.messages[-1].get("role") == "user":
        request.tool_choice = REQUIRED
