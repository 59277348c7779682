"""What the OpenAPI says of our own routes: their bodies, their answers, and how they refuse."""

from typing import Any

import msgspec
from vllm.entrypoints.serve.engine.protocol import ErrorResponse

ERRORS = {
    400: "What was said can't be read, or names what there can't be.",
    401: "The server wants a key.",
    403: "The key is not enough: this is the admin's.",
    404: "There is no such device, or fault.",
    409: "It is impossible with the devices as they are.",
    413: "The body is longer than --max-request-bytes.",
}
"""What calls may be answered with, beside what was asked for."""
OTHER = "Refused for another reason, which the message tells."

Responses = dict[int | str, dict[str, Any]]


def refused(*statuses: int) -> Responses:
    """Return the documentation of answers that refuse a call."""
    # Where nothing is said of others, FastAPI says 422, which nobody gets here.
    told: dict[int | str, str] = {**{status: ERRORS[status] for status in statuses}, "4XX": OTHER}
    return {status: {"description": text, "model": ErrorResponse} for status, text in told.items()}


def answered(what: str, form: Any, status: int = 200) -> Responses:
    """Return the documentation of an answer in JSON, which has a form that msgspec can encode."""
    return {status: {"description": what, "content": {"application/json": {"schema": schema_of(form)}}}}


def schema_of(form: Any) -> dict[str, Any]:
    """Return the JSON schema of a type that doesn't hold itself, in one piece: an OpenAPI resolves no `$defs`."""
    schema = msgspec.json.schema(form)
    definitions = schema.pop("$defs", {})

    def whole(part: Any) -> Any:
        if isinstance(part, list):
            return [whole(each) for each in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return whole(definitions[part["$ref"].rpartition("/")[2]])
        return {key: whole(each) for key, each in part.items()}

    found: dict[str, Any] = whole(schema)
    return found


def body(field: str) -> dict[str, Any]:
    """Return the documentation of a body with the one field, a text."""
    schema = {
        "type": "object",
        "properties": {field: {"type": "string"}},
        "required": [field],
        "additionalProperties": False,
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
