"""A checker of JSON Schema, for the keywords that the project's schemas use.

It needs no package, so that every machine runs the tests of the schemas. An unknown keyword is an
error: it would check nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

Schema = Mapping[str, Any] | bool
Problems = Callable[[Any, Any], list[str]]

_NOTES = {"$schema", "$id", "$defs", "title", "description", "default", "examples"}
_CHECKED = {
    *("type", "enum", "const", "properties", "required", "additionalProperties", "items"),
    *("prefixItems", "minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum"),
    *("maximum", "exclusiveMinimum", "anyOf", "if", "then", "$ref"),
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    **{"object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,)},
    **{"number": (int, float), "null": (type(None),)},
}


def checkers() -> Callable[[pytest.FixtureRequest], Problems]:
    """A fixture: this checker, and then the package jsonschema, where it is installed."""

    @pytest.fixture(params=["ours", "jsonschema"])
    def checker(request: pytest.FixtureRequest) -> Problems:
        return problems if request.param == "ours" else _of_the_package()

    return checker


def _of_the_package() -> Problems:
    package = pytest.importorskip("jsonschema", reason="the package jsonschema is not installed")

    def told(value: Any, schema: Any) -> list[str]:
        return [one.message for one in package.Draft202012Validator(schema).iter_errors(value)]

    return told


def problems(value: Any, schema: Schema, root: Schema | None = None, at: str = "") -> list[str]:
    """The faults of a value, each with its place; [] if it fits."""
    return list(_problems(value, schema, schema if root is None else root, at or "document"))


def _problems(value: Any, schema: Schema, root: Schema, at: str) -> Iterator[str]:
    if isinstance(schema, bool):
        if not schema:
            yield f"{at} is not allowed"
        return
    if foreign := schema.keys() - _NOTES - _CHECKED:
        raise AssertionError(f"the checker does not know {sorted(foreign)}")
    yield from _plain(value, schema, at)
    yield from _combined(value, schema, root, at)
    if isinstance(value, dict):
        yield from _object(value, schema, root, at)
    elif isinstance(value, list):
        yield from _array(value, schema, root, at)
    elif isinstance(value, str):
        yield from _string(value, schema, at)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(value, schema, at)


def _plain(value: Any, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    types = schema.get("type", [])
    names = [types] if isinstance(types, str) else types
    if names and not any(_is_a(value, name) for name in names):
        yield f"{at} is no {' or '.join(names)}"
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{at} is none of {schema['enum']}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{at} is not {schema['const']!r}"


def _combined(value: Any, schema: Mapping[str, Any], root: Schema, at: str) -> Iterator[str]:
    if "$ref" in schema:
        assert isinstance(root, Mapping)
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from _problems(value, root["$defs"][name], root, at)
    branches = [problems(value, branch, root, at) for branch in schema.get("anyOf", [])]
    if branches and all(branches):
        yield f"{at} fits no branch: {branches}"
    if "if" in schema and not problems(value, schema["if"], root, at):
        yield from _problems(value, schema["then"], root, at)


def _is_a(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer":
        return isinstance(value, int | float) and value == int(value)
    return isinstance(value, _TYPES[name])


def _same(value: Any, other: Any) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _object(value: dict[str, Any], schema: Mapping[str, Any], root: Schema, at: str) -> Any:
    known = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{at} lacks {key}"
    for key, below in value.items():
        rule = known.get(key, schema.get("additionalProperties", True))
        yield from _problems(below, rule, root, f"{at}.{key}")


def _array(value: list[Any], schema: Mapping[str, Any], root: Schema, at: str) -> Any:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{at} has {len(value)} entries"
    first = schema.get("prefixItems", [])
    for number, below in enumerate(value):
        rule = first[number] if number < len(first) else schema.get("items", True)
        yield from _problems(below, rule, root, f"{at}[{number}]")


def _string(value: str, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{at} has {len(value)} characters"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at} does not match {schema['pattern']}"


def _number(value: float, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{at} is out of range"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{at} is too small"
