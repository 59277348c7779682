"""What flows between processes as arrays, written to files as objects with names."""

from typing import Any

import msgspec


def named_struct(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The same fields as `kind` has, known by their names: JSON that is something else is refused."""
    return msgspec.defstruct(kind.__name__, [_named(field) for field in msgspec.structs.fields(kind)])


def _named(field: msgspec.structs.FieldInfo) -> Any:
    """A field as `defstruct` takes it."""
    if field.required:
        return field.name, field.type
    return field.name, field.type, field.default_factory() if field.default is msgspec.NODEFAULT else field.default
