"""Mathematics: its words, and problems whose answers are computed."""

from fractions import Fraction
from math import comb, gcd, lcm

from serving.corpus.knowledge import knowledge, shared
from serving.corpus.parts import Draw, Exchange

KNOWN = knowledge("maths")
THINGS = (
    "apples",
    "books",
    "pencils",
    "tickets",
    "marbles",
    "stamps",
    "eggs",
    "coins",
    "chairs",
    "cards",
    "bottles",
    "shells",
)
PEOPLE = (
    "Anna",
    "Ben",
    "Clara",
    "David",
    "Emma",
    "Felix",
    "Grace",
    "Henry",
    "Ida",
    "Jonas",
    "Kate",
    "Leo",
    "Maria",
    "Noah",
    "Olga",
    "Paul",
)
SUM_ASKED = (
    "What is {p}?", "Calculate {p}.", "How much is {p}?", "Compute {p} for me.", "Can you work out {p}?", "{p}?", "I need the value of {p}.",
    "Please find {p}.",
)  # fmt: skip
TASK_ASKED = (
    "{p}", "{p} Show your work.", "{p} Explain each step.", "Math homework: {p}", "Can you help me with this? {p}", "{p} I am not sure.",
    "Here is a problem. {p}", "Solve this: {p}",
)  # fmt: skip


def _asked(text: str, draw: Draw, forms: tuple[str, ...] = TASK_ASKED) -> str:
    return draw.wording(forms, text[:12]).replace("{p}", text)


def _more(shorter: str, why: str, check: str) -> dict[str, str]:
    return {"shorter": shorter, "why": why, "check": check}


def arithmetic(draw: Draw) -> Exchange:
    """A sum, a difference, a product or a quotient."""
    a, b = draw.number(2, 999), draw.number(2, 99)
    low, high = sorted((a, b))
    word, text, result, back = draw.pick(
        [
            ("plus", f"{a} + {b}", a + b, f"{a + b} - {b} = {a}"),
            ("minus", f"{high} - {low}", high - low, f"{high - low} + {low} = {high}"),
            ("times", f"{a} * {b}", a * b, f"{a * b} / {b} = {a}"),
            ("divided by", f"{a * b} / {b}", a, f"{a} * {b} = {a * b}"),
        ]
    )
    symbol = text.split(" ")[1]
    spoken = text.replace(f" {symbol} ", f" {word} ") if draw.chance(0.4) else text
    answer = draw.pick(["{t} = {r}.", "The result is {r}.", "That is {r}.", "{t} is {r}.", "We get {t} = {r}."])
    check = f" To check it, note that {back}." if draw.chance(0.4) else ""
    told = answer.replace("{t}", text).replace("{r}", str(result)) + check
    more = _more(f"{result}.", f"Because {back}.", f"Yes: {back}, so {result} is right.")
    return Exchange(_asked(spoken, draw, SUM_ASKED), told, more)


def linear(draw: Draw) -> Exchange:
    """A linear equation with a whole solution."""
    a, x, b = draw.number(2, 15), draw.number(-12, 20), draw.number(1, 60)
    c, unknown = a * x + b, draw.pick("xyzntk")
    first = f"Subtract {b} from both sides: {a}{unknown} = {c - b}."
    told = f"{first} Divide by {a}: {unknown} = {x}."
    check = f"{a} * {_signed(x)} + {b} = {c}"
    task = draw.pick(["Solve {e}.", "Find {u} if {e}.", "Solve the equation {e} for {u}.", "What is {u} if {e}?"])
    prompt = _asked(task.replace("{e}", f"{a}{unknown} + {b} = {c}").replace("{u}", unknown), draw)
    more = _more(
        f"{unknown} = {x}.",
        "Because the same step on both sides keeps an equation true.",
        f"Put it in: {check}. It fits.",
    )
    return Exchange(prompt, told + (f" Check: {check}." if draw.chance(0.5) else ""), more)


def _signed(number: int) -> str:
    return f"({number})" if number < 0 else str(number)


