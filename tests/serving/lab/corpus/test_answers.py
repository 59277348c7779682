"""Computed answers are right: each is found again from the words of its question, in another way where there is one."""

import re
from fractions import Fraction
from itertools import permutations, product
from math import gcd, lcm, prod
from random import Random

import pytest

from serving.lab.corpus import humanities, logic, maths, members, puzzles, science
from serving.lab.corpus.arithmetic import daily_sums, sums
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.moves import compare
from serving.lab.corpus.parts import Exchange, TextDraw

SEEDS = range(150)


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", text)]


def drawn(make: object) -> list[Exchange]:
    return [make(TextDraw(Random(seed))) for seed in SEEDS]  # type: ignore[operator]


def last(text: str) -> int:
    return numbers(text)[-1]


EQUALITY = re.compile(r"(?<![\w^])(?<![-+*/=] )([\d(][\d ()*+/-]*) = (-?[\d ()*+/-]*\d)(?![\d^a-z])")


def exact(sum_: str) -> Fraction:
    return Fraction(eval(re.sub(r"(\d+)", r"Fraction(\1)", sum_), {"Fraction": Fraction}))


@pytest.mark.parametrize(
    "make",
    [
        *(sums.arithmetic, sums.percent, sums.common, sums.prime, sums.story, maths.area, maths.linear),
        *(daily_sums.units, daily_sums.degrees, daily_sums.bill, daily_sums.clock, daily_sums.journey),
    ],
)
def test_each_equality_in_an_answer_holds(make: object) -> None:
    seen = 0
    for exchange in drawn(make):
        for left, right in EQUALITY.findall(exchange.answer + " " + " ".join(exchange.more.values())):
            assert exact(left) == exact(right)
            seen += 1
    assert seen > len(SEEDS) / 3


def test_arithmetic() -> None:
    signs = {"plus": "+", "minus": "-", "times": "*", " x ": " * ", "divided by": "/"}
    for exchange in drawn(sums.arithmetic):
        asked = exchange.prompt
        for word, sign in signs.items():
            asked = asked.replace(word, sign)
        expression = re.search(r"\d+ ?[-+*/] ?\d+", asked)
        assert expression and eval(expression.group()) == int(exchange.more["shorter"].rstrip("."))
        assert exchange.more["shorter"].rstrip(".") in exchange.answer


def test_linear_equations() -> None:
    for exchange in drawn(maths.linear):
        a, b, c = numbers(re.search(r"\d+[a-z] \+ \d+ = -?\d+", exchange.prompt).group())  # type: ignore[union-attr]
        x = last(exchange.more["shorter"])
        assert a * x + b == c
        assert f" = {x}." in exchange.answer


def test_percentages() -> None:
    for exchange in drawn(sums.percent):
        share, base = sorted(numbers(exchange.prompt), key=lambda number: f"{number} percent" not in exchange.prompt)
        change = Fraction(share * base, 100)
        price = base + change if "rises" in exchange.prompt else base - change
        assert last(exchange.answer) == (price if "price" in exchange.prompt else change)


def test_primes() -> None:
    for exchange in drawn(sums.prime):
        number = numbers(exchange.prompt)[0]
        is_prime = all(number % divisor for divisor in range(2, number))
        factors = numbers(exchange.more["check"])[1:]
        assert prod(factors) == number
        assert (len(factors) == 1) == is_prime
        assert ("Yes" in exchange.answer or "itself prime" in exchange.answer) == is_prime


def test_common_divisors_and_multiples() -> None:
    for exchange in drawn(sums.common):
        a, b = numbers(exchange.prompt)
        assert last(exchange.answer) == (lcm(a, b) if "multiple" in exchange.prompt else gcd(a, b))


def test_sequences_go_on() -> None:
    for exchange in drawn(maths.following):
        a, b, c, d = numbers(exchange.prompt)
        assert last(exchange.answer) in {
            d + (d - c) if d - c == c - b == b - a else 0,
            d * d // c if b * b == a * c else 0,
        }


