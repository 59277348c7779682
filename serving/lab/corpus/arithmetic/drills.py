"""Small sums, many of them: single ones with their steps, rows of them, and stories that hide one.

Numbers stay so small that a small model can learn all of them: one digit to add to two or to take from them, the table
of ten, and its quotients. What is larger is written out in steps that are small again.
"""

from zlib import crc32

from serving.lab.corpus.grammar import capital
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import Exchange, TextDraw

WORDS = knowledge("math").words
THINGS, PEOPLE = WORDS["things"], WORDS["people"]
KEPT_BACK = 10
Sum = tuple[int, str, int, int]  # two numbers, what is done with them, and what comes out
ROW_ASKED = (
    "Compute: {s}", "Work these out: {s}", "What are {s}?", "Please calculate {s}.", "Solve these: {s}",
    "Check my homework: {s}", "I need the results of {s}.", "{s}",
)  # fmt: skip
LESS = (
    ("use", "uses", "are left"), ("eat", "eats", "are left"), ("lose", "loses", "are left"),
    ("sell", "sells", "are left"), ("give away", "gives away", "are left"), ("break", "breaks", "are left"),
)  # fmt: skip
MORE = (("buy", "buys"), ("find", "finds"), ("get", "gets"), ("borrow", "borrows"), ("collect", "collects"))


def kept_back(a: int, sign: str, b: int) -> bool:
    """Tell whether this sum is never asked here, so that one can see whether sums are learnt or remembered.

    One in ten is of those that add, subtract or multiply a number of two digits; a + b and b + a are one.
    """
    if max(a, b) < 13 or sign == "/":
        return False
    low, high = sorted((a, b)) if sign in "+*" else (a, b)
    return crc32(f"{low}{sign}{high}".encode()) % KEPT_BACK == 0


def small_sum(draw: TextDraw) -> Sum:
    """Draw a sum, a difference, a product or a quotient of small numbers."""
    while kept_back(*(sum_ := _small_sum(draw))[:3]):
        pass
    return sum_


def _small_sum(draw: TextDraw) -> Sum:
    sign = draw.pick("+++---**/")
    if sign in "+-":
        most_a, most_b = draw.pick(((20, 20), (99, 9), (99, 9), (99, 99)))
        a, b = draw.number(1, most_a), draw.number(1, most_b)
        return (a, "+", b, a + b) if sign == "+" else (max(a, b), "-", min(a, b), abs(a - b))
    a, b = draw.number(2, 10), draw.number(2, 10)
    return (a, "*", b, a * b) if sign == "*" else (a * b, "/", b, a)


def short_sum(draw: TextDraw) -> Sum:
    """Draw a small sum that has no steps: its result is given at once."""
    while steps_of(sum_ := small_sum(draw)):
        pass
    return sum_


def shown(sum_: Sum) -> str:
    """Return the sum as it is asked."""
    return f"{sum_[0]} {sum_[1]} {sum_[2]}"


def solved(sum_: Sum) -> str:
    """Return the sum with its result."""
    return f"{shown(sum_)} = {sum_[3]}"