def percent(draw: Draw) -> Exchange:
    """A share of a sum, or a price that rises or falls."""
    share, base = 5 * draw.number(1, 19), 20 * draw.number(2, 60)
    part = share * base // 100
    how = f"{share} percent of {base} is {share} / 100 * {base} = {part}."
    more = _more(f"{part}.", "Because percent means out of a hundred.", f"Yes: {part} / {base} is {share} percent.")
    if draw.chance(0.4):
        return Exchange(_asked(f"What is {share} percent of {base}?", draw), how, more)
    thing, rises = draw.pick(["coat", "bicycle", "ticket", "camera", "table", "lamp", "piano"]), draw.chance(0.5)
    price = base + part if rises else base - part
    verb = "rises" if rises else "falls"
    task = f"A {thing} costs {base} dollars, and its price {verb} by {share} percent. What is the new price?"
    told = f"{how} The price {verb} by that amount, so the new price is {base} {'+' if rises else '-'} {part} = {price} dollars."
    return Exchange(_asked(task, draw), told, {**more, "shorter": f"{price} dollars."})


def area(draw: Draw) -> Exchange:
    """The area or the perimeter of a figure."""
    a, b = draw.number(2, 50), 2 * draw.number(1, 30)
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
            ("volume of a cube", f"edge {a}", "the third power of its edge", f"{a} * {a} * {a}", a**3),
            ("area of a parallelogram", f"base {a} and height {b}", "base times height", f"{a} * {b}", a * b),
        ]
    )
    task = draw.pick(["What is the {f} with {g}?", "Find the {f} with {g}.", "How do I compute the {f} with {g}?"])
    told = f"The {figure} is {formula}. Here that is {sum_} = {result}."
    more = _more(f"{result}.", f"Because the {figure} is always {formula}.", f"Yes: {sum_} = {result}.")
    return Exchange(_asked(task.replace("{f}", figure).replace("{g}", given), draw), told, more)


def factors(number: int) -> list[int]:
    """The prime factors, ascending."""
    found, divisor = [], 2
    while divisor * divisor <= number:
        if number % divisor:
            divisor += 1
        else:
            found.append(divisor)
            number //= divisor
    return [*found, number] if number > 1 else found


def prime(draw: Draw) -> Exchange:
    """Whether a number is prime, or its factorisation."""
    number = draw.number(4, 600)
    found = factors(number)
    product = " * ".join(map(str, found))
    if len(found) == 1:
        told = f"Yes, {number} is a prime number. No prime up to its square root divides it."
    else:
        told = f"No, {number} is not a prime number, because {number} = {product}."
    more = _more(
        told.split(",")[0] + ".",
        "A prime has no divisors but one and itself.",
        f"The prime factors of {number} are: {product}.",
    )
    if draw.chance(0.5):
        return Exchange(_asked(f"Is {number} a prime number?", draw), told, more)
    lead = f"The prime factorisation of {number} is {product}." if len(found) > 1 else f"{number} is itself prime."
    extra = f" The smallest prime that divides it is {found[0]}."
    more["shorter"] = f"{product}."
    return Exchange(_asked(f"What is the prime factorisation of {number}?", draw), lead + extra, more)


def common(draw: Draw) -> Exchange:
    """A greatest common divisor by Euclid, or a least common multiple."""
    a, b = draw.number(12, 240), draw.number(8, 120)
    a, b = max(a, b), min(a, b)
    if draw.chance(0.4):
        multiple = lcm(a, b)
        told = f"The greatest common divisor is {gcd(a, b)}. So the least common multiple is {a} * {b} / {gcd(a, b)} = {multiple}."
        more = _more(
            f"{multiple}.", "The product counts the common divisor twice.", f"Yes: {multiple} / {a} = {multiple // a}."
        )
        return Exchange(_asked(f"What is the least common multiple of {a} and {b}?", draw), told, more)
    lines, p, q = [], a, b
    while q:
        lines.append(f"{p} = {p // q} * {q} + {p % q}")
        p, q = q, p % q
    told = (
        f"Use the method of Euclid. {'. '.join(lines)}. The last divisor is {p}, so the greatest common divisor is {p}."
    )
    more = _more(
        f"{p}.", "A common divisor also divides each remainder.", f"Yes: {a} / {p} = {a // p} and {b} / {p} = {b // p}."
    )
    return Exchange(_asked(f"What is the greatest common divisor of {a} and {b}?", draw), told, more)


