"""Splits a wave's report into a short document and one file of details an item, and joins them.

The short document has every key. A long value is shortened in it, and `cut` lists its key; the
item's file has the whole record. Nothing here writes a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from driver.reports.item_times import backend_of, counts_before_and_after, times
from driver.terminal.safe_text import shortened
from state_store.documents.files import BadFileError, read_json
from state_store.documents.indented_json import OneLine
from state_store.documents.journal import stored_slug

Json = Mapping[str, Any]
DETAILS = "report.json"
BATCH_DETAILS = "integration/receipts.json"
MOST_BYTES = 1_560  # of an item's line, with its names elsewhere in the document
_LONG = ("error", "remedy", "ship_error", "ship_warning", "title")
_LISTS = ("filesWritten", "selfWrittenTests", "afterApproval")
_NAMES = 6  # places of the document that name an item
_NOT_SHIPPED = 300  # other parts of the document have nothing about an item that did not ship
_MOST_LISTED, _MOST_CHARS = 8, 300


def split(
    report: Json, folder: Path, sizes: Mapping[str, Json]
) -> tuple[dict[str, Any], dict[Path, Json]]:
    """The short document, and the files below `folder` that hold the rest. `sizes` are the sizes of
    the items' changes by slug."""
    wave = wave_of(report)
    files: dict[Path, Json] = {}
    lines = {}
    for record in wave.get("built") or ():
        path = folder / stored_slug(str(record["slug"])) / DETAILS
        files[path] = {"wave_id": wave.get("wave_id"), **record}
        lines[record["slug"]] = _line(record, path, sizes.get(record["slug"]))
    batches = [one for one in wave.get("shipped_repos") or () if one["integration"]["receipts"]]
    if batches:
        kept = {"repos": [{"repo": b["repo"], **b["integration"]} for b in batches]}
        files[folder / BATCH_DETAILS] = {"wave_id": wave.get("wave_id"), **kept}
    short = {
        **wave,
        "built": list(lines.values()),
        "shipped_repos": [_shipment(one, folder) for one in wave.get("shipped_repos") or ()],
        "read_first": [_reason(one) for one in wave.get("read_first") or ()],
    }
    if wave is report:
        return short, files
    shipped = [
        {**one, "buildRecord": _short_of(one.get("buildRecord"))}
        for one in report.get("items_shipped") or ()
    ]
    return {**report, "items_shipped": shipped, "wave": short}, files


def join(report: Json) -> dict[str, Any]:
    """The whole report of a short document. A record whose details are missing stays short."""
    wave = wave_of(report)
    records = [_joined(one) for one in wave.get("built") or ()]
    batches = [_joined_batch(one) for one in wave.get("shipped_repos") or ()]
    joined = {"built": records, "shipped_repos": batches}
    whole = {**wave, **{key: value for key, value in joined.items() if key in wave}}
    if wave is report:
        return whole
    by_slug = {one.get("slug"): one for one in records}
    shipped = [
        {**one, "buildRecord": by_slug.get(one.get("slug"), one.get("buildRecord"))}
        for one in report.get("items_shipped") or ()
    ]
    return {**report, "items_shipped": shipped, "wave": whole}


def with_sizes(report: Json, sizes: Mapping[str, Json]) -> Json:
    """The whole report with the size of each change."""
    wave = wave_of(report)
    records = [{**one, "diff": sizes.get(one["slug"])} for one in wave.get("built") or ()]
    sized = {**wave, "built": records}
    return sized if wave is report else {**report, "wave": sized}


def wave_of(report: Json) -> Json:
    """The wave's report in the report of a cycle, or the report itself."""
    wave = report.get("wave")
    return wave if isinstance(wave, Mapping) and wave else report


def whole_record(record: Json, folder: Path) -> Json:
    """The whole record of an item whose wave has `folder`, which may have been moved since."""
    if not record.get("details"):
        return record
    try:
        path = folder / stored_slug(str(record.get("slug"))) / DETAILS
    except ValueError:
        return record
    return _joined({**record, "details": str(path)})