def at(polynomial: str, x: float) -> float:
    return float(eval(re.sub(r"(\d)x", r"\1*x", polynomial).replace("^", "**"), {"x": x}))


def test_derivatives_agree_with_differences() -> None:
    for exchange in drawn(maths.derivative):
        asked = re.search(r"\d*x.*?(?=[?.]|$)", exchange.prompt.replace("f(x) = ", ""))
        found = exchange.more["shorter"].rstrip(".")
        assert asked and exchange.answer.endswith(f" {found}.")
        assert at(found, 1.5) == pytest.approx(
            (at(asked.group(), 1.5001) - at(asked.group(), 1.4999)) / 0.0002, rel=1e-5
        )


def test_probabilities_by_counting() -> None:
    for exchange in drawn(maths.dice):
        found = Fraction(exchange.more["shorter"].rstrip("."))
        asked = numbers(exchange.prompt)
        if "dice" in exchange.prompt:
            rolls = [sum(roll) == asked[0] for roll in product(range(1, 7), repeat=2)]
        elif "coins" in exchange.prompt:
            rolls = [sum(toss) == asked[1] for toss in product((0, 1), repeat=asked[0])]
        else:
            rolls = [True] * asked[0] + [False] * asked[1]
        assert found == Fraction(sum(rolls), len(rolls))
        assert str(found) in exchange.answer


