"""Checks a JSON value against a schema, for the keywords that our schemas use. Pure.

Supports type, enum, properties, required, additionalProperties false and items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def shape_problem(value: Any, schema: Schema, where: str = "the object") -> str | None:
    """The first fault of `value`, as a sentence for the model; None if it fits the schema."""
    named = schema.get("type")
    names = [named] if isinstance(named, str) else list(named or ())
    if names and not any(_is_a(value, name) for name in names):
        return f"{where} must be {' or '.join(names)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {schema['enum']}"
    if isinstance(value, dict):
        return _object_problem(value, schema, where)
    if isinstance(value, list) and "items" in schema:
        for number, one in enumerate(value):
            if problem := shape_problem(one, schema["items"], f"{where}[{number}]"):
                return problem
    return None


def is_strict(schema: Schema) -> bool:
    """True if the schema is strict: each object is closed and requires all of its keys."""
    keys = schema.get("properties")
    if keys is not None and (
        schema.get("additionalProperties") is not False
        or set(schema.get("required", ())) != set(keys)
    ):
        return False
    inner = [*(keys or {}).values(), *([schema["items"]] if "items" in schema else [])]
    return all(is_strict(one) for one in inner)


def _is_a(value: Any, name: str) -> bool:
    # True and False are numbers to Python, not to JSON.
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, (object,)))


def _object_problem(value: dict[str, Any], schema: Schema, where: str) -> str | None:
    known: Mapping[str, Schema] = schema.get("properties", {})
    if missing := [key for key in schema.get("required", ()) if key not in value]:
        return f"{where} lacks {missing[0]!r}"
    foreign = [key for key in value if key not in known]
    if foreign and schema.get("additionalProperties") is False:
        return f"{where} has the unknown key {foreign[0]!r:.60}"
    for key, inner in known.items():
        if key in value and (problem := shape_problem(value[key], inner, f"{where}.{key}")):
            return problem
    return None
