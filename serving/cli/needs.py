"""What only some commands need, and a light install (`pip install foreserve`) is without."""

OURS = ("serving", "device_model")


def need_of(command: str, error: ModuleNotFoundError) -> str | None:
    """What to install for a command that has not found a module; None if that is a defect of ours."""
    missing = (error.name or "").partition(".")[0]
    if not missing or missing in OURS:
        return None
    return (
        f"`foreserve {command}` needs {missing}, which is not installed. Install foreserve with vLLM: `make venv` in "
        "its repository, or pip install 'foreserve[cpu]' ([gpu] where there is one)."
    )
