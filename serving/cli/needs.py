"""Modules that only some commands need, and that a light install (`pip install .`) lacks."""

OURS = ("serving", "device_model")


def need_of(command: str, error: ModuleNotFoundError) -> str | None:
    """Return a sentence on what to install for a command that lacks a module; None if the module is our own."""
    missing = (error.name or "").partition(".")[0]
    if not missing or missing in OURS:
        return None
    return (
        f"`foreserve {command}` needs {missing}, which is not installed. Run `make venv` in foreserve's repository: it "
        "installs vLLM and torch for this machine."
    )
