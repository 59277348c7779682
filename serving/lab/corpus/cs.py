"""Computing: concepts, status codes, costs, commands and short pieces of Python."""

from serving.lab.corpus.grammar import capital
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.moves import shared
from serving.lab.corpus.parts import Exchange, TextDraw
from serving.lab.corpus.snippets import snippet

KNOWN = knowledge("cs")
HTTP: list[tuple[str, str, str]] = [tuple(row) for row in KNOWN.tables["http"]]
COSTS: list[tuple[str, str, str]] = [tuple(row) for row in KNOWN.tables["costs"]]
COMMANDS: list[tuple[str, str]] = [tuple(row) for row in KNOWN.tables["commands"]]
STATUS = KNOWN.words["status"]
COST = KNOWN.words["cost"]
COMMAND = KNOWN.words["command"]


def status(draw: TextDraw) -> Exchange:
    """Draw an exchange on an HTTP status."""
    code, name, meaning = draw.pick(HTTP)
    side = {"2": "It is a success.", "3": "It is a redirection.", "4": "The fault is on the side of the client."}
    said = draw.pick(
        [
            "{c} is called {n}. It means that {m}.",
            "Status {c} ({n}) means that {m}.",
            "It says that {m}. Its name is {n}.",
        ]
    )
    first = said.replace("{c}", code).replace("{n}", name).replace("{m}", meaning)
    rest = [side.get(code[0], "The fault is on the side of the server.")][: draw.number(0, 1)]
    more = {
        "shorter": f"{code} means {name}.",
        "example": f"For example, when {meaning}, the answer has the status {code}.",
    }
    return Exchange(KNOWN.ask(STATUS, draw, x=code), " ".join([first, *rest]), more)


def cost(draw: TextDraw) -> Exchange:
    """Draw an exchange on the cost of an operation."""
    operation, order, reason = draw.pick(COSTS)
    first = draw.pick([f"{capital(operation)} takes {order}.", f"The cost is {order}."])
    more = {"why": f"Because {reason}.", "shorter": f"{order}."}
    return Exchange(KNOWN.ask(COST, draw, x=operation), f"{first} The reason is that {reason}.", more)


def command(draw: TextDraw) -> Exchange:
    """Draw an exchange on a command of the shell."""
    name, does = draw.pick(COMMANDS)
    prompt = KNOWN.ask(COMMAND, draw, x=name, y=does)
    manual = draw.pick(["", " Its manual tells more."])
    return Exchange(prompt, f"The command {name} {does}.{manual}", {"shorter": f"It {does}."})


MOVES = shared(KNOWN)
TABLES = (status, cost, command, snippet, snippet, snippet)


def exchange(draw: TextDraw) -> Exchange:
    """One question on computing and its answer."""
    return draw.pick(TABLES)(draw) if draw.chance(0.35) else draw.pick(MOVES)(KNOWN, draw)
