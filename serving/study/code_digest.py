"""Digest of the code that makes a point: a hash over all that its result depends on, and nothing else.

It covers the modules that `MAKES` imports, and their imports, without comments and docstrings; and the device model,
the policies and the data beside them, which a scenario finds by name without an import, a user's own specs
(`FORESERVE_SPECS`) too. A scenario's token model and workload files are in the point's own key (`serving.study.point`).
"""

import ast
import hashlib
import os
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import device_model
import serving
from device_model.specs.spec_file import OWN_SPECS

MAKES = "serving.study.run"
# Found by name: all that is there, but for what is only compared with results.
BY_NAME = ("device_model", "serving.policies")
ONLY_COMPARED = ("device_model.validation",)
DATA = (".toml", ".csv", ".json", ".npz")


def code_digest() -> str:
    """Return the state of the code that is installed here, and of the user's own specs."""
    return _with_own_specs(_installed())


def digest_of(*packages: Path) -> str:
    """Return the state of the code in some packages' folders, and of the user's own specs."""
    return _with_own_specs(_digest(*packages))


@cache
def _installed() -> str:
    return _digest(*(Path(str(package.__file__)).parent for package in (serving, device_model)))


def _with_own_specs(code: str) -> str:
    """Return a digest of code together with the state of a user's own specs, which change while a process runs."""
    own = os.environ.get(OWN_SPECS)
    # An editor's lock may be a link to nothing.
    paths = sorted(path for path in Path(own).rglob("*.toml") if path.is_file()) if own else []
    if not own or not paths:
        return code
    found = hashlib.sha256(code.encode())
    for path in paths:
        found.update(f"{path.relative_to(own)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _digest(*packages: Path) -> str:
    found = hashlib.sha256()
    files = {name: path for package in packages for name, path in _files(package)}
    for name, module in sorted(made_of(files).items()):
        found.update(f"{name}\n{module.digest}\n".encode())
    for package in packages:
        for path in sorted(package.rglob("*")):
            name = _name(package, path.parent)
            if path.suffix in DATA and _within(name, BY_NAME) and not _within(name, ONLY_COMPARED):
                found.update(path.read_bytes())
    return found.hexdigest()[:16]


class Module(NamedTuple):
    """The digest of a module's code, and the modules that it imports."""

    digest: str
    imports: tuple[str, ...]


def made_of(files: dict[str, Path]) -> dict[str, Module]:
    """Return the modules of those in `files` by which a point is made. Raise KeyError if what is named here has moved:
    points of other code would stay in use."""
    for name in (*BY_NAME, *ONLY_COMPARED):
        _ = files[name]
    found: dict[str, Module] = {}
    coming = [MAKES, *(name for name in files if _within(name, BY_NAME) and not _within(name, ONLY_COMPARED))]
    while coming:
        name = coming.pop()
        if name not in found:
            found[name] = _module(files[name].read_text(encoding="utf-8"))
            coming += [each for each in found[name].imports if each in files]
    return found


@lru_cache(maxsize=2048)
def _module(text: str) -> Module:
    """Return what a module's text comes to: parsed once, as nearly all of the code is the same when some of it has
    changed."""
    tree = ast.parse(text)
    imports = tuple(_imported(tree))
    return Module(hashlib.sha256(ast.dump(_without_docstrings(tree)).encode()).hexdigest(), imports)


def _files(package: Path) -> Iterator[tuple[str, Path]]:
    for path in package.rglob("*.py"):
        inside = path.parent if path.name == "__init__.py" else path.with_suffix("")
        yield _name(package, inside), path


def _name(package: Path, path: Path) -> str:
    return ".".join(path.relative_to(package.parent).parts)


def _within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that a module imports, anywhere in it; of `from package import name` both, as the name may be a
    module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """Return the tree without strings that stand as statements."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_string(each)]
    return tree


def _is_string(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)
