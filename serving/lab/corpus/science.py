"""The sciences: facts about nature, elements and planets, and small sums of physics."""

from serving.lab.corpus.grammar import capital, prose
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.moves import shared
from serving.lab.corpus.parts import Exchange, TextDraw

KNOWN = knowledge("science")
ELEMENTS: list[tuple[str, str, int, str, str]] = [tuple(row) for row in KNOWN.tables["elements"]]
PLANETS: list[tuple[str, str, str, str]] = [tuple(row) for row in KNOWN.tables["planets"]]
ELEMENT = KNOWN.words["element"]
PLANET = KNOWN.words["planet"]
# Wanted, its formula, first known with range and unit, second likewise, unit of the result; the result is a product.
PRODUCTS = (
    ("distance", "speed times time", "speed", "metres per second", "time", "seconds", "metres"),
    ("force", "mass times acceleration", "mass", "kilograms", "acceleration", "metres per second squared", "newtons"),
    ("voltage", "current times resistance", "current", "amperes", "resistance", "ohms", "volts"),
    ("work", "force times distance", "force", "newtons", "distance", "metres", "joules"),
    ("mass", "density times volume", "density", "grams per cubic centimetre", "volume", "cubic centimetres", "grams"),
    ("energy", "power times time", "power", "watts", "time", "seconds", "joules"),
    (
        "momentum",
        "mass times velocity",
        "mass",
        "kilograms",
        "velocity",
        "metres per second",
        "kilogram metres per second",
    ),
)


def element(draw: TextDraw) -> Exchange:
    """Draw an exchange on a chemical element."""
    name, symbol, number, kind, told = draw.pick(ELEMENTS)
    prompt = KNOWN.ask(ELEMENT, draw, x=name, s=symbol, n=str(number))
    first = _first(prompt, name, symbol, number, kind)
    protons = f"Each of its atoms has {number} proton{'s' * (number > 1)}."
    rest = draw.some([told, protons, f"Its symbol is {symbol}.", f"It is a {kind}."], draw.number(1, 3))
    more = {"more": f"{protons} {told}", "shorter": f"{capital(name)} is element number {number}, {symbol}."}
    return Exchange(
        prompt, prose(" ".join([first, *(text for text in rest if not _said(text, first, symbol, kind))])), more
    )


def _said(text: str, first: str, symbol: str, kind: str) -> bool:
    """Tell whether the first sentence says this already."""
    return (text == f"Its symbol is {symbol}." and f"symbol {symbol}." in first) or (
        text == f"It is a {kind}." and kind in first
    )


def _first(prompt: str, name: str, symbol: str, number: int, kind: str) -> str:
    """Return the sentence that answers this question on an element."""
    if "a metal?" in prompt:
        return f"{'Yes' if kind == 'metal' else 'No'}, {name} is a {kind}."
    if "Which element" in prompt:
        return f"That is {name}, a {kind}."
    if "number" in prompt or "protons" in prompt:
        return f"{capital(name)} has the atomic number {number}."
    return f"{capital(name)} is a {kind} with the symbol {symbol}."


def planet(draw: TextDraw) -> Exchange:
    """Draw an exchange on a planet."""
    name, place, kind, told = draw.pick(PLANETS)
    prompt = KNOWN.ask(PLANET, draw, x=name, n=place)
    sort = {"rocky": "a rocky planet", "gas": "a gas giant", "ice": "an ice giant"}[kind]
    first = draw.pick([f"{name} is the {place} planet from the sun.", f"{name} is {sort}, the {place} from the sun."])
    rest = draw.some(
        [told, "It circles the sun like the seven others.", "A telescope shows it well."],
        draw.number(1, 3),
    )
    return Exchange(prompt, " ".join([first, *rest]), {"more": told, "shorter": f"{name} is {sort}."})


def product(draw: TextDraw) -> Exchange:
    """Draw an exchange on a quantity that is the product of two others, or one of those from the product."""
    wanted, formula, first, first_unit, second, second_unit, unit = draw.pick(PRODUCTS)
    a, b = draw.number(2, 12), draw.number(2, 12)
    if draw.chance(0.3):
        given = f"the {wanted} is {a * b} {unit} and the {first} is {a} {first_unit}"
        told = f"Since {wanted} is {formula}, we divide: {a * b} / {a} = {b}. The {second} is {b} {second_unit}."
        return _sum(draw, second, given, told, f"{wanted} is {formula}", f"{a} times {b} is {a * b}")
    given = f"the {first} is {a} {first_unit} and the {second} is {b} {second_unit}"
    told = f"{capital(wanted)} is {formula}. So we get {a} * {b} = {a * b}. The {wanted} is {a * b} {unit}."
    return _sum(draw, wanted, given, told, f"{wanted} is {formula}", f"{a * b} / {a} is {b}")


def _sum(draw: TextDraw, wanted: str, given: str, told: str, law: str, check: str) -> Exchange:
    rest = draw.pick(["", "", " Do not forget the units."])
    more = {"why": f"Because {law}. That is a law of physics.", "check": f"Yes: {check}, so the result is right."}
    return Exchange(KNOWN.ask(KNOWN.words["product"], draw, w=wanted, g=given), told + rest, more)


MOVES = shared(KNOWN)
TABLES = (element, planet, product, product)


def exchange(draw: TextDraw) -> Exchange:
    """One question on nature and its answer."""
    return draw.pick(TABLES)(draw) if draw.chance(0.25) else draw.pick(MOVES)(KNOWN, draw)
