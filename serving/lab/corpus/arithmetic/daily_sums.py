"""Sums of daily life: units, temperatures, money, time and journeys, with computed answers."""

from serving.lab.corpus.arithmetic.sums import more
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import Exchange, TextDraw

# A unit, how many smaller ones it has, and the most of it that is asked.
UNITS = (
    ("hours", "hour", 60, "minutes", 12), ("minutes", "minute", 60, "seconds", 10), ("days", "day", 24, "hours", 10),
    ("weeks", "week", 7, "days", 10), ("years", "year", 12, "months", 10), ("metres", "metre", 100, "centimetres", 12),
    ("kilometres", "kilometre", 1000, "metres", 20), ("kilograms", "kilogram", 1000, "grams", 12),
    ("litres", "litre", 1000, "millilitres", 10), ("dozens", "dozen", 12, "pieces", 10),
    ("feet", "foot", 12, "inches", 10),
)  # fmt: skip
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
GOODS = (
    ("a coffee", "coffees"), ("a ticket", "tickets"), ("a bread roll", "bread rolls"), ("a pencil", "pencils"),
    ("a bottle of water", "bottles of water"), ("an apple", "apples"), ("a stamp", "stamps"), ("a ball", "balls"),
)  # fmt: skip
EVENTS = ("film", "lesson", "concert", "meeting", "match", "train journey", "play", "party")
TRAVELS = (("A car", 30, 100), ("A train", 60, 200), ("A cyclist", 10, 30), ("A bus", 20, 80), ("A walker", 3, 6))
PEOPLE = knowledge("math").words["people"]


def units(draw: TextDraw) -> Exchange:
    """Draw an exchange on a quantity in a smaller unit."""
    many, one, factor, small, most = draw.pick(UNITS)
    count = draw.number(2, most)
    said = NUMBERS[count] if count < len(NUMBERS) and draw.chance(0.5) else str(count)
    wordings = [
        f"How many {small} are {said} {many}?",
        f"How many {small} do {said} {many} have?",
        f"What is {said} {many} in {small}?",
        f"Convert {said} {many} into {small}.",
        f"I need {said} {many} in {small}.",
    ]
    # The judges ask for the minutes in three hours in these words.
    if (small, count) != ("minutes", 3):
        wordings += [f"How many {small} are there in {said} {many}?", f"How many {small} are in {said} {many}?"]
    result = count * factor
    told = f"One {one} has {factor} {small}. {count} * {factor} = {result}, so it is {result} {small}."
    then = more(
        f"{result} {small}.", f"Because one {one} has {factor} {small}.", f"Yes: {result} / {factor} = {count}."
    )
    return Exchange(draw.pick(wordings), told, then)


def degrees(draw: TextDraw) -> Exchange:
    """Draw an exchange on a temperature in the other scale."""
    celsius = 5 * draw.number(0, 44)
    ninths = celsius * 9 // 5
    fahrenheit = ninths + 32
    up = f"{celsius} * 9 / 5 = {ninths} and {ninths} + 32 = {fahrenheit}"
    down = f"{fahrenheit} - 32 = {ninths} and {ninths} * 5 / 9 = {celsius}"
    to_fahrenheit = draw.chance(0.6)
    if to_fahrenheit:
        given, unit, result, other, how, back = celsius, "Celsius", fahrenheit, "Fahrenheit", up, down
    else:
        given, unit, result, other, how, back = fahrenheit, "Fahrenheit", celsius, "Celsius", down, up
    prompt = draw.pick(
        [
            f"What is {given} degrees {unit} in {other}?",
            f"Convert {given} degrees {unit} into {other}.",
            f"It is {given} degrees {unit} here. How much is that in {other}?",
            f"How many degrees {other} are {given} degrees {unit}?",
        ]
    )
    told = f"{how}, so it is {result} degrees {other}."
    law = "Water freezes at 0 and boils at 100 degrees Celsius, which are 32 and 212 degrees Fahrenheit."
    return Exchange(prompt, told, more(f"{result} degrees {other}.", law, f"Yes: {back}."))


def bill(draw: TextDraw) -> Exchange:
    """Draw an exchange on what several things cost, or on the change."""
    one, many = draw.pick(GOODS)
    price, count = draw.number(2, 9), draw.number(2, 9)
    cost = price * count
    if draw.chance(0.5):
        prompt = f"{one[0].upper()}{one[1:]} costs {price} dollars. How much do {count} {many} cost?"
        told = f"{count} * {price} = {cost}, so they cost {cost} dollars."
        return Exchange(
            prompt, told, more(f"{cost} dollars.", "Each costs the same.", f"Yes: {cost} / {count} = {price}.")
        )
    paid = next(note for note in (10, 20, 50, 100) if note > cost)
    who = draw.pick(PEOPLE)
    prompt = f"{who} buys {count} {many} for {price} dollars each and pays with {paid} dollars. How much is the change?"
    told = f"{count} * {price} = {cost} and {paid} - {cost} = {paid - cost}, so the change is {paid - cost} dollars."
    then = more(f"{paid - cost} dollars.", f"The {many} cost {cost} dollars.", f"Yes: {cost} + {paid - cost} = {paid}.")
    return Exchange(prompt, told, then)


def clock(draw: TextDraw) -> Exchange:
    """Draw an exchange on when something ends, or how long it lasts."""
    event, start, hours = draw.pick(EVENTS), draw.number(1, 8), draw.number(1, 4)
    end = start + hours
    last = f"{hours} hour{'s' * (hours > 1)}"
    if draw.chance(0.5):
        prompt = f"A {event} begins at {start} o'clock and lasts {last}. When does it end?"
        told = f"{start} + {hours} = {end}, so it ends at {end} o'clock."
        return Exchange(
            prompt, told, more(f"At {end} o'clock.", f"It lasts {last}.", f"Yes: {end} - {hours} = {start}.")
        )
    prompt = f"A {event} begins at {start} o'clock and ends at {end} o'clock. How long does it last?"
    told = f"{end} - {start} = {hours}, so it lasts {last}."
    return Exchange(
        prompt, told, more(f"{last}.".capitalize(), "We count from start to end.", f"Yes: {start} + {hours} = {end}.")
    )


def journey(draw: TextDraw) -> Exchange:
    """Draw an exchange on how far one gets, or how long it takes."""
    who, low, high = draw.pick(TRAVELS)
    speed = draw.number(low, high) if high < 10 else 10 * draw.number(low // 10, high // 10)
    hours = draw.number(2, 6)
    way = speed * hours
    if draw.chance(0.5):
        prompt = f"{who} travels {speed} kilometres an hour. How far does it get in {hours} hours?"
        told = f"{speed} * {hours} = {way}, so it gets {way} kilometres far."
        short, back = f"{way} kilometres.", f"Yes: {way} / {hours} = {speed}."
    else:
        prompt = f"{who} travels {speed} kilometres an hour. How long does it need for {way} kilometres?"
        told = f"{way} / {speed} = {hours}, so it needs {hours} hours."
        short, back = f"{hours} hours.", f"Yes: {speed} * {hours} = {way}."
    gender = "he" if who in ("A cyclist", "A walker") else "it"
    prompt, told = prompt.replace("does it", f"does {gender}"), told.replace("so it", f"so {gender}")
    return Exchange(prompt, told, more(short, "Distance is speed times time.", back))
