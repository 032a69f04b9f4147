"""The JSON Schemas of tracker, manifest, report and config, made from the code that reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from driver.backend_api.driver import EFFORT_LEVELS
from driver.domain import item_fields
from driver.domain.item_fields import MAX_OWNED_FILES, MAX_SLUG, MAX_TEXT, VERIFICATION_TIERS
from driver.domain.work_item import FIELDS, MAX_ITEMS, REQUIRED
from state_store.values.names import RESOURCE_PATTERN
from tests.documents.reference import config_schema, phase_schema, plain
from tests.documents.report_schema import report_schema

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tools" / "schemas"
FORMATS = ROOT / "docs" / "formats.md"
DRAFT = "https://json-schema.org/draft/2020-12/schema"

ITEM_CHECKS = {key: check for key, (_, check) in FIELDS.items()}
NEEDED_KEYS = tuple(REQUIRED)

_TEXT = {"type": "string", "maxLength": MAX_TEXT, "pattern": r"^[^\x00]*$"}
_FULL = {"type": "string", "maxLength": MAX_TEXT, "pattern": r"^[^\x00]*[^\s\x00][^\x00]*$"}
_LABEL = {"anyOf": [_TEXT, {"type": "integer", "minimum": 0}]}
_COMMAND = {
    "anyOf": [
        _FULL,
        {"type": "array", "prefixItems": [_FULL], "items": _TEXT, "minItems": 1},
    ]
}
_COUNT = {"type": "integer", "minimum": 0}
_FLAG = {"type": "boolean"}
_TIME = {"type": ["string", "number", "null"]}
_TEXTS = {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": _TEXT}]}

# The values that each check of an item's value accepts; a test compares the two.
SHAPES: Mapping[Callable[[Any], Any], dict[str, Any]] = {
    item_fields.entries_of: {
        **{"type": "array", "minItems": 1, "maxItems": MAX_OWNED_FILES},
        "items": {"type": "string", "pattern": r"\S"},
    },
    item_fields.identifier_of: {"anyOf": [_FULL, {"type": "integer"}]},
    item_fields.slug_of: {
        **{"type": "string", "maxLength": MAX_SLUG},
        "pattern": r"^[^\x00]*[A-Za-z0-9_-][^\x00]*$",
    },
    item_fields.label_of: _LABEL,
    item_fields.full_text_of: _FULL,
    item_fields.command_of: _COMMAND,
    item_fields.baseline_of: {"const": "green"},
    item_fields.count_of: _COUNT,
    item_fields.flag_of: _FLAG,
    item_fields.resources_of: {
        "type": "array",
        "items": {"type": "string", "pattern": RESOURCE_PATTERN},
    },
    item_fields.effort_of: {"enum": list(EFFORT_LEVELS)},
    item_fields.model_of: {
        **{"type": "string", "maxLength": MAX_TEXT},
        "pattern": r"^(?!-)(?=.*\S)[^\x00-\x1f\x7f]+$",
    },
    item_fields.tier_of: {"enum": list(VERIFICATION_TIERS)},
    item_fields.rounds_of: {"type": "integer", "minimum": 0, "maximum": 100},
    item_fields.share_of: {"type": "number", "minimum": 0, "maximum": 1},
    item_fields.phases_of: {
        **{"type": "array", "minItems": 1},
        "items": {"$ref": "#/$defs/phase"},
    },
}
# Keys of the tracker that the driver, `intake` or a person writes.
_SHIPPED = ("wave", "commit", "branch", "target", "onto", "merged")
TRACKER_KEYS: Mapping[str, dict[str, Any]] = {
    "status": {"type": "string", "examples": ["todo", "in_progress", "done", "blocked"]},
    "priority": {"type": ["string", "null"], "examples": ["P1", "P2", "P3"]},
    "createdAt": _TIME,
    "created_at": _TIME,
    "notes": {"type": ["string", "null"]},
    "attempts": _COUNT,
    "lastError": {"type": ["string", "null"]},
    "nextAttemptAt": _TIME,
    "shipped": {
        "type": ["object", "null"],
        "properties": {key: {"type": ["string", "null"]} for key in _SHIPPED},
    },
    "source": {"type": "string"},
    "sourceHash": {"type": "string"},
    "dependsOn": _TEXTS,
    "labels": _TEXTS,
    "tags": _TEXTS,
    "lane": {"type": ["string", "null"]},
}


def documents() -> dict[str, dict[str, Any]]:
    """Each schema by the name of its file."""
    return {
        "tracker.json": _named("tracker", "the backlog of Tidegate", _tracker()),
        "manifest.json": _named("manifest", "the items of one wave", _manifest()),
        "report.json": _named(
            "report",
            "the report of a wave or of a cycle",
            report_schema(_meanings("Report of a wave", "Report of a cycle")),
        ),
        "config.json": _named("config", "tidegate.toml as JSON data", config_schema()),
    }


def text_of(schema: Mapping[str, Any]) -> str:
    """The text of a schema's file."""
    return json.dumps(schema, indent=1, ensure_ascii=True) + "\n"


def _named(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    begin = {"$schema": DRAFT, "$id": f"urn:tidegate:schema:{name}:1", "description": description}
    return {**begin, **schema}


def _item() -> dict[str, Any]:
    """The keys that a manifest's item and a tracker's item share. Null is a missing key."""
    told = _meanings("Manifest")
    found = {}
    for key, check in ITEM_CHECKS.items():
        shape = SHAPES[check]
        shape = shape if key in NEEDED_KEYS else {"anyOf": [shape, {"type": "null"}]}
        found[key] = {**shape, "description": told[key]}
    return found


def _manifest() -> dict[str, Any]:
    item = {"type": "object", "properties": _item(), "required": list(NEEDED_KEYS)}
    name = {"type": ["string", "integer", "null"], "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"}
    known = {
        "$schema": {"type": "string"},
        "wave_id": name,
        "wave_description": {"type": ["string", "null"]},
        "items": {"type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "items": item},
    }
    return {
        **{"type": "object", "properties": known, "required": ["items"]},
        "$defs": {"phase": phase_schema()},
    }


def _tracker() -> dict[str, Any]:
    told = _meanings("Tracker")
    own = {key: {**shape, "description": told[key]} for key, shape in TRACKER_KEYS.items()}
    item = {
        **{"type": "object", "properties": {**_item(), **own}},
        "if": {"properties": {"status": {"const": "todo"}}, "required": ["status"]},
        "then": {"required": ["id", *NEEDED_KEYS]},
    }
    items = {"type": "array", "items": {"$ref": "#/$defs/item"}}
    known = {"$schema": {"type": "string"}, "version": {"const": 1}, "items": items}
    whole = {"type": "object", "properties": known, "required": ["items"]}
    return {"anyOf": [whole, items], "$defs": {"item": item, "phase": phase_schema()}}


def _meanings(*headings: str) -> dict[str, str]:
    """The last column of the tables below headings of docs/formats.md, by key. The row of several
    keys is that of each."""
    page = FORMATS.read_text(encoding="utf-8")
    told: dict[str, str] = {}
    for heading in headings:
        section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        for row in re.findall(r"^\| (`[^|]+) \| (.*) \|$", section, flags=re.MULTILINE):
            cell = re.split(r"(?<!\\) \| ", row[1])[-1].replace(r"\|", "|")
            for key in re.findall(r"`(\$?\w+)`", row[0]):
                told.setdefault(key, plain(cell))
    return told