def following(draw: Draw) -> Exchange:
    """The next number of a sequence."""
    start, step = draw.number(1, 40), draw.number(2, 15)
    ratio = draw.number(2, 4)
    if draw.chance(0.6):
        terms, rule = [start + i * step for i in range(5)], f"Each number is {step} more than the one before."
    else:
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
    more = _more(f"{terms[4]}.", rule, f"Compare neighbours: {terms[2]} and {terms[3]} follow the same rule.")
    return Exchange(_asked(task.replace("{s}", shown), draw), f"{rule} So the next number is {terms[4]}.", more)


def power(coefficient: int, exponent: int) -> str:
    """One term of a polynomial."""
    if exponent == 0:
        return str(coefficient)
    front = "" if coefficient == 1 else str(coefficient)
    return f"{front}x" if exponent == 1 else f"{front}x^{exponent}"


def derivative(draw: Draw) -> Exchange:
    """The derivative of a polynomial."""
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
    more = _more(
        f"{result}.",
        "By the power rule, the exponent comes down as a factor.",
        f"Integrate {result} and you are back, up to a constant.",
    )
    return Exchange(_asked(task.replace("{p}", text), draw), told, more)


def dice(draw: Draw) -> Exchange:
    """A probability with dice, coins or a bag of balls."""
    kind = draw.number(0, 2)
    if kind == 0:
        total = draw.number(2, 12)
        ways, cases = 6 - abs(total - 7), 36
        task, event = f"What is the probability to roll a sum of {total} with two dice?", f"a sum of {total}"
    elif kind == 1:
        count = draw.number(2, 6)
        heads = draw.number(0, count)
        ways, cases = comb(count, heads), 2**count
        task = f"I toss {count} coins. What is the probability of exactly {heads} heads?"
        event = f"exactly {heads} heads"
    else:
        red, blue = draw.number(1, 12), draw.number(1, 12)
        ways, cases = red, red + blue
        task = f"A bag has {red} red and {blue} blue balls. What is the probability to draw a red ball?"
        event = "a red ball"
    share = Fraction(ways, cases)
    verb = "case gives" if ways == 1 else "cases give"
    told = f"There are {cases} equally likely cases. {ways} {verb} {event}. So the probability is {ways}/{cases}"
    told += "." if str(share) == f"{ways}/{cases}" else f" = {share}."
    more = _more(
        f"{share}.",
        "We divide the good cases by all cases, since all are equally likely.",
        f"All other cases have the probability {1 - share}.",
    )
    return Exchange(_asked(task, draw), told, more)


def story(draw: Draw) -> Exchange:
    """A word problem."""
    one, two = draw.some(PEOPLE, 2)
    things, a, b, c = draw.pick(THINGS), draw.number(2, 30), draw.number(2, 12), draw.number(1, 20)
    if draw.chance(0.5):
        task = f"{one} has {a + c} {things} and gives {c} of them to {two}. {two} already had {b}. How many {things} do both have now?"
        told = f"{one} has {a + c} - {c} = {a} {things} left. {two} now has {b} + {c} = {b + c}."
        short = f"{one} has {a} and {two} has {b + c}."
    else:
        task = f"{one} buys {b} boxes with {a} {things} each and loses {c} of them. How many {things} are left?"
        task, c = (task, c) if c < a * b else (task.replace(f"loses {c}", "loses 1"), 1)
        told = f"{b} boxes with {a} {things} each make {a * b} {things}. After the loss, {a * b} - {c} = {a * b - c} {things} are left."
        short = f"{a * b - c} {things} are left."
    return Exchange(
        _asked(task, draw),
        told,
        _more(short, "Take one step after the other.", f"Go back from the end. {short} That fits."),
    )


PROBLEMS = (arithmetic, arithmetic, linear, linear, percent, area, prime, common, following, derivative, dice, story)
MOVES = shared(KNOWN)


def exchange(draw: Draw) -> Exchange:
    """One question on mathematics and its answer."""
    return draw.pick(PROBLEMS)(draw) if draw.chance(0.6) else draw.pick(MOVES)(KNOWN, draw)
