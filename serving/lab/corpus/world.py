"""Countries, animals, the calendar, words and units: questions that tables answer."""

from serving.lab.corpus.grammar import capital, listed, plural, prose
from serving.lab.corpus.knowledge import load
from serving.lab.corpus.parts import Exchange, TextDraw

TABLES = load("world")["tables"]
COUNTRIES: list[list[str]] = TABLES["countries"]
ANIMALS: list[list[str]] = TABLES["animals"]
KINDS: dict[str, list[str]] = TABLES["kinds"]
FEW = {2: "two", 3: "three", 4: "four", 5: "five"}
DAYS = dict(zip(KINDS["month"], (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True))


def country(draw: TextDraw) -> Exchange:
    """Draw an exchange on a country."""
    name, seat, continent, language, told = draw.pick(COUNTRIES)
    facts = {
        f"The capital of {name} is {seat}.": (
            f"What is the capital of {name}?",
            f"Which city is the capital of {name}?",
            f"Do you know the capital of {name}?",
            f"What is the capital city of {name}?",
        ),
        f"{capital(name)} lies in {continent}.": (
            f"Where is {name}?",
            f"On which continent is {name}?",
            f"In which part of the world is {name}?",
        ),
        f"In {name}, people speak {language}.": (
            f"Which language do people speak in {name}?",
            f"What do they speak in {name}?",
            f"What is the language of {name}?",
        ),
        f"{seat} is the capital of {name}.": (
            f"Of which country is {seat} the capital?",
            f"Where is {seat}?",
            f"In which country is {seat}?",
            f"What is {seat}?",
        ),
        told: (f"What is {name} known for?", f"Tell me something about {name}.", f"What do you know about {name}?"),
    }
    if draw.chance(0.15):
        return _visit(name, seat, draw)
    first = draw.pick(list(facts))
    # The sentence on the country begins with "it", so it follows on nothing but the country.
    rest = [fact for fact in facts if fact not in (first, told) and not (seat in fact and seat in first)]
    answer = " ".join([first, *rest[: draw.number(0, 1)]])
    lies = f"{capital(name)} lies in {continent}."
    return Exchange(draw.pick(facts[first]), answer, {"more": f"{lies} {told}", "shorter": first})


def _visit(name: str, seat: str, draw: TextDraw) -> Exchange:
    """Draw an exchange on a trip to the country."""
    days = draw.pick(["two days", "three days", "a week"])
    prompt = draw.pick(
        [
            f"Which city should I visit in {name}?",
            f"I am going to {name}. Where should I start?",
            f"What should I see in {name}?",
            f"Plan a trip to {name} for me.",
        ]
    )
    told = f"In {name}, I would begin with {seat}, the capital. Take {days} for it, and then go on."
    return Exchange(prompt, told, {"shorter": f"Begin with {seat}."})


def animal(draw: TextDraw) -> Exchange:
    """Draw an exchange on an animal, or on two of them."""
    name, kind, food, home, told = draw.pick(ANIMALS)
    many = plural(name.split(" ", 1)[1])
    if draw.chance(0.25):
        return _two_animals(draw)
    facts = {
        f"eats {food}.": (f"What do {many} eat?", f"What does {name} eat?", f"What do {many} live on?"),
        f"lives {home}.": (f"Where do {many} live?", f"Where does {name} live?"),
        f"is {_a(kind)}.": (f"What kind of animal is {name}?", f"What is {name}?"),
        told: (
            f"Tell me something about {many}.",
            f"Tell me something interesting about {many}.",
            f"What is special about {many}?",
            f"Do you know a fun fact about {many}?",
        ),
    }
    first = draw.pick(list(facts))
    prompt = draw.pick(facts[first])
    opening = f"{capital(name)} is {_a(kind)}. {told}" if first == told else f"{capital(name)} {first}"
    rest = [fact if fact == told else f"It {fact}" for fact in facts if fact != first and fact[:-1] not in opening]
    return Exchange(
        prose(prompt), prose(" ".join([opening, *rest[: draw.number(0, 2)]])), {"more": prose(" ".join(rest))}
    )


def _two_animals(draw: TextDraw) -> Exchange:
    (one, kind, food, home, told), (two, other, diet, place, known) = draw.some(ANIMALS, 2)
    if draw.chance(0.5):
        asked = draw.pick([kind, other])
        right = asked == kind
        told = f"{'Yes' if right else 'No'}, {one} is {_a(kind)}. {told}"
        return Exchange(prose(f"Is {one} {_a(asked)}?"), prose(told), {"shorter": "Yes." if right else "No."})
    prompt = draw.pick(
        [
            f"What is the difference between {one} and {two}?",
            f"What's the difference between {one} and {two}?",
            f"How is {one} different from {two}?",
            f"Compare {one} and {two}.",
        ]
    )
    first = (
        f"Both are {plural(kind)}." if kind == other else f"{capital(one)} is {_a(kind)}, while {two} is {_a(other)}."
    )
    answer = f"{first} {capital(one)} lives {home} and eats {food}. {capital(two)} lives {place} and eats {diet}."
    return Exchange(prose(prompt), prose(answer), {"more": f"{told} {known}"})


def _a(kind: str) -> str:
    return prose(f"a {kind}")


def some_of(draw: TextDraw) -> Exchange:
    """Draw an exchange on things of a kind: a list of them, or whether something is one."""
    kind, other = draw.some(list(KINDS), 2)
    if draw.chance(0.35):
        thing = draw.pick(KINDS[draw.pick([kind, other])])
        right = thing in KINDS[kind]
        real = kind if right else other
        more = {"shorter": "Yes." if right else "No.", "why": f"Because {thing} is {_a(real)}."}
        told = f"{'Yes' if right else 'No'}, {thing} is {_a(real)}."
        return Exchange(capital(f"is {thing} {_a(kind)}?"), capital(told), more)
    count = draw.number(2, 4 if kind == "season" else 5)
    found = draw.some(KINDS[kind], count)
    many = plural(kind)
    prompt = draw.pick(
        [
            f"Name {FEW[count]} {many}.",
            f"Give me {FEW[count]} {many}.",
            f"List {count} {many}.",
            f"Can you name {FEW[count]} {many}?",
            f"Tell me {FEW[count]} {many}, please.",
            f"I need {FEW[count]} {many}.",
            f"What are {FEW[count]} {many}?",
        ]
    )
    if draw.chance(0.3):
        return Exchange(prompt, "\n".join(f"{i}. {capital(thing)}" for i, thing in enumerate(found, 1)))
    lead = draw.pick(["{l}.", "{c} " + many + " are {l}.", "For example: {l}.", "Here are {c}: {l}."])
    told = lead.replace("{l}", listed(found)).replace("{c}", FEW[count])
    left = [thing for thing in KINDS[kind] if thing not in found]
    return Exchange(prompt, capital(told), {"another": f"{capital(draw.pick(left))}."} if left else {})


def calendar(draw: TextDraw) -> Exchange:
    """Draw an exchange on days, months and their order."""
    names = KINDS[draw.pick(["weekday", "month"])]
    at = draw.number(0, len(names) - 1)
    day = "day" if len(names) == 7 else "month"
    before, here, after = names[at - 1], names[at], names[(at + 1) % len(names)]
    if day == "month" and draw.chance(0.4):
        prompt = draw.pick(
            [f"How many days does {here} have?", f"How many days are there in {here}?", f"How long is {here}?"]
        )
        leap = " In a leap year it has 29." if here == "February" else ""
        return Exchange(prompt, f"{here} has {DAYS[here]} days.{leap}", {"shorter": f"{DAYS[here]}."})
    prompt, told = draw.pick(
        [
            (f"What comes after {here}?", f"After {here} comes {after}."),
            (f"Which {day} comes before {here}?", f"Before {here} comes {before}."),
            (f"Which {day} follows {here}?", f"{after} follows {here}."),
            (f"If today is {here}, what is tomorrow?", f"Then tomorrow is {after}.")
            if day == "day"
            else (f"It is {here}. Which month is next?", f"The next month is {after}."),
            (f"Which month of the year is {here}?", f"{here} is month number {at + 1} of the year.")
            if day == "month"
            else (f"If today is {here}, what was yesterday?", f"Then yesterday was {before}."),
        ]
    )
    return Exchange(prompt, told)


def word(draw: TextDraw) -> Exchange:
    """Draw an exchange on an opposite, or on a word in another language."""
    if draw.chance(0.5):
        one, two = draw.some(draw.pick(TABLES["opposites"]), 2)
        prompt = draw.pick(
            [
                f"What is the opposite of {one}?",
                f"What's the opposite of {one}?",
                f"Give me the opposite of {one}.",
                f"Which word means the opposite of {one}?",
            ]
        )
        return Exchange(prompt, draw.pick([f"The opposite of {one} is {two}.", f"It is {two}.", f"{capital(two)}."]))
    english, *others = draw.pick(TABLES["words"])
    language, foreign = draw.pick(list(zip(("French", "Spanish", "German", "Italian"), others, strict=True)))
    prompt = draw.pick(
        [
            f"How do you say {english} in {language}?",
            f'Translate "{english}" into {language}.',
            f"What is {english} in {language}?",
            f"What is the {language} word for {english}?",
            f'How do I say "{english}" in {language}?',
        ]
    )
    return Exchange(prompt, f'In {language}, "{english}" is "{foreign}".', {"shorter": f"{capital(foreign)}."})


def unit(draw: TextDraw) -> Exchange:
    """Draw an exchange on how many of a smaller unit a larger one has."""
    size, small, large = draw.pick(TABLES["units"])
    count = draw.number(1, 9)
    many = "a " + large if count == 1 else f"{draw.pick([str(count), NUMBERS[count]])} {plural(large)}"
    prompt = draw.pick(
        [
            f"How many {small} are there in {many}?",
            f"How many {small} are in {many}?",
            f"How many {small} {'does' if count == 1 else 'do'} {many} have?",
            f"I have {many}. How many {small} is that?",
            f"Convert {many} to {small}.",
        ]
    )
    base = prose(f"A {large} has {size} {small}.")
    if count == 1:
        return Exchange(prose(prompt), base, {"shorter": f"{size}."})
    told = f"{base} {count} * {size} = {count * size}, so there are {count * size} {small}."
    return Exchange(prose(prompt), told, {"shorter": f"{count * size} {small}.", "why": base})


NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def figure(draw: TextDraw) -> Exchange:
    """Draw an exchange on a fact that is a number or a name."""
    what, answer, told = draw.pick(TABLES["figures"])
    asked = [
        f"What is {what}?",
        f"What's {what}?",
        f"Do you know {what}?",
        f"Tell me {what}.",
        f"I'd like to know {what}.",
    ]
    if what.startswith("the number of "):
        what = what.removeprefix("the number of ")
        asked = [f"{_how_many(what)}?", f"What is the number of {what}?", f"Do you know the number of {what}?"]
        told = f"The number of {what} is {answer}. {told}"
        return Exchange(draw.pick(asked), told, {"shorter": f"{capital(answer)}."})
    return Exchange(draw.pick(asked), f"{capital(what)} is {answer}. {told}", {"shorter": f"{capital(answer)}."})


def _how_many(what: str) -> str:
    """ "legs of a spider" asked for."""
    parts, has, whole = what.partition(" of ")
    return f"How many {parts} does {whole} have" if has else f"How many {_there(*what.partition(' '))}"


def _there(things: str, _: str, where: str) -> str:
    return f"{things} are there {where}".rstrip()


MOVES = (country, country, country, animal, animal, animal, some_of, some_of, calendar, word, unit, figure, figure)


def world(draw: TextDraw) -> Exchange:
    """One question on the world and its answer."""
    return draw.pick(MOVES)(draw)
