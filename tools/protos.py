"""Generates serving/api/pb from protos/, to be committed, so that a user needs no compiler."""

import re
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
PACKAGE = "serving.api.pb"
GENERATED = ROOT.joinpath(*PACKAGE.split("."))


def generate(into: Path) -> None:
    """Write the modules, and the packages that hold them, under `into`."""
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    outputs = [f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")]
    well_known = files("grpc_tools") / "_proto"
    if protoc.main(["protoc", f"-I{PROTOS}", f"-I{well_known}", *outputs, *sources]):
        raise SystemExit("protoc failed; above it says where.")
    for module in into.rglob("*_pb2*.py*"):
        # protoc takes the folder of the .proto for the package; ours is deeper, so that it collides with nobody's.
        module.write_text(re.sub(r"^from foreserve\.", f"from {PACKAGE}.foreserve.", module.read_text(), flags=re.M))
    for folder in {
        folder for module in into.rglob("*_pb2.py") for folder in module.parents if folder.is_relative_to(into)
    }:
        (folder / "__init__.py").write_text("")


def renew() -> None:
    """Generate what is committed anew, and remove what sources that are gone have left."""
    generate(GENERATED)
    for path in (GENERATED / name for name in stale()):
        # Whoever has put something else there is told of it by the test, and keeps it.
        if "_pb2" in path.name or not path.read_text():
            path.unlink()


def stale() -> list[str]:
    """Return the files, relative to the package, in which what is committed differs from what the sources give."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        names = {str(path.relative_to(base)) for base in (fresh, GENERATED) for path in base.rglob("*.py*")}
        names = {name for name in names if "__pycache__" not in name}
        return sorted(name for name in names if _text(fresh / name) != _text(GENERATED / name))


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    renew()
    print(f"{GENERATED.relative_to(ROOT)} is up to date.", file=sys.stderr)