def steps_of(sum_: Sum) -> str:
    """Return how the result comes about, in steps of tens and ones; nothing where there is only one step."""
    a, sign, b, result = sum_
    if sign == "+" and a > 10 and b > 10:
        tens, ones = 10 * (a // 10 + b // 10), a % 10 + b % 10
        return (
            f"The tens: {10 * (a // 10)} + {10 * (b // 10)} = {tens}. The ones: {a % 10} + {b % 10} = {ones}. "
            f"Together: {tens} + {ones} = {result}."
        )
    if sign == "-" and b > 10 and b % 10:
        left = a - 10 * (b // 10)
        return f"First the tens: {a} - {10 * (b // 10)} = {left}. Then the ones: {left} - {b % 10} = {result}."
    if sign == "*" and a > 10:
        return f"{10 * (a // 10)} * {b} = {10 * (a // 10) * b} and {a % 10} * {b} = {a % 10 * b}. " + (
            f"Together: {10 * (a // 10) * b} + {a % 10 * b} = {result}."
        )
    return ""


def long_product(draw: TextDraw) -> Sum:
    """Draw a product of a number with two digits and one with a single one."""
    while kept_back(a := draw.number(11, 60), "*", b := draw.number(2, 9)):
        pass
    return a, "*", b, a * b


def row(draw: TextDraw) -> Exchange:
    """Draw an exchange on several sums at once."""
    sums = [short_sum(draw) for _ in range(draw.number(3, 9))]
    joint = draw.pick([", ", "; "])
    prompt = draw.pick(ROW_ASKED).replace("{s}", joint.join(map(shown, sums)))
    answer = draw.pick(["\n", ", "]).join(map(solved, sums))
    return Exchange(prompt, answer + ("." if "\n" not in answer else ""), {"shorter": f"{sums[-1][3]}."})


def tale(draw: TextDraw) -> Exchange:
    """Draw a small story with a sum in it."""
    who, things, kind = draw.pick(PEOPLE), draw.pick(THINGS), draw.number(0, 4)
    mine = draw.chance(0.5)
    has, one = ("have", "I") if mine else ("has", who)
    asked = draw.pick(
        [f"How many {things} are left?", f"How many {things} {'do I' if mine else f'does {who}'} have then?"]
    )
    if kind <= 1:
        a, b = sorted((draw.number(2, 50), draw.number(1, 9)), reverse=True)
        while a == b or kept_back(a, "-", b):
            a += 1
        verb = draw.pick(LESS)[0 if mine else 1]
        prompt = f"{one} {has} {a} {things} and {verb} {b}. {asked}"
        told = draw.pick([f"{a} - {b} = {a - b}, so {_are(a - b, things)} left.", f"{a} - {b} = {a - b}."])
        return Exchange(_put(prompt, draw), told, {"shorter": f"{a - b}.", "check": f"Yes: {a - b} + {b} = {a}."})
    if kind == 2:
        verb = draw.pick(MORE)[0 if mine else 1]
        while kept_back(a := draw.number(2, 50), "+", b := draw.number(2, 9)):
            pass
        prompt = f"{one} {has} {a} {things} and {verb} {b} more. How many {things} is that?"
        told = draw.pick([f"{a} + {b} = {a + b}, so there are {a + b} {things}.", f"{a} + {b} = {a + b}."])
        return Exchange(_put(prompt, draw), told, {"shorter": f"{a + b}.", "check": f"Yes: {a + b} - {b} = {a}."})
    a, b = draw.number(2, 10), draw.number(2, 10)
    if kind == 3:
        prompt = draw.pick(
            [
                f"There are {a} bags with {b} {things} each. How many {things} are there?",
                f"{one} {'buy' if mine else 'buys'} {a} boxes of {b} {things}. How many {things} is that?",
                f"One box holds {b} {things}. How many {things} are in {a} boxes?",
            ]
        )
        told = f"{a} * {b} = {a * b}, so there are {a * b} {things}."
        return Exchange(_put(prompt, draw), told, {"shorter": f"{a * b}.", "check": f"Yes: {a * b} / {b} = {a}."})
    prompt = draw.pick(
        [
            f"{a} friends share {a * b} {things} equally. How many does each get?",
            f"{one} {'put' if mine else 'puts'} {a * b} {things} into {a} boxes, the same number in each. "
            "How many are in a box?",
        ]
    )
    told = f"{a * b} / {a} = {b}, so it is {b} each."
    return Exchange(_put(prompt, draw), told, {"shorter": f"{b}.", "check": f"Yes: {a} * {b} = {a * b}."})


def _are(count: int, things: str) -> str:
    return "none is" if count == 0 else f"only {count} is" if count == 1 else f"{count} {things} are"


def _put(prompt: str, draw: TextDraw) -> str:
    return draw.pick(["", "", "", "", "A question: ", "Can you tell me? ", "Help my son: "]) + capital(prompt)
