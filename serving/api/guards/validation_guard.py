"""Bodies over which a validator of vLLM's stumbles: told of to whoever sent them, as of any other wrong body.

vLLM's validators look into a body before its types have been checked, so that a field that is missing, or of another
type than they take for granted, is an error of Python's: 500, if nobody saw to it.
"""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

from fastapi import FastAPI
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError
from vllm.entrypoints.serve.sagemaker import api_router as invocations

T = TypeVar("T")

STUMBLES = (LookupError, TypeError, AttributeError, RecursionError)


def guard_validation(app: FastAPI) -> None:
    """Have every route of an application answer 400 where the validation of its body fails in whatever way."""
    for route in app.router.routes:
        for field in getattr(getattr(route, "dependant", None), "body_params", ()):
            field._type_adapter = GuardedAdapter(field._type_adapter)


def guard_invocations() -> None:
    """Have `/invocations`, which tries its body against several types, take it for none of a type that stumbles. To be
    called before vLLM makes its application."""
    invocations.pydantic = SimpleNamespace(
        ValidationError=ValidationError, TypeAdapter=lambda kind: GuardedAdapter(TypeAdapter(kind))
    )


class GuardedAdapter:
    """A type's adapter of pydantic's whose `validate_python` raises nothing but ValidationError."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def validate_python(self, value: Any, **options: Any) -> Any:
        """Return what a body says, as the adapter does."""
        return validated(partial(self._adapter.validate_python, **options), value)


def validated(validate: Callable[[Any], T], value: Any) -> T:
    """Return what a validation makes of a body. Raises nothing but ValidationError."""
    try:
        return validate(value)
    except STUMBLES as error:
        sentence = "A field is missing somewhere in the body, or of another type than it must be ({what})."
        stumbled = PydanticCustomError("unreadable", sentence, {"what": f"{type(error).__name__}: {error}"})
        raise ValidationError.from_exception_data("body", [{"type": stumbled, "input": None}]) from error
