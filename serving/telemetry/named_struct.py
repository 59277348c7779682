"""Named structs: for files, structs with named fields in place of those that travel between processes as arrays."""

from typing import Any

import msgspec


def named_struct(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return a struct with the fields of `kind`, encoded by name; decoding refuses JSON that differs."""
    return msgspec.defstruct(kind.__name__, [_named(field) for field in msgspec.structs.fields(kind)])


def _named(field: msgspec.structs.FieldInfo) -> Any:
    """Return a field as `defstruct` takes it."""
    if field.required:
        return field.name, field.type
    return field.name, field.type, field.default_factory() if field.default is msgspec.NODEFAULT else field.default
