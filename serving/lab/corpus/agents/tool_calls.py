"""Tools: chats in which the assistant may call functions, calls them where they fit, and answers from what they return.

Turns are as the bundled chat template writes them: the tools' schemas in a system turn, calls between tags, results in
turns of their own. Names of tools and of their parameters vary, so that they have to be read and not remembered.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from serving.lab.corpus.agents.forms import a_value, in_small_letters
from serving.lab.corpus.grammar import capital, prose
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import DialogueTurn, Document, Exchange, TextDraw
from serving.lab.corpus.typed import ALL_SMALL
from serving.lab.corpus.unknown import made_up
from serving.topics.names import OTHER

TALK, EVERYDAY = knowledge("other").grammar.rules, knowledge("everyday").grammar.rules
HEAD = 'Answer, or call one of these tools: {"name": ..., "arguments": ...} between <tool_call> and </tool_call>.\n'
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


@dataclass(frozen=True)
class ToolUse:
    """A question, what a tool is called with to answer it, what it returns, and the answer made of that."""

    asked: str
    arguments: dict[str, Any]
    result: Any
    answer: str


@dataclass(frozen=True)
class Tool:
    """A kind of tool: names that it may have, what it does, its parameters by name (others that they may have, and
    their schema), and a draw of how it is used."""

    names: tuple[str, ...]
    does: str
    parameters: dict[str, tuple[tuple[str, ...], dict[str, Any]]]
    use: Callable[[TextDraw], ToolUse]
    missed: str | None  # the rule of what is said where there is no such tool; None: what is said with one


def _weather(draw: TextDraw) -> ToolUse:
    city, degrees, sky = (
        a_value("city", draw),
        draw.number(-5, 35),
        draw.pick(["sunny", "cloudy", "rainy", "windy", "clear"]),
    )
    asked = draw.pick(
        [
            "What is the weather in {c}?",
            "How is the weather in {c}?",
            "Will I need an umbrella in {c}?",
            "Is it warm in {c}?",
        ]
    )
    result = draw.pick([{"temperature": degrees, "sky": sky}, f"{degrees} degrees, {sky}"])
    return ToolUse(asked.replace("{c}", city), {"city": city}, result, f"In {city} it is {sky} at {degrees} degrees.")


def _time(draw: TextDraw) -> ToolUse:
    at = f"{draw.number(0, 23):02}:{draw.number(0, 59):02}"
    return ToolUse(
        draw.pick(["What time is it?", "How late is it?", "Tell me the time."]), {}, {"time": at}, f"It is {at}."
    )


def _add(draw: TextDraw) -> ToolUse:
    a, b = draw.number(1, 999), draw.number(1, 999)
    asked = draw.pick(["What is {a} plus {b}?", "Add {a} and {b}.", "How much is {a} + {b}?"])
    result = draw.pick([{"sum": a + b}, a + b])
    return ToolUse(
        asked.replace("{a}", str(a)).replace("{b}", str(b)), {"a": a, "b": b}, result, f"{a} + {b} = {a + b}."
    )


def _search(draw: TextDraw) -> ToolUse:
    what = draw.pick([draw.pick(EVERYDAY["thing"]), draw.pick(EVERYDAY["doing"]), made_up(draw)])
    found = f"{what} is liked by many people in {a_value('city', draw)}."
    asked = draw.pick(
        ["Search for {w}.", "Look up {w} for me.", "Find something about {w}.", "What does the web say about {w}?"]
    )
    return ToolUse(asked.replace("{w}", what), {"query": what}, {"text": found}, f"I found this: {found}")


def _mail(draw: TextDraw) -> ToolUse:
    who, text = (
        a_value("name", draw),
        draw.pick(["I am late.", "Call me, please.", "Happy birthday!", "The meeting is on Monday."]),
    )
    asked = draw.pick(['Write to {n}: "{t}"', 'Send {n} the message "{t}"', 'Tell {n}: "{t}"'])
    asked = asked.replace("{n}", who).replace("{t}", text)
    return ToolUse(asked, {"to": who, "text": text}, {"sent": True}, f"Your message to {who} was sent.")


def _book(draw: TextDraw) -> ToolUse:
    place, day, people = a_value("city", draw), draw.pick(TALK["day"]), draw.number(1, 8)
    asked = draw.pick(["Book a room in {c} for {n} people on {d}.", "I need a hotel in {c} on {d} for {n} people."])
    asked = asked.replace("{c}", place).replace("{d}", day).replace("{n}", str(people))
    told = f"A room in {place} for {people} people is booked for {day}."
    return ToolUse(asked, {"city": place, "day": day, "people": people}, {"booked": True}, told)


def _price(draw: TextDraw) -> ToolUse:
    thing, price = draw.pick(EVERYDAY["thing"]), draw.number(2, 400)
    asked = draw.pick(["How much is a {x}?", "What does a {x} cost?", "Find the price of a {x}."])
    return ToolUse(
        asked.replace("{x}", thing), {"item": thing}, {"price": price}, f"The {thing} costs {price} dollars."
    )


def _light(draw: TextDraw) -> ToolUse:
    room, state = draw.pick(["kitchen", "bathroom", "hall", "bedroom", "garage", "office"]), draw.pick(["on", "off"])
    told = f"The light in the {room} is {state}."
    return ToolUse(f"Switch the light in the {room} {state}.", {"room": room, "state": state}, {"done": True}, told)


def _note(draw: TextDraw) -> ToolUse:
    what, day = draw.pick(EVERYDAY["task"]), draw.pick(TALK["day"])
    asked = draw.pick(["Remind me on {d} to {t}.", "On {d} I want to {t}. Remind me."])
    told = f"I will remind you on {day}."
    return ToolUse(asked.replace("{d}", day).replace("{t}", what), {"day": day, "text": what}, {"saved": True}, told)


CITY = (("city", "place", "location", "town"), STRING)
TOOLS = (
    Tool(
        ("get_weather", "weather", "current_weather", "forecast"),
        "Tells the weather of a city.",
        {"city": CITY},
        _weather,
        "no_weather",
    ),
    Tool(("clock", "get_time", "now", "current_time"), "Tells the time.", {}, _time, "no_time"),
    Tool(
        ("add", "sum", "calculator", "plus"),
        "Adds two numbers.",
        {"a": (("a", "x", "first"), INTEGER), "b": (("b", "y", "second"), INTEGER)},
        _add,
        None,  # sums are worked out without one as well
    ),
    Tool(
        ("search", "web_search", "lookup", "find"),
        "Searches the web.",
        {"query": (("query", "q", "text"), STRING)},
        _search,
        "no_search",
    ),
    Tool(
        ("send_message", "send_mail", "write_to", "message"),
        "Sends a message to somebody.",
        {"to": (("to", "recipient", "name"), STRING), "text": (("text", "body", "message"), STRING)},
        _mail,
        "no_message",
    ),
    Tool(
        ("book_room", "book_hotel", "reserve", "booking"),
        "Books a room in a hotel.",
        {"city": CITY, "day": (("day", "date"), STRING), "people": (("people", "guests"), INTEGER)},
        _book,
        "no_booking",
    ),
    Tool(
        ("get_price", "price", "price_of", "shop"),
        "Tells what something costs.",
        {"item": (("item", "product"), STRING)},
        _price,
        "no_price",
    ),
    Tool(
        ("switch_light", "light", "set_light"),
        "Switches a light.",
        {"room": (("room", "where"), STRING), "state": (("state", "to"), {"enum": ["on", "off"]})},
        _light,
        "no_light",
    ),
    Tool(
        ("remind", "add_note", "reminder"),
        "Keeps a note for a day.",
        {"day": (("day", "date"), STRING), "text": (("text", "note"), STRING)},
        _note,
        "no_reminder",
    ),
)


@dataclass(frozen=True)
class NamedTool:
    """A tool under one of its names: its schema, and its parameters' names."""

    tool: Tool
    name: str
    parameters: dict[str, str]

    def schema(self, draw: TextDraw) -> str:
        """Return its schema as the template has it."""
        fields = {self.parameters[key]: schema for key, (_, schema) in self.tool.parameters.items()}
        does = self.tool.does if draw.chance(0.8) else self.name
        shape = {"type": "object", "properties": fields, "required": list(fields)}
        return json.dumps({"name": self.name, "description": does, "parameters": shape})

    def called(self, use: ToolUse) -> str:
        """Return the call of it."""
        arguments = {self.parameters[key]: value for key, value in use.arguments.items()}
        call = json.dumps({"name": self.name, "arguments": arguments}, ensure_ascii=False)
        return f"<tool_call>{call}</tool_call>"


