"""Text that every machine has and that is free to use: the docstrings of Python's library, and licence texts.

What there is depends on the Python and the distribution of this machine, so a corpus with these texts is not the same
everywhere; `documents(..., machine=False)` is. Licences are only there on Debian and its kin, and skipped elsewhere.
"""

import ast
import inspect
import os
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from serving.lab.corpus.parts import DialogueTurn, Document

LICENCES = Path("/usr/share/common-licenses")
SKIPPED = {
    "test",
    "tests",
    "idlelib",
    "lib2to3",
    "site-packages",
    "turtledemo",
    "ensurepip",
    "__pycache__",
    "dist-packages",
}
SHORTEST, LONGEST = 80, 1200  # Characters.
NOT_PROSE = re.compile(r"^\s*(>>>|\.\.\. |[-=+*#|_~^]{3,}|\|)|[|+]--|::\s*$|\s{3,}\S+\s{3,}")


@cache
def texts() -> tuple[Document, ...]:
    """All of them, docstrings as `cs` and licences as `legal`, in a fixed order."""
    return (*_docstrings(Path(sysconfig.get_paths()["stdlib"])), *_licences(LICENCES))


def _docstrings(library: Path) -> Iterator[Document]:
    for folder, folders, names in os.walk(library):
        folders[:] = sorted(set(folders) - SKIPPED)
        for name in sorted(names):
            if name.endswith(".py"):
                yield from (_text("cs", doc) for doc in _documented(Path(folder, name)) if _is_prose(doc))


def _documented(path: Path) -> Iterator[str]:
    """Yield the docstrings of a module, of its functions and classes, and of their methods."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    nodes: list[ast.AST] = [tree]
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield _cleaned(ast.get_docstring(node) or "")
        if isinstance(node, ast.Module | ast.ClassDef):
            nodes += node.body


def _licences(folder: Path) -> Iterator[Document]:
    if not folder.is_dir():
        return
    for path in sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink()):
        text = _cleaned(path.read_text(encoding="utf-8", errors="replace"))
        yield from (_text("legal", part) for part in text.split("\n") if _is_prose(part))


def _cleaned(text: str) -> str:
    """Each paragraph on one line, without those that hold examples, tables or drawings."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    kept = [" ".join(part.split()) for part in paragraphs if not any(map(NOT_PROSE.search, part.splitlines()))]
    return "\n".join(part for part in kept if part)


def _is_prose(text: str) -> bool:
    letters = sum(char.isalpha() or char.isspace() for char in text)
    return SHORTEST <= len(text) <= LONGEST and text.isascii() and letters > 0.88 * len(text)


def _text(topic: str, content: str) -> Document:
    return Document(topic, (DialogueTurn("text", content),))
