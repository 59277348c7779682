"""Mathematics: its words, and problems whose answers are computed."""

from fractions import Fraction
from math import comb

from serving.lab.corpus.arithmetic.daily_sums import bill, clock, degrees, journey, units
from serving.lab.corpus.arithmetic.drills import row, tale
from serving.lab.corpus.arithmetic.sums import arithmetic, asked, common, more, percent, prime, story
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.moves import shared
from serving.lab.corpus.parts import Exchange, TextDraw

KNOWN = knowledge("math")


def linear(draw: TextDraw) -> Exchange:
    """Draw an exchange on a linear equation with a whole solution."""
    a, x, b = draw.number(2, 9), draw.number(-5, 12), draw.number(1, 30)
    c, unknown = a * x + b, draw.pick("xyzntk")
    first = f"Subtract {b} from both sides: {a}{unknown} = {c - b}."
    told = f"{first} Divide by {a}: {unknown} = {x}."
    check = f"{a} * {_signed(x)} + {b} = {c}"
    task = draw.pick(["Solve {e}.", "Find {u} if {e}.", "Solve the equation {e} for {u}.", "What is {u} if {e}?"])
    prompt = asked(task.replace("{e}", f"{a}{unknown} + {b} = {c}").replace("{u}", unknown), draw)
    then = more(
        f"{unknown} = {x}.",
        "Because the same step on both sides keeps an equation true.",
        f"Put it in: {check}. It fits.",
    )
    return Exchange(prompt, told + (f" Check: {check}." if draw.chance(0.5) else ""), then)


def _signed(number: int) -> str:
    return f"({number})" if number < 0 else str(number)


def area(draw: TextDraw) -> Exchange:
    """Draw an exchange on the area or the perimeter of a figure."""
    a, b = draw.number(2, 12), 2 * draw.number(1, 6)
    figure, given, formula, sum_, result = draw.pick(
        [
            ("area of a rectangle", f"sides {a} and {b}", "the product of its sides", f"{a} * {b}", a * b),
            (
                "perimeter of a rectangle",
                f"sides {a} and {b}",
                "twice the sum of its sides",
                f"2 * ({a} + {b})",
                2 * (a + b),
            ),
            (
                "area of a triangle",
                f"base {a} and height {b}",
                "half of base times height",
                f"{a} * {b} / 2",
                a * b // 2,
            ),
            ("area of a square", f"side {a}", "the square of its side", f"{a} * {a}", a * a),
            (
                "volume of a cube",
                f"edge {b // 2}",
                "the third power of its edge",
                f"{b // 2} * {b // 2} * {b // 2}",
                (b // 2) ** 3,
            ),
            ("area of a parallelogram", f"base {a} and height {b}", "base times height", f"{a} * {b}", a * b),
        ]
    )
    task = draw.pick(["What is the {f} with {g}?", "Find the {f} with {g}.", "How do I compute the {f} with {g}?"])
    told = f"The {figure} is {formula}. Here that is {sum_} = {result}."
    then = more(f"{result}.", f"Because the {figure} is always {formula}.", f"Yes: {sum_} = {result}.")
    return Exchange(asked(task.replace("{f}", figure).replace("{g}", given), draw), told, then)


def following(draw: TextDraw) -> Exchange:
    """Draw an exchange on the next number of a sequence."""
    start, step = draw.number(1, 30), draw.number(2, 12)
    ratio = draw.number(2, 3)
    if draw.chance(0.6):
        terms, rule = [start + i * step for i in range(5)], f"Each number is {step} more than the one before."
    else:
        start = 1 + start % 5
        terms, rule = [start * ratio**i for i in range(5)], f"Each number is {ratio} times the one before."
    shown = ", ".join(map(str, terms[:4]))
    task = draw.pick(
        [
            "What comes next: {s}?",
            "Continue the sequence {s}.",
            "Which number follows in {s}?",
            "Find the next number: {s}.",
        ]
    )
    then = more(f"{terms[4]}.", rule, f"Compare neighbours: {terms[2]} and {terms[3]} follow the same rule.")
    return Exchange(asked(task.replace("{s}", shown), draw), f"{rule} So the next number is {terms[4]}.", then)


def power(coefficient: int, exponent: int) -> str:
    """One term of a polynomial."""
    if exponent == 0:
        return str(coefficient)
    front = "" if coefficient == 1 else str(coefficient)
    return f"{front}x" if exponent == 1 else f"{front}x^{exponent}"


def derivative(draw: TextDraw) -> Exchange:
    """Draw an exchange on the derivative of a polynomial."""
    exponents = sorted(draw.some(range(5), draw.number(2, 3)), reverse=True)
    terms = [(draw.number(1, 12), exponent) for exponent in exponents]
    changed = [(coefficient * exponent, exponent - 1) for coefficient, exponent in terms if exponent]
    text, result = (" + ".join(power(*term) for term in part) for part in (terms, changed))
    steps = " ".join(
        f"The derivative of {power(*old)} is {power(*new)}." for old, new in zip(terms, changed, strict=False)
    )
    task = draw.pick(["What is the derivative of {p}?", "Differentiate {p}.", "Find the derivative of f(x) = {p}."])
    told = (
        f"{steps} Together this gives {result}."
        if draw.chance(0.6)
        else f"By the power rule, the derivative is {result}."
    )
    then = more(
        f"{result}.",
        "By the power rule, the exponent comes down as a factor.",
        f"Integrate {result} and you are back, up to a constant.",
    )
    return Exchange(asked(task.replace("{p}", text), draw), told, then)


def dice(draw: TextDraw) -> Exchange:
    """Draw an exchange on a probability with dice, coins or a bag of balls."""
    kind = draw.number(0, 2)
    if kind == 0:
        total = draw.number(2, 12)
        ways, cases = 6 - abs(total - 7), 36
        task, event = f"What is the probability of rolling a sum of {total} with two dice?", f"a sum of {total}"
    elif kind == 1:
        count = draw.number(2, 6)
        heads = draw.number(0, count)
        ways, cases = comb(count, heads), 2**count
        event = f"exactly {heads} head{'s' * (heads != 1)}"
        task = f"I toss {count} coins. What is the probability of {event}?"
    else:
        red, blue = draw.number(1, 12), draw.number(1, 12)
        ways, cases = red, red + blue
        task = f"A bag has {red} red and {blue} blue balls. What is the probability of drawing a red ball?"
        event = "a red ball"
    share = Fraction(ways, cases)
    verb = "case gives" if ways == 1 else "cases give"
    told = f"There are {cases} equally likely cases. {ways} {verb} {event}. So the probability is {ways}/{cases}"
    told += "." if str(share) == f"{ways}/{cases}" else f" = {share}."
    then = more(
        f"{share}.",
        "We divide the good cases by all cases, since all are equally likely.",
        f"All other cases have the probability {1 - share}.",
    )
    return Exchange(asked(task, draw), told, then)


PROBLEMS = (
    *(arithmetic,) * 12,
    *(row,) * 5,
    *(tale,) * 4,
    *(units,) * 2,
    *(bill, clock, degrees, journey),
    *(linear, linear, percent, area, prime, common, following, derivative, dice, story),
)
MOVES = shared(KNOWN)


def exchange(draw: TextDraw) -> Exchange:
    """One question on mathematics and its answer."""
    return draw.pick(PROBLEMS)(draw) if draw.chance(0.75) else draw.pick(MOVES)(KNOWN, draw)
