"""Tools that agents of a workload are offered: functions as OpenAI's API has them, with bounds to their arguments."""

from typing import Any, NamedTuple


class AgentTool(NamedTuple):
    """A function: its name, what it does, and its arguments, all of which are required (JSON schema). It is `tokens` of
    a prompt, by the bundled models' tokenizer and chat template."""

    name: str
    does: str
    tokens: int
    arguments: dict[str, dict[str, Any]]

    @property
    def function(self) -> dict[str, Any]:
        """Return the function as a request tells of it."""
        names = list(self.arguments)
        parameters = {
            "type": "object",
            "properties": self.arguments,
            "required": names,
            "additionalProperties": False,
        }
        return {"name": self.name, "description": self.does, "parameters": parameters}


def _text(most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most}


def _number(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most}


FIRST_TOKENS = 37
"""Of what stands around them: that there are tools, and how they are called."""

TOOLS = (
    AgentTool("search", "Search the documents for a phrase.", 105, {"query": _text(48), "most": _number(20)}),
    AgentTool("read_file", "Read lines of a file.", 109, {"path": _text(48), "first_line": _number(9999)}),
    AgentTool("run_tests", "Run the tests whose names hold a word.", 77, {"word": _text(24)}),
    AgentTool("edit_file", "Put a line into a file.", 99, {"path": _text(48), "line": _text(48)}),
    AgentTool("query", "Ask the database with SQL.", 68, {"sql": _text(64)}),
    AgentTool("fetch_page", "Fetch a page of the intranet.", 80, {"address": _text(64)}),
    AgentTool("send_message", "Send a message to a colleague.", 96, {"to": _text(24), "text": _text(64)}),
    AgentTool("calendar", "List the meetings of a day.", 69, {"day": {"enum": ["today", "tomorrow", "monday"]}}),
)


def prompt_tokens(tools: int) -> int:
    """Return the tokens of a prompt that the first so many tools are."""
    return FIRST_TOKENS + sum(tool.tokens for tool in TOOLS[:tools])
