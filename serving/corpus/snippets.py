"""Short pieces of Python and SQL with varying names, and what they do in words."""

from serving.corpus.parts import Draw, Exchange

NAMES = (
    "items",
    "values",
    "numbers",
    "words",
    "rows",
    "names",
    "lines",
    "users",
    "orders",
    "scores",
    "prices",
    "records",
    "events",
    "files",
)
COLUMNS = ("name", "price", "age", "city", "status", "amount", "email", "country", "score", "year")
FUNCTIONS = ("solve", "collect", "select", "process", "compute", "find", "handle", "run", "build", "scan")
# What it does, as an order; the code, with {s} a sequence, {f} a function, {n} a number and {c} a column; a remark.
PYTHON = (
    ("reverse {s}", "{s}.reverse()", "It changes the list itself."),
    ("get the first {n} {s}", "first = {s}[:{n}]", "A slice never fails, even if there are fewer."),
    ("skip the first {n} {s}", "rest = {s}[{n}:]", "A slice makes a new list."),
    ("count how often each of the {s} occurs", "from collections import Counter\n\ncounts = Counter({s})", "A Counter works like a dict."),
    ("remove duplicates from {s} and keep the order", "unique = list(dict.fromkeys({s}))", "A dict keeps the order of its keys."),
    ("sort {s} by {c}", '{s}.sort(key=lambda row: row["{c}"])', "The sort is stable."),
    ("sum the {c} of all {s}", 'total = sum(row["{c}"] for row in {s})', "A generator needs no extra list."),
    ("find the largest of the {s}", "largest = max({s}, default=None)", "Without a default, an empty list is an error."),
    ("read {s} from a file", 'with open("{s}.txt") as file:\n    {s} = file.read().splitlines()', "The file is closed at the end of the block."),
    ("write {s} to a file", 'with open("{s}.txt", "w") as file:\n    file.write("\\n".join({s}))', "The mode w replaces an old file."),
    ("load {s} from JSON", 'import json\n\nwith open("{s}.json") as file:\n    {s} = json.load(file)', "It fails on invalid JSON."),
    ("loop over {s} with an index", "for i, item in enumerate({s}):\n    print(i, item)", "The index starts at zero."),
    ("keep only the {s} longer than {n}", "long = [item for item in {s} if len(item) > {n}]", "This is a list comprehension."),
    ("group {s} by {c}", 'groups = {}\nfor row in {s}:\n    groups.setdefault(row["{c}"], []).append(row)', "Each key gets its own list."),
    ("split {s} into chunks of {n}", "chunks = [{s}[i:i + {n}] for i in range(0, len({s}), {n})]", "The last chunk may be shorter."),
    ("write a function that doubles all {s}", "def {f}({s}):\n    return [2 * item for item in {s}]", "It leaves its argument as it is."),
    ("check whether any of the {s} is empty", "has_empty = any(not item for item in {s})", "It stops at the first match."),
    ("retry {f} up to {n} times", "for attempt in range({n}):\n    try:\n        {f}()\n        break\n    except OSError:\n        print(attempt)", "Catch only the errors that you expect."),
    ("cache the results of {f}", "from functools import cache\n\n@cache\ndef {f}(n):\n    return n * n", "The arguments must be hashable."),
    ("write a class for {s}", "class {f.cap}:\n    def __init__(self, {s}):\n        self.{s} = {s}\n\n    def __len__(self):\n        return len(self.{s})", "The method __len__ makes len work."),
    ("compute a factorial with recursion", "def {f}(n):\n    return 1 if n < 2 else n * {f}(n - 1)", "The base case stops the recursion."),
    ("yield {s} one by one", "def {f}({s}):\n    for item in {s}:\n        yield item", "This is a generator."),
    ("measure how long {f} takes", "import time\n\nstart = time.perf_counter()\n{f}()\nprint(time.perf_counter() - start)", "Measure several times."),
    ("join {s} with commas", 'text = ", ".join({s})', "All of them must be strings."),
)  # fmt: skip
SQL = (
    ("select all {s} with a {c} above {n}", "SELECT * FROM {s} WHERE {c} > {n};", "An index on the column helps."),
    ("count the {s} for each {c}", "SELECT {c}, COUNT(*) FROM {s} GROUP BY {c};", "Each group gives one row."),
    ("delete {s} without a {c}", "DELETE FROM {s} WHERE {c} IS NULL;", "Try it with a SELECT first."),
    ("show the {n} {s} with the highest {c}", "SELECT * FROM {s} ORDER BY {c} DESC LIMIT {n};", "Without an order, the choice would be arbitrary."),
    ("add an index on the {c} of {s}", "CREATE INDEX {s}_{c} ON {s} ({c});", "It makes reads faster and writes slower."),
    ("set the {c} of all {s} to {n}", "UPDATE {s} SET {c} = {n};", "Without a WHERE it changes each row."),
)  # fmt: skip
ASKED = (
    "How do I {t} in {l}?", "Write {l} code to {t}.", "Show me how to {t} in {l}.", "What is the {l} code to {t}?", "I want to {t} in {l}.",
    "Give me a short {l} example: {t}.", "{l}: {t}", "Can you {t} in {l}?",
)  # fmt: skip
SAID = (
    "Like this:",
    "You can do it like this:",
    "Here it is:",
    "This is short:",
    "Try this:",
    "One way is this:",
    "Of course:",
)


def snippet(draw: Draw) -> Exchange:
    """A small task and the code for it."""
    language, table = ("Python", PYTHON) if draw.chance(0.8) else ("SQL", SQL)
    task, code, remark = draw.pick(table)
    function = draw.pick(FUNCTIONS)
    slots = {
        "s": draw.pick(NAMES),
        "f": function,
        "f.cap": function.capitalize(),
        "n": str(draw.number(2, 60)),
        "c": draw.pick(COLUMNS),
    }
    task, code = _filled(task, slots), _filled(code, slots)
    prompt = draw.wording(ASKED, task).replace("{t}", task).replace("{l}", language)
    block = f"```{language.lower()}\n{code}\n```"
    more = {"shorter": block, "why": remark, "more": f"{remark} Test it with an empty list of {slots['s']} too."}
    return Exchange(prompt, f"{draw.pick(SAID)}\n{block}\n{remark if draw.chance(0.8) else ''}".rstrip(), more)


def _filled(text: str, slots: dict[str, str]) -> str:
    for slot, value in slots.items():
        text = text.replace(f"{{{slot}}}", value)
    return text