def named(tool: Tool, draw: TextDraw) -> NamedTool:
    """Draw names for a tool."""
    return NamedTool(
        tool, draw.pick(tool.names), {key: draw.pick(names) for key, (names, _) in tool.parameters.items()}
    )


def without_tools(draw: TextDraw) -> Exchange:
    """Draw a question that only a tool could answer, and what is said where there is none."""
    tool = draw.pick(TOOLS)
    use = tool.use(draw)
    said = {key: str(value) for key, value in use.arguments.items()}
    told = use.answer
    if tool.missed is not None:
        told = knowledge("asked").grammar.expand(f"{{{tool.missed}}}", draw, said)
    return Exchange(use.asked, capital(prose(told)))


def _in_small_letters(use: ToolUse) -> ToolUse:
    """Return the use as it is when the question is typed without capitals."""
    return replace(use, asked=use.asked.lower().rstrip(".?"), arguments=in_small_letters(use.arguments))


def tool_chat(draw: TextDraw, plain: Document, on_the_go: bool = False) -> Document:
    """Draw a chat with tools: one or two calls of them, or `plain` talk for which none of them is needed; if
    `on_the_go`, some questions have no capitals."""
    tools = [named(tool, draw) for tool in draw.some(TOOLS, draw.number(1, 3))]
    turns = [DialogueTurn("system", HEAD + "".join(tool.schema(draw) + "\n" for tool in tools))]
    if draw.chance(0.25):
        return Document(OTHER, (*turns, *(turn for turn in plain.turns if turn.role != "system")))
    for _ in range(2 if draw.chance(0.2) else 1):
        tool = draw.pick(tools)
        use = tool.tool.use(draw)
        if on_the_go and draw.chance(ALL_SMALL):
            use = _in_small_letters(use)
        result = use.result if isinstance(use.result, str) else json.dumps(use.result)
        turns += [
            DialogueTurn("user", use.asked),
            DialogueTurn("assistant", tool.called(use)),
            DialogueTurn("tool", result),
            DialogueTurn("assistant", use.answer),
        ]
    return Document(OTHER, tuple(turns))
