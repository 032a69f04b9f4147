"""The schema of a report, made from the recorded keys of reports and the closed sets of words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

CONTRACTS = Path(__file__).resolve().parents[1] / "contracts"
TYPES = {"truth": "boolean", "number": "number", "text": "string", "list": "array"}
TYPES |= {"object": "object"}
# The last key of a path -> the closed set of its words.
WORDS = {
    "verdict": "verdict of an item",
    "canary": "answer of the canary",
    "attempts[].test.kind": "kind of a test run",
    "receipts[].kind": "kind of a test run",
    "reviews[].verdict": "verdict of a review",
}
NEEDED = ("slug", "dispatched", "verified", "verdict", "error", "attempts", "usage")
ALWAYS = (
    *("phase", "wave_id", "items_selected", "items_shipped", "merged", "timestamp", "success"),
    "exit_code",
)
ANY = {"type": ["object", "null"]}


def report_schema(told: Mapping[str, str]) -> dict[str, Any]:
    """The schema of `report.json` and of the document that `run` and `wave` print. `told` are the
    descriptions of keys."""
    keys = recorded("public_keys.json")
    record = _object(keys["record of an item"], NEEDED)
    begun = _top(keys["wave report"])
    wave = _object([*keys["wave report"], *keys["wave that cannot begin"]], begun)
    wave["properties"]["built"] = {"type": "array", "items": {"$ref": "#/$defs/record"}}
    cycle = _object([*keys["scheduler report"], *keys["dry run report"]], ALWAYS)
    cycle["properties"]["wave"] = {"$ref": "#/$defs/wave"}
    cycle["properties"]["manifest"] = cycle["properties"]["pipelines"] = ANY
    cycle["properties"]["items_skipped_counts"] = {
        **{"type": "object", "additionalProperties": {"type": "integer"}}
    }
    plan = _object(keys["dry run of a manifest"], ["dry_run", "exit_code"])
    plan["properties"]["manifest"] = plan["properties"]["pipelines"] = ANY
    stopped = _object(keys["program that cannot begin"], ["success", "error", "exit_code"])
    stopped["properties"]["failpoints"] = {"type": "string"}
    stopped["additionalProperties"] = False
    parts = {"record": record, "wave": wave, "cycle": cycle, "plan": plan, "stopped": stopped}
    for part in parts.values():
        for key, shape in part["properties"].items():
            if key in told and "$ref" not in shape:
                shape["description"] = told[key]
        part["properties"] |= {"$schema": {"type": "string"}, "schema": {"type": "string"}}
    kinds = [{"$ref": f"#/$defs/{name}"} for name in parts if name != "record"]
    return {"type": "object", "anyOf": kinds, "$defs": parts}


@cache
def recorded(name: str) -> Any:
    """A record of the contracts of the project."""
    return json.loads((CONTRACTS / name).read_text(encoding="ascii"))


def _top(lines: Iterable[str]) -> list[str]:
    paths = (line.partition(":")[0] for line in lines if " = " not in line)
    return sorted(path for path in paths if path.isidentifier())


def _object(lines: Iterable[str], required: Iterable[str]) -> dict[str, Any]:
    """An object of the lines `path: types`. Null is always allowed: it means unknown."""
    whole: dict[str, Any] = {"type": "object", "properties": {}, "required": sorted(required)}
    for line in sorted({line for line in lines if " = " not in line}):
        path, _, kinds = line.partition(": ")
        at = whole
        for step in path.replace("[]", ".[]").split("."):
            at = _below(at, step)
        names = {TYPES[kind] for kind in kinds.split() if kind != "null"}
        if names:
            at["type"] = sorted({*names, *_of(at.get("type")), "null"})
        if words := _words(path):
            at["enum"] = [*words, None]
    return whole


def _of(types: Any) -> list[str]:
    return [types] if isinstance(types, str) else list(types or ())


def _below(at: dict[str, Any], step: str) -> dict[str, Any]:
    if step == "[]":
        found = at.setdefault("items", {})
    elif step == "*":
        found = at.setdefault("additionalProperties", {})
    else:
        found = at.setdefault("properties", {}).setdefault(step, {})
    assert isinstance(found, dict)
    return found


def _words(path: str) -> list[str]:
    """The closed set of words of a path; [] if there is none."""
    closed = recorded("public_names.json")["closed words"]
    ends = [end for end in WORDS if path == end or path.endswith(f".{end}")]
    return list(closed[WORDS[max(ends, key=len)]]) if ends else []