def test_products_of_physics() -> None:
    for exchange in drawn(science.product):
        one, two = numbers(re.sub(r"squared", "", exchange.prompt))
        assert last(exchange.answer.replace("squared", "")) in (one * two, one // two)


def test_events_are_put_in_order() -> None:
    years = {event: year for event, year, _ in humanities.EVENTS}
    for exchange in drawn(humanities.earlier):
        named = sorted((event for event in years if event in exchange.prompt), key=lambda event: years[event])
        assert exchange.answer.lower().startswith(named[0].lower())


def test_books_are_answered_with_what_is_asked() -> None:
    works = {row[0]: row for row in humanities.WORKS}
    for exchange in drawn(humanities.book):
        _, author, year, _, subject = next(row for title, row in works.items() if title in exchange.prompt)
        if re.search("Who|author|writer", exchange.prompt):
            assert author in exchange.answer
        if re.search("When|when|year", exchange.prompt):
            assert str(year) in exchange.answer
        if re.search("about|story|tell of|happens", exchange.prompt.replace("Tell me about", "")):
            assert subject in exchange.answer


def is_valid(premises: list[str], claim: str) -> bool:
    """By trying all models with up to four kinds of things: which of the three properties occur together."""
    terms = sorted({word for text in [*premises, claim] for word in re.split(r"(?:all|some|no) | are ", text) if word})
    kinds = list(product((False, True), repeat=len(terms)))

    def holds(text: str, model: tuple[bool, ...]) -> bool:
        quantifier, rest = text.split(" ", 1)
        one, two = (terms.index(term) for term in rest.split(" are "))
        things = [kind for kind, there in zip(kinds, model, strict=True) if there and kind[one]]
        return {
            "all": all(t[two] for t in things),
            "some": any(t[two] for t in things),
            "no": not any(t[two] for t in things),
        }[quantifier]

    models = product((False, True), repeat=len(kinds))
    return all(holds(claim, model) for model in models if all(holds(text, model) for text in premises))


def test_syllogisms_in_all_models() -> None:
    for exchange in drawn(logic.syllogism):
        text = exchange.prompt.lower()
        found = re.search(r"((?:all|some|no) [^.]*)\. ([^.]*)\. does it follow that ([^?]*)\?", text)
        assert found
        assert exchange.answer.startswith("Yes") == is_valid([found[1], found[2]], found[3])


def test_conditionals() -> None:
    for exchange in drawn(logic.conditional):
        found = re.search(r"If (.*), then (.*)\. We know that (.*)\. Can we conclude that (.*)\?", exchange.prompt)
        assert found
        p, q, second, claim = found.groups()
        not_p, not_q = logic.negated(p), logic.negated(q)
        assert exchange.answer.startswith("Yes") == ((second, claim) in {(p, q), (not_q, not_p)})
        assert {second, claim} in ({p, q}, {not_p, not_q})


def test_chains_end_where_the_links_lead() -> None:
    for exchange in drawn(logic.chain):
        links = dict(re.findall(r"If (.*?), then (.*?)\.", exchange.prompt))
        now = re.search(r"Now (.*?)\.", exchange.prompt)[1]  # type: ignore[index]
        while now in links:
            now = links[now]
            assert now in exchange.answer
        assert exchange.answer.endswith(f"{now}.")


def test_truth_tables() -> None:
    for exchange in drawn(logic.table):
        for p, q, value in re.findall(
            r"[w]ith . (true|false) and . (true|false), the formula .* is (true|false)", exchange.answer.lower()
        ):
            assert (value == "true") == evaluated(exchange.prompt, p == "true", q == "true")
        for p, q, value in re.findall(
            r"If . is (true|false) and . is (true|false), it is (true|false)", exchange.answer
        ):
            assert (value == "true") == evaluated(exchange.prompt, p == "true", q == "true")


def evaluated(prompt: str, p: bool, q: bool) -> bool:
    formula = re.search(r"(?:value|table) of: (.*?)\?", prompt)[1]  # type: ignore[index]
    one, two = sorted(set(re.findall(r"\b[pqrst]\b", formula)))
    python = re.sub(r"if (.*) then (.*)", r"(not \1) or \2", formula).replace("if and only if", "==")
    return bool(eval(python, {one: p, two: q}))


def test_knights_and_knaves_by_trying_all() -> None:
    for exchange in drawn(puzzles.knights):
        said = re.findall(r'(\w+) says: "(\w+) is a (knight|knave)\."', exchange.prompt)
        known, kind = re.search(r"We know that (\w+) is a (\w+)\.", exchange.prompt).groups()  # type: ignore[union-attr]
        names = sorted({name for one, two, _ in said for name in (one, two)})
        worlds = [dict(zip(names, world, strict=True)) for world in product(("knight", "knave"), repeat=len(names))]
        fits = [w for w in worlds if w[known] == kind and all((w[a] == "knight") == (w[b] == k) for a, b, k in said)]
        assert len(fits) == 1
        assert dict(re.findall(r"(\w+) is a (knight|knave)", exchange.answer)) == fits[0]


def test_orders_by_trying_all() -> None:
    for exchange in drawn(puzzles.ordering):
        pairs = re.findall(r"(\w+) is \w+er than (\w+)\.", exchange.prompt)
        names = {name for pair in pairs for name in pair}
        orders = [order for order in permutations(names) if all(order.index(a) < order.index(b) for a, b in pairs)]
        assert len(orders) == 1
        assert ", ".join(orders[0]) in exchange.answer
        top = next(most for comparative, most, _ in puzzles.ORDERS if f" {comparative} than" in exchange.prompt)
        assert exchange.more["shorter"] == f"{orders[0][0 if f'the {top}?' in exchange.prompt else -1]}."


def test_sets() -> None:
    for exchange in drawn(puzzles.member):
        one, two = (set(numbers(part)) for part in re.findall(r"contain ([\d, and]*)", exchange.prompt))
        name = re.search(r"union|intersection|difference", exchange.prompt).group()  # type: ignore[union-attr]
        assert (
            set(numbers(exchange.answer))
            == {"union": one | two, "intersection": one & two, "difference": one - two}[name]
        )


def test_negations_are_true_exactly_when_the_sentence_is_false() -> None:
    forms = {"all are": "some are not", "some are": "no are", "no are": "some are", "some are not": "all are"}
    for exchange in drawn(logic.negation):
        asked = re.search(r"\b(all|some|no) (\w+) (are not|are) (\w+)[?.]", exchange.prompt)
        found = re.search(r"negation is: (all|some|no) (\w+) (are not|are) (\w+)\.", exchange.answer)
        assert asked and found
        assert forms[f"{asked[1]} {asked[3]}"] == f"{found[1]} {found[3]}"
        assert (asked[2], asked[4]) == (found[2], found[4])


def test_degrees_are_those_of_the_other_scale() -> None:
    for exchange in drawn(daily_sums.degrees):
        given, result = numbers(exchange.prompt)[0], numbers(exchange.more["shorter"])[0]
        to_celsius = "Celsius" in exchange.more["shorter"]
        celsius, fahrenheit = (result, given) if to_celsius else (given, result)
        assert fahrenheit == celsius * 1.8 + 32
        assert exchange.answer.endswith(f"it is {result} degrees {'Celsius' if to_celsius else 'Fahrenheit'}.")


def test_what_belongs_to_a_kind_has_what_all_of_it_has() -> None:
    forms = {
        r"[Ii]f every (?P<kind>.*) has (?P<trait>.*) and (?P<one>.*) is an? (?P=kind), does (?P=one) have": "Yes",
        r"Each (?P<kind>.*) has (?P<trait>.*)\. An? .* is an? (?P=kind)\. Does it have (?P=trait)": "Yes",
        r"[Ii]f every (?P<kind>.*) has (?P<trait>.*) and (?P<one>.*) has (?P=trait), is (?P=one) an? (?P=kind)": "No",
        r"[Ii]f every (?P<kind>.*) has (?P<trait>.*) and (?P<one>.*) does not have (?P=trait), can": "No",
        r"[Ii]f only some (?P<kind>.*)s have (?P<trait>.*) and (?P<one>.*) is an? (?P=kind), does": "We do not know",
        r"[Ii]f no (?P<kind>.*) has (?P<trait>.*) and (?P<one>.*) is an? (?P=kind), does": "No",
    }
    seen = set()
    for exchange in drawn(members.belonging):
        matched = [form for form in forms if re.search(form, exchange.prompt)]
        assert len(matched) == 1 and exchange.answer.startswith(forms[matched[0]])
        seen.update(matched)
    assert len(seen) == len(forms)


def test_people_mostly_compare_what_they_mix_up() -> None:
    known = knowledge("science")
    pairs = [{one.name, other.name} for one, other in known.pairs]
    compared = [compare(known, TextDraw(Random(seed))).answer for seed in SEEDS]
    natural = [
        text for text in compared if any(all(name in text.lower() for name in map(str.lower, pair)) for pair in pairs)
    ]
    assert len(natural) > 0.6 * len(compared)


def test_no_plain_question_is_there_twice_and_all_have_answers() -> None:
    for name in ("legal", "humanities", "cs", "science", "math", "logic"):
        asked = [wording for wordings, _ in knowledge(name).quizzes for wording in wordings]
        assert len(set(asked)) == len(asked)
        assert all(wording.endswith(("?", ".")) for wording in asked)
        told = [text for _, texts in knowledge(name).quizzes for text in texts]
        told += [text for _, texts in knowledge(name).whys for text in texts]
        assert all(text.endswith(".") and (text[0].isupper() or text[0].isdigit()) for text in told)


def test_no_definition_is_given_twice_and_all_have_facts() -> None:
    for name in ("legal", "humanities", "cs", "science", "math", "logic"):
        concepts = knowledge(name).concepts
        assert len({concept.definition for concept in concepts}) == len(concepts)
        assert all(len(concept.facts) >= 2 for concept in concepts)
        assert all(fact.endswith((".", "?")) for concept in concepts for fact in concept.facts)