def _line(record: Json, path: Path, size: Json | None) -> OneLine:
    """The item's line: at most `MOST_BYTES`, unless its names and numbers alone are longer."""
    attempts: list[Json] = list(record.get("attempts") or ())
    short = {
        **record,
        **{key: shortened(record.get(key), _MOST_CHARS) for key in _LONG},
        **{key: list(record.get(key) or ())[:_MOST_LISTED] for key in _LISTS},
        "attempts": [_attempt(one, last=one is attempts[-1]) for one in attempts],
        "phases": [
            {"phase": one["phase"], "status": one["status"]} for one in record.get("phases") or ()
        ],
        "reviews": _some(record.get("reviews"), ("round", "verdict")),
        "together": [],
    }
    added = {
        "tests": counts_before_and_after(record),
        "backend": backend_of(record),
        **times(record),
        "diff": size,
        "details": str(path),
    }
    most = MOST_BYTES - _NAMES * len(json.dumps(record["slug"]))
    most += 0 if record.get("verified") else _NOT_SHIPPED
    for shrink in _SHRINKS:
        if len(json.dumps({**short, **added})) <= most:
            break
        short = shrink(short)
    cut = [key for key in record if short.get(key) != record[key]]
    return OneLine({**short, **added, "cut": cut})


def _without(keys: Iterable[str]) -> Callable[[Json], dict[str, Any]]:
    return lambda short: {**short, **{key: [] for key in keys}}


def _last_attempt(short: Json) -> dict[str, Any]:
    return {**short, "attempts": list(short["attempts"])[-1:]}


def _words_cut_at(limit: int) -> Callable[[Json], dict[str, Any]]:
    return lambda short: {**short, **{key: shortened(short.get(key), limit) for key in _LONG}}


_SHRINKS: tuple[Callable[[Json], dict[str, Any]], ...] = (
    _without(("phases", "reviews")),
    _last_attempt,
    _without(_LISTS),
    _words_cut_at(100),
    _without(("attempts",)),
    _words_cut_at(30),
)


def _some(objects: Iterable[Json] | None, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The objects with these keys only."""
    return [{key: one.get(key) for key in keys} for one in objects or ()]


def _attempt(attempt: Json, *, last: bool) -> dict[str, Any]:
    """An attempt in the item's line; only the last one has its test."""
    short = {key: attempt.get(key) for key in ("number", "phase", "verdict")}
    if not last:
        return short
    test = attempt.get("test")
    named = ("kind", "exit", "outputFile")
    return {**short, "test": {key: test.get(key) for key in named} if test else None}


def _reason(read_first: Json) -> dict[str, Any]:
    """The first three reasons; the item's details have all."""
    why = [shortened(one, _MOST_CHARS) for one in read_first.get("why") or ()]
    return {**read_first, "why": why[:3]}


def _shipment(shipment: Json, folder: Path) -> dict[str, Any]:
    """A shipment without the receipts of its batch, which have a file of their own."""
    integration = shipment["integration"]
    if not integration["receipts"]:
        return dict(shipment)
    short = {**integration, "receipts": [], "details": str(folder / BATCH_DETAILS)}
    return {**shipment, "integration": short}


def _short_of(record: object) -> dict[str, Any] | None:
    """Names the record of a shipped item, which `wave.built` has."""
    if not isinstance(record, Mapping):
        return None
    return {key: record.get(key) for key in ("slug", "verdict")}


def _joined(record: Json) -> Json:
    named = record.get("details")
    if not named:
        return record
    whole = _read(Path(str(named)))
    if whole is None or whole.get("slug") != record.get("slug"):
        return record
    added = {key: value for key, value in record.items() if key not in whole and key != "cut"}
    return {**{key: value for key, value in whole.items() if key != "wave_id"}, **added}


def _joined_batch(shipment: Json) -> Json:
    integration = shipment.get("integration") or {}
    kept = _read(Path(str(integration.get("details")))) if integration.get("details") else None
    for one in (kept or {}).get("repos") or ():
        if one.get("repo") == shipment.get("repo"):
            receipts = {"runs": one.get("runs"), "receipts": one.get("receipts")}
            return {**shipment, "integration": receipts}
    return shipment


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = read_json(path)
    except (BadFileError, OSError):
        return None
    return found if isinstance(found, dict) else None
