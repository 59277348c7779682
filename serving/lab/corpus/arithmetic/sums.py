"""Problems of arithmetic, with computed answers."""

from collections.abc import Sequence
from math import gcd, lcm

from serving.lab.corpus.arithmetic.drills import long_product, shown, small_sum, steps_of
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import Exchange, TextDraw

WORDS = knowledge("math").words
THINGS, PEOPLE, SUM_ASKED, TASK_ASKED = (WORDS[name] for name in ("things", "people", "sum_asked", "task_asked"))


def asked(text: str, draw: TextDraw, forms: Sequence[str] = TASK_ASKED) -> str:
    """Return the problem, put in one way or another."""
    return draw.pick(forms).replace("{p}", text)


def more(shorter: str, why: str, check: str) -> dict[str, str]:
    """Answers to what may be asked next."""
    return {"shorter": shorter, "why": why, "check": check}


SPOKEN = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
BACK = {"+": "-", "-": "+", "*": "/", "/": "*"}


def arithmetic(draw: TextDraw) -> Exchange:
    """Draw an exchange on a sum, a difference, a product or a quotient, with or without its steps."""
    sum_ = long_product(draw) if draw.chance(0.12) else small_sum(draw)
    a, sign, b, result = sum_
    text, steps = shown(sum_), steps_of(sum_)
    back = f"{result} {BACK[sign]} {b} = {a}"
    asked_as = draw.pick(SUM_ASKED)
    spoken = text.replace(f" {sign} ", f" {SPOKEN[sign]} ") if draw.chance(0.4) else text
    if draw.chance(0.25):
        spoken = spoken.replace(" * ", " x ")
    tight = spoken.replace(" ", "") if draw.chance(0.1) and spoken == text else spoken
    answer = draw.pick(["{t} = {r}.", "{t} = {r}.", "{t} is {r}.", "We get {t} = {r}."])
    told = answer.replace("{t}", text).replace("{r}", str(result))
    if steps:
        told = f"{steps} So {text} = {result}."
    elif draw.chance(0.2):
        told += f" To check it, note that {back}."
    then = more(f"{result}.", steps or f"Because {back}.", f"Yes: {back}, so {result} is right.")
    return Exchange(asked_as.replace("{p}", tight), told, then)


def percent(draw: TextDraw) -> Exchange:
    """Draw an exchange on a share of a sum, or a price that rises or falls."""
    share, base = draw.pick([5, 10, 20, 25, 30, 40, 50, 60, 75, 80, 90]), 20 * draw.number(1, 10)
    part = share * base // 100
    how = f"{share} percent of {base} is {share} / 100 * {base} = {part}."
    then = more(f"{part}.", "Because percent means out of a hundred.", f"Yes: {part} / {base} is {share} percent.")
    if draw.chance(0.4):
        return Exchange(asked(f"What is {share} percent of {base}?", draw), how, then)
    thing, rises = draw.pick(["coat", "bicycle", "ticket", "camera", "table", "lamp", "piano"]), draw.chance(0.5)
    price = base + part if rises else base - part
    verb = "rises" if rises else "falls"
    task = f"A {thing} costs {base} dollars, and its price {verb} by {share} percent. What is the new price?"
    told = (
        f"{how} The price {verb} by that amount, so it is now {base} {'+' if rises else '-'} {part} = {price} dollars."
    )
    return Exchange(asked(task, draw), told, {**then, "shorter": f"{price} dollars."})


def factors(number: int) -> list[int]:
    """Return the prime factors of a number, ascending."""
    found, divisor = [], 2
    while divisor * divisor <= number:
        if number % divisor:
            divisor += 1
        else:
            found.append(divisor)
            number //= divisor
    return [*found, number] if number > 1 else found


def prime(draw: TextDraw) -> Exchange:
    """Tell whether a number is prime, or its factorisation."""
    number = draw.number(4, 150)
    found = factors(number)
    product = " * ".join(map(str, found))
    if len(found) == 1:
        told = f"Yes, {number} is a prime number. No prime up to its square root divides it."
    else:
        told = f"No, {number} is not a prime number, because {number} = {product}."
    then = more(
        told.split(",")[0] + ".",
        "A prime has no divisors but one and itself.",
        f"The prime factors of {number} are: {product}.",
    )
    if draw.chance(0.5):
        return Exchange(asked(f"Is {number} a prime number?", draw), told, then)
    lead = f"The prime factorisation of {number} is {product}." if len(found) > 1 else f"{number} is itself prime."
    extra = f" The smallest prime that divides it is {found[0]}."
    then["shorter"] = f"{product}."
    return Exchange(asked(f"What is the prime factorisation of {number}?", draw), lead + extra, then)


def common(draw: TextDraw) -> Exchange:
    """Draw an exchange on a greatest common divisor by Euclid, or a least common multiple."""
    a, b = draw.number(6, 60), draw.number(4, 30)
    a, b = max(a, b), min(a, b)
    if draw.chance(0.4):
        multiple = lcm(a, b)
        divisor = gcd(a, b)
        told = f"The greatest common divisor is {divisor}. "
        told += f"So the least common multiple is {a} * {b} / {divisor} = {multiple}."
        then = more(
            f"{multiple}.", "The product counts the common divisor twice.", f"Yes: {multiple} / {a} = {multiple // a}."
        )
        return Exchange(asked(f"What is the least common multiple of {a} and {b}?", draw), told, then)
    lines, p, q = [], a, b
    while q:
        lines.append(f"{p} = {p // q} * {q} + {p % q}")
        p, q = q, p % q
    told = (
        f"Use the method of Euclid. {'. '.join(lines)}. The last divisor is {p}, so the greatest common divisor is {p}."
    )
    then = more(
        f"{p}.", "A common divisor also divides each remainder.", f"Yes: {a} / {p} = {a // p} and {b} / {p} = {b // p}."
    )
    return Exchange(asked(f"What is the greatest common divisor of {a} and {b}?", draw), told, then)


def story(draw: TextDraw) -> Exchange:
    """Draw a word problem, and its answer."""
    one, two = draw.some(PEOPLE, 2)
    things, a, b, c = draw.pick(THINGS), draw.number(2, 12), draw.number(2, 12), draw.number(1, 20)
    if draw.chance(0.5):
        task = f"{one} has {a + c} {things} and gives {c} of them to {two}. {two} already had {b}. "
        task += f"How many {things} does each of them have now?"
        told = f"{one} has {a + c} - {c} = {a} {things} left. {two} now has {b} + {c} = {b + c}."
        short = f"{one} has {a} and {two} has {b + c}."
    else:
        task = f"{one} buys {b} boxes with {a} {things} each and loses {c} of them. How many {things} are left?"
        task, c = (task, c) if c < a * b else (task.replace(f"loses {c}", "loses 1"), 1)
        told = f"{b} boxes with {a} {things} each make {a * b} {things}. "
        told += f"After the loss, {a * b} - {c} = {a * b - c} {things} are left."
        short = f"{a * b - c} {things} are left."
    return Exchange(
        asked(task, draw),
        told,
        more(short, "Take one step after the other.", f"Go back from the end. {short} That fits."),
    )
